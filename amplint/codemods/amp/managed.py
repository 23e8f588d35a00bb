"""Scripts whose training a framework runs: it has a switch of its own for mixed precision."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.codemods.conversion import Change, Plan, Remark
from amplint.codemods.names import Use, imported, uses
from amplint.codemods.script import Script
from amplint.findings import Fix
from amplint.source import syntax as cst
from amplint.torchlib.frameworks import MANAGERS, loop_kind

_LIBRARIES = ("accelerate", "lightning", "lightning_fabric", "pytorch_lightning", "transformers", "trl")
_MIXED = {"float16": '"16-mixed"', "bfloat16": '"bf16-mixed"'}
_SHORT = {"float16": "fp16", "bfloat16": "bf16"}
_PARSER = "transformers.HfArgumentParser"
_SWITCHED = ("arguments", "lightning loop")


def may_be(text: str) -> bool:
    """Whether `text` speaks of one of these frameworks."""
    return any(library in text for library in _LIBRARIES)


def plan(script: Script, dtype: str) -> Plan | None:
    """Switch mixed precision on where a framework is set up; None where none is.

    What is switched already, to whatever, is left alone.
    """
    found = list(_setups(script))
    if not found:
        return None
    changes, refused, left = list[Change](), list[Remark](), list[Remark]()
    for use in found:
        row = script.row(use.node)
        if use.name == _PARSER:
            left.append(Remark(row, f"the Trainer brings mixed precision of its own: run this with --{_SHORT[dtype]}"))
            continue
        assert use.call is not None
        names, value = _switch(use.name, dtype)
        if any(script.rewrite.find_argument(use.call, name) is not None for name in names):
            continue
        edit = script.rewrite.set_argument(use.call, names[0], value)
        if edit is None:
            refused.append(Remark(row, f"this takes {names[0]}={value}, and ** hides what it is given"))
        else:
            told = Remark(row, f"ask the framework for mixed precision: {names[0]}={value}")
            changes.append(Change(Fix("Switch mixed precision on", (edit,)), (told,)))
    return Plan(tuple(changes), tuple(refused), tuple(left))


def _setups(script: Script) -> Iterator[Use]:
    """The calls that set a framework up, and what parses such settings."""
    known = {
        bound: name
        for statement in script.of_kind(cst.Import, cst.ImportFrom)
        for library in _LIBRARIES
        for bound, name in imported(script, statement, library)
    }
    for use in uses(script, known):
        if use.call is not None and (use.name in MANAGERS or use.name == _PARSER or loop_kind(use.name) in _SWITCHED):
            yield use


def _switch(name: str, dtype: str) -> tuple[tuple[str, ...], str]:
    """The argument that switches mixed precision on, before others that do, and its value."""
    if MANAGERS.get(name) == "accelerate":
        return ("mixed_precision",), f'"{_SHORT[dtype]}"'
    if loop_kind(name) == "arguments":
        other = "bf16" if dtype == "float16" else "fp16"
        return (_SHORT[dtype], other, "half_precision_backend"), "True"
    return ("precision", "plugins"), _MIXED[dtype]
