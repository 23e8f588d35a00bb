"""`amplint rule`: the documentation of the rules."""

from __future__ import annotations

import json
import sys

import click

from amplint.api import RuleDescription, describe
from amplint.cli.failures import Failure, load_rules
from amplint.engine.select import nearest_rule


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
    described = [describe(kind) for kind in rules]
    if output_format == "json":
        records = [_record(each) for each in described]
        click.echo(json.dumps(records if everything else records[0], indent=2))
    else:
        _show("\n\n".join(_page(each) for each in described))
    ctx.exit(0 if complete else 2)


def _fixable(described: RuleDescription) -> str | None:
    return described.fixable.value if described.fixable else None


def _record(described: RuleDescription) -> dict[str, str | bool | None]:
    return {
        "code": described.code,
        "name": described.name,
        "severity": described.severity.label,
        "fix": _fixable(described),
        "default": described.default,
        "summary": described.summary,
        "page": described.documentation,
        "url": described.url,
    }


def _page(described: RuleDescription) -> str:
    facts = f"Severity: {described.severity.label}. Fix: {_fixable(described) or 'no'}."
    if not described.default:
        facts += " Off by default."
    return f"# {described.code} {described.name}\n\n{facts}\n\n{described.documentation}"


def _show(markdown: str) -> None:
    if not sys.stdout.isatty():
        click.echo(markdown)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(markdown))
