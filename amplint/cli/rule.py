"""`amplint rule`: the documentation of the rules."""

from __future__ import annotations

import json
import sys

import click

from amplint.cli.failures import Failure, load_rules
from amplint.engine.select import nearest_rule
from amplint.rule import Rule


@click.command()
@click.argument("code_or_name", metavar="[CODE|NAME]", required=False)
@click.option("--all", "everything", is_flag=True, help="Print the pages of all rules.")
@click.option(
    "--output-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Markdown (rendered on a terminal), or JSON with all a program may want to know.",
)
@click.pass_context
def rule(ctx: click.Context, code_or_name: str | None, everything: bool, output_format: str) -> None:
    """Print the page of a rule: what it finds, why that is bad and what to write instead.

    Exit status: 0, or 2 when there is no such rule or a plug-in could not be loaded.
    """
    if everything == (code_or_name is not None):
        raise click.UsageError("Name one rule, or give --all.", ctx)
    registry, complete = load_rules()
    if code_or_name is None:
        rules = list(registry.rules.values())
    else:
        found = registry.find(code_or_name)
        if found is None:
            near = nearest_rule(code_or_name, registry.rules)
            raise Failure(f'no rule has the code or name "{code_or_name}"{near}')
        rules = [found]
    if output_format == "json":
        records = [_record(kind) for kind in rules]
        click.echo(json.dumps(records if everything else records[0], indent=2))
    else:
        _show("\n\n".join(_page(kind) for kind in rules))
    ctx.exit(0 if complete else 2)


def _fixable(kind: type[Rule]) -> str | None:
    return kind.fixable.value if kind.fixable else None


def _record(kind: type[Rule]) -> dict[str, str | bool | None]:
    return {
        "code": kind.code,
        "name": kind.name,
        "severity": kind.severity.label,
        "fix": _fixable(kind),
        "default": kind.default,
        "summary": kind.summary(),
        "page": kind.page(),
        "url": kind.url(),
    }


def _page(kind: type[Rule]) -> str:
    facts = f"Severity: {kind.severity.label}. Fix: {_fixable(kind) or 'no'}."
    if not kind.default:
        facts += " Off by default."
    return f"# {kind.code} {kind.name}\n\n{facts}\n\n{kind.page()}"


def _show(markdown: str) -> None:
    if not sys.stdout.isatty():
        click.echo(markdown)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(markdown))
