"""Values chosen by unseen code among several."""

from __future__ import annotations

from collections.abc import Iterable

from amplint.semantics.values.facts import Facts
from amplint.semantics.values.values import (
    Class,
    Const,
    Function,
    Instance,
    Module,
    OneOf,
    Option,
    Ref,
    Several,
    Value,
)
from amplint.torchlib.names import DTYPES
from amplint.torchlib.policy import MODULE_OPS

OPTIONS_KEPT = 4
OBJECTS = (Class, Function, Instance)
"""The kinds of options that are taken one on each path, since their code can have any effect."""


def alternatives(values: tuple[Value, ...]) -> OneOf | None:
    """One value for several possible strings or dtypes, None for anything else."""
    options: set[str] = set()
    for value in values:
        if isinstance(value, Const) and isinstance(value.value, str):
            options.add(value.value)
        elif isinstance(value, Ref) and value.name in DTYPES:
            options.add(value.name)
        elif isinstance(value, OneOf):
            options |= value.options
        else:
            return None
    return OneOf(frozenset(options)) if options else None


def choice_of(symbol: int, values: Iterable[Value], facts: Iterable[Facts]) -> Several | None:
    """A value that is one of `values`, each under the path's `facts`; None if none of them can be called in sight."""
    found: dict[Value, Option] = {}
    is_open = False
    for value, assumed in zip(values, facts, strict=True):
        options = _options(value, assumed)
        is_open |= not options or (isinstance(value, Several) and value.open)
        for option in options:
            known = found.get(option.value)
            found[option.value] = option if known is None else Option(option.value, option.facts & known.facts)
    classes = {value.cls if isinstance(value, Instance) else value for value in found if isinstance(value, OBJECTS)}
    if not found or len(classes) == 1 or (len(found) > OPTIONS_KEPT and not classes):
        return None
    return Several(symbol, tuple(found.values())[:OPTIONS_KEPT], is_open or len(found) > OPTIONS_KEPT)


def _options(value: Value, facts: Facts) -> list[Option]:
    assumed = frozenset(facts.items())
    if isinstance(value, Several):
        return [Option(one.value, one.facts | assumed) for one in value.options]
    if isinstance(value, OBJECTS) or (isinstance(value, Module) and not value.parts):
        return [Option(value, assumed)]
    return [Option(value, assumed)] if isinstance(value, Ref) and _runs_operation(value.name) else []


def _runs_operation(name: str) -> bool:
    """Whether this is a function of `torch.nn.functional`, or a class of modules that run one operation."""
    owner, _, last = name.rpartition(".")
    return owner == "torch.nn.functional" or (name.startswith("torch.nn.") and last in MODULE_OPS)
