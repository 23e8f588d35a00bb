"""Writes what the documentation derives from the code: the rules' pages and their list, the first look of the site, the
pages of guesses by name, of events and of what libraries do, and the schemas of traces, findings, rules and settings.

python -m docs.generate
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from amplint.engine.registry import load_registry
from amplint.rule import Rule
from amplint.semantics import events
from amplint.semantics.events import Event
from amplint.semantics.words import GUESSES, Guess
from amplint.trace.schema import Schema, schema
from docs.practice_page import today_page
from docs.report_schema import findings_schema, rules_schema
from docs.settings_schema import settings_schema

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "rules"
DOCS = ROOT / "docs"
INDEX = DOCS / "index.md"
RULES_PAGE = DOCS / "rules.md"
RULES_INTRODUCTION = """\
# Rules

An **error** raises or corrupts training, a **warning** silently degrades it, an **info** costs speed or portability.
A fix is *safe* when it keeps every intended behaviour and *unsafe* when it may change results. `amplint rule AMP205` or
`amplint rule clip-without-unscale` shows a page on the terminal.

A rule reports only mistakes that are real for the device and dtype at hand: `BCELoss` is fine under CPU autocast,
`1e-8` is fine in bfloat16, a plain `loss.backward()` is right without a scaler.

Findings rest on evidence that a tensor is half: a region, a conversion, half parameters. A rule that is selected, by
code, prefix, name or `ALL`, and not just on by default, may go further: the rules about numerics, seams and custom
functions (AMP401, 402, 404, 405, 408, 501 to 504, 601 and 605) then also report, as infos, what would happen in half
precision to tensors of unknown dtype, except in files of tests. Where only its name identifies an object, the finding
says so: [what is guessed by names](guesses.md).

Of AMP7, the codes AMP71x are about models that PyTorch shards, AMP72x about DeepSpeed, AMP73x about Accelerate and
Fabric, AMP74x about frameworks that run the whole loop, AMP75x about float8 by torchao, and AMP76x about float8 by
Transformer Engine.

The rules about [runs](trace.md) (AMP8) belong to `amplint trace`. Opportunities (AMP9) are off by default: they are
selected by code, prefix, name or `ALL`, and their repair is a [conversion](codemods.md) of the whole file. Where
`--select` names nothing else, `--fix` makes it without `--unsafe-fixes`.
"""
FAMILIES = {
    "AMP0": "Files and comments",
    "AMP1": "Autocast regions",
    "AMP2": "Gradient scaling",
    "AMP3": "Gradient accumulation",
    "AMP4": "Numerics in half",
    "AMP5": "Where dtypes meet",
    "AMP6": "Custom autograd",
    "AMP7": "Old APIs and frameworks",
    "AMP8": "What a run shows",
    "AMP9": "Opportunities",
}
GUESSES_PAGE = ROOT / "docs" / "guesses.md"
EVENTS_PAGE = ROOT / "docs" / "events.md"
TODAY_PAGE = ROOT / "docs" / "today.md"
EVENTS_INTRODUCTION = """\
# Events

The events of a script that rules handle, emitted in execution order on each path. A rule handles an event by the method
`on_` with the name of its kind, and imports its class from `amplint.semantics.events`. Every event has the fields of
`Event`. An event is emitted on every path that reaches it, so that the same node can occur several times.
"""
GUESSES_INTRODUCTION = """\
# Guesses by name

Where nothing in the code tells what a thing is, amplint goes by what it is called. These are all the names it goes by,
what it takes them for, and why. A finding that is there by such a name alone says so ("`optim` is taken for an
optimizer by its name."); where something else tells what the thing is, the name is not mentioned. A finding that is
wrong because of a name is worth an issue.
"""


def block(text: str, name: str, content: str) -> str:
    """`text` with what stands between the markers of `name` replaced. Raises ValueError without such markers."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    replaced, times = pattern.subn(lambda found: f"{found[1]}{content}\n{found[2]}", text)
    if times != 1:
        raise ValueError(f"there are {times} blocks named {name}")
    return replaced


def fixable(rule: type[Rule]) -> str:
    """The word for what `--fix` does at best."""
    return rule.fixable.value if rule.fixable else "no"


def rule_table(rules: list[type[Rule]]) -> str:
    """One Markdown row per rule."""
    rows = ["| code | name | severity | what it finds | fix |", "|---|---|---|---|---|"]
    for rule in rules:
        summary = rule.summary().rstrip(".").replace("|", r"\|")
        link = f"[{rule.code}](rules/{rule.code}.md)"
        rows.append(f"| {link} | {rule.name} | {rule.severity.label} | {summary} | {fixable(rule)} |")
    return "\n".join(rows)


def rules_page(rules: list[type[Rule]]) -> str:
    """The list of rules, by family."""
    families = [
        f"## {title}\n\n{rule_table([rule for rule in rules if rule.code.startswith(prefix)])}"
        for prefix, title in FAMILIES.items()
    ]
    return "\n\n".join([RULES_INTRODUCTION.rstrip(), *families]) + "\n"


def rule_page(rule: type[Rule]) -> str:
    """The page of one rule: its docstring under a heading."""
    facts = f"Severity: {rule.severity.label}. Fix: {fixable(rule)}."
    return f"# {rule.code} {rule.name}\n\n{facts}\n\n{rule.page()}\n"


def guess_section(guess: Guess) -> str:
    """What is guessed by one pattern, and why."""
    examples, counterexamples = (
        ", ".join(f"`{name}`" for name in names) for names in (guess.examples, guess.counterexamples)
    )
    told = "- Findings that are there by it alone say so\n" if guess.decides else ""
    known = f"- No guess: {', '.join(f'`{name}`' for name in guess.known)}\n" if guess.known else ""
    return (
        f"## {guess.name[0].upper()}{guess.name[1:]}\n\nLooked at: {guess.of}. {guess.because}\n\n"
        f"- Pattern: `{guess.pattern}`\n- Found in: {examples}\n- Not in: {counterexamples}\n"
        f"{told}{known}"
    )


def event_section(event: type[Event]) -> str:
    """One event: the method that hears of it, its docstring, and the fields that it adds to those of its base."""
    base = event.__mro__[1]
    inherited = {field.name for field in dataclasses.fields(base)} if dataclasses.is_dataclass(base) else set()
    own = [field for field in dataclasses.fields(event) if field.name not in inherited]
    heard = "" if event is Event else f"`on_{event.kind}`" + ("" if base is Event else f", a `{base.__name__}`")
    fields = "\n".join(f"- `{field.name}: {field.type}`" for field in own)
    return "\n\n".join(filter(None, [f"## {event.__name__}", heard, inspect.cleandoc(event.__doc__ or ""), fields]))


def events_page() -> str:
    """The page of events, the one that all derive from first."""
    kinds = [kind for name in events.__all__ if isinstance(kind := getattr(events, name), type)]
    told = sorted(
        (kind for kind in kinds if issubclass(kind, Event)), key=lambda kind: (kind is not Event, kind.__name__)
    )
    return "\n\n".join([EVENTS_INTRODUCTION.rstrip(), *map(event_section, told)]) + "\n"


def shown(command: str) -> str:
    """A shell prompt with `command`, which runs amplint and finds something, and what it prints."""
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100"}
    program = "import sys; from amplint.cli.main import main; main([*sys.argv[1:], '--no-cache'])"
    arguments = [sys.executable, "-c", program, *command.split()[1:]]
    done = subprocess.run(arguments, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 1:
        raise RuntimeError(done.stdout + done.stderr)
    return "\n".join([f"$ {command}", *(line.rstrip() for line in done.stdout.rstrip().splitlines())])


def first_look() -> str:
    """All findings in the example script, one of them in full, as a Markdown block."""
    findings = shown("amplint examples/train.py --output-format concise")
    one = shown("amplint examples/train.py --select clip-without-unscale")
    return f"```text\n{findings}\n\n{one}\n```"


def schemas(rules: list[type[Rule]]) -> dict[str, Schema]:
    """The JSON Schemas by name."""
    return {
        "amplint": settings_schema(rules),
        "findings": findings_schema(),
        "rules": rules_schema(),
        "trace": schema(),
    }


def outputs() -> dict[Path, str]:
    """Every generated file with the text it should have."""
    rules = list(load_registry().rules.values())
    index = block(INDEX.read_text(encoding="utf-8"), "first-look", first_look())
    pages = {PAGES / f"{rule.code}.md": rule_page(rule) for rule in rules}
    guesses = "\n".join([GUESSES_INTRODUCTION, *map(guess_section, GUESSES)])
    return {
        INDEX: index,
        RULES_PAGE: rules_page(rules),
        EVENTS_PAGE: events_page(),
        GUESSES_PAGE: guesses,
        TODAY_PAGE: today_page(rules),
        **{DOCS / f"{name}.schema.json": json.dumps(each, indent=2) + "\n" for name, each in schemas(rules).items()},
        **pages,
    }


def main() -> None:
    """Write the files, and remove the pages of rules that are gone."""
    wanted = outputs()
    PAGES.mkdir(exist_ok=True)
    for path in set(PAGES.glob("*.md")) - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
