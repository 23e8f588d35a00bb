"""Functions called by unseen code, around which the autocast state is unknown."""

from __future__ import annotations

import functools

from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.scopes import last_name
from amplint.semantics.words import FUNCTION_CLASS
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Source
from amplint.torchlib.policy import treatment


def may_be_cast(machine: Machine, op: str) -> bool:
    """Whether `op` runs in the forward pass of a custom function, which may be called in a region that casts it."""
    return op in _treated_operators(machine.program.torch) and _is_applied(machine, casting=False)


def may_be_inside(machine: Machine) -> bool:
    """Whether the forward pass of a custom function is running, which may be called in an unseen region."""
    return _is_applied(machine, casting=True)


def _is_applied(machine: Machine, *, casting: bool) -> bool:
    """Whether the forward pass of a custom function is running; with `casting`, also one that disables autocast."""
    return any(
        (source := machine.program.source_of(node)) is not None and _is_custom_forward(source, node, casting)
        for node in machine.calls
    )


@functools.cache
def _treated_operators(version: str | None) -> frozenset[str]:
    table = treatment(version)
    return frozenset().union(
        *(named[device] for named in (table.lower, table.float32, table.promote) for device in named)
    )


@cached_per_file
def _is_custom_forward(source: Source, node: cst.CSTNode, casting: bool) -> bool:
    if not isinstance(node, cst.FunctionDef) or node.name.value != "forward":
        return False
    params = node.params.params
    if not params or params[0].name.value == "self":
        return False
    if not casting and "cast_inputs" in _decorators(node):
        return False
    cls = next((above for above in source.ancestors(node) if isinstance(above, cst.ClassDef)), None)
    return cls is not None and is_custom_function(cls)


def is_custom_function(cls: cst.ClassDef) -> bool:
    """Whether a class extends `torch.autograd.Function`, by the names of its bases."""
    return any(FUNCTION_CLASS.search(last_name(base.value)) for base in cls.bases)


def _decorators(node: cst.FunctionDef) -> list[str]:
    """The keyword arguments of a function's decorators."""
    calls = (decorator.decorator for decorator in node.decorators)
    given = (argument for call in calls if isinstance(call, cst.Call) for argument in call.args)
    return [argument.keyword.value for argument in given if argument.keyword is not None]
