"""The page "mixed precision today", written from the tables of libraries."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.rule import Rule
from amplint.torchlib.changes import CHANGES, Change
from amplint.torchlib.deepspeed import OF_FLOAT16, SCALE_POWER
from amplint.torchlib.float8 import LAYERS, MULTIPLE
from amplint.torchlib.practice import PRACTICES, Practice

INTRODUCTION = """\
# Mixed precision today

Which library casts, scales, divides and clips what, when it is asked for mixed precision. What a library does is not
for the script to do again, and what it does not do, nobody does. amplint goes by these tables, and its tests ask the
libraries that are installed.
"""
FAMILIES = {
    "fully_shard": ("AMP711", "AMP713", "AMP714", "AMP715"),
    "fsdp": ("AMP216", "AMP711", "AMP712", "AMP713", "AMP714", "AMP715"),
    "deepspeed": ("AMP721", "AMP722", "AMP723", "AMP724", "AMP725", "AMP707", "AMP732"),
    "accelerate": ("AMP705", "AMP707", "AMP731", "AMP732", "AMP733", "AMP734", "AMP735", "AMP736"),
    "fabric": ("AMP705", "AMP706", "AMP707", "AMP742"),
    "lightning": ("AMP706", "AMP707", "AMP742", "AMP743"),
    "transformers": ("AMP706", "AMP741", "AMP744", "AMP745"),
    "torchao": ("AMP751", "AMP752", "AMP753"),
    "transformer_engine": ("AMP761", "AMP762", "AMP763"),
}
"""Key of a practice -> rules about it alone, or almost."""


def today_page(rules: Sequence[type[Rule]]) -> str:
    """The page. Raises KeyError where a rule is named that does not exist."""
    names = {rule.code: rule.name for rule in rules}
    sections = [_section(practice, names) for practice in PRACTICES]
    return "\n\n".join([INTRODUCTION.rstrip(), *sections, _changes(), _numbers()]) + "\n"


def _section(practice: Practice, names: dict[str, str]) -> str:
    found = ", ".join(f"[{names[code]}](rules/{code}.md)" for code in FAMILIES.get(practice.key, ()))
    rows = [
        ("asked for by", practice.asked),
        ("casts", practice.casts),
        ("scales the loss", practice.scales),
        ("divides the loss", practice.divides),
        ("clips gradients", practice.clips),
        ("read in", f"{practice.versions}: {practice.source}"),
        *([("rules", found)] if found else []),
    ]
    return "\n".join(
        [f"## {practice.title}", "", "| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows)]
    )


def _changes() -> str:
    introduction = (
        "## What changed\n\nWhat is found depends on these. Which version counts is said by"
        " [`library-versions`](configuration.md), or by lock files and requirements; a finding says what it went by."
    )
    rows = ["| library | since | now | before | source |", "|---|---|---|---|---|", *map(_change, CHANGES)]
    return "\n".join([introduction, "", *rows])


def _change(change: Change) -> str:
    return f"| {change.package} | {change} | {change.now} | {change.before} | {change.source} |"


def _numbers() -> str:
    """Sizes and settings that the rules compare with."""
    sizes = [
        f"- `{name}`: " + ", ".join(f"`{size}` a multiple of {multiple}" for size, _, multiple in layer.sizes)
        for name, layer in sorted(LAYERS.items())
    ]
    settings = ", ".join(f"`{name}`" for name in sorted(OF_FLOAT16))
    return "\n".join(
        [
            "## Sizes and settings",
            "",
            f"Products in float8 need sizes that are multiples of {MULTIPLE}. Those of Transformer Engine's layers:",
            "",
            *sizes,
            "",
            f'DeepSpeed has these settings in the block `"fp16"` alone: {settings}. Its first scale is'
            f" 2<sup>{SCALE_POWER[1]}</sup>.",
        ]
    )
