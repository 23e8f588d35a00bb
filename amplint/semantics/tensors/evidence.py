"""Evidence that a tensor is or can be half."""

from __future__ import annotations

from amplint.regex import regex
from amplint.semantics.events import COORDINATES, Because, Evidence
from amplint.semantics.python.machine import Machine
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors.datasets import prepares_data
from amplint.semantics.tensors.devices import reaches
from amplint.semantics.tensors.masks import (
    branches_on_dtypes,
    branches_on_dtypes_around,
    computed_before_choice,
    unhandled_halves,
)
from amplint.semantics.tensors.tensors import FROM_PARAMETER, Tensors, is_data, is_perhaps_wide
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Source
from amplint.torchlib.names import HALF_DTYPES

_BOTH = frozenset(HALF_DTYPES)
_COMMENT = regex(r"#[^\n]*")
_BFLOAT16 = regex(r"\bbfloat16\b")
_FLOAT16 = regex(r"(?i)(?<!b)float16|fp_?16|half|16-mixed")


def evidence(machine: Machine, state: State, value: Tensor, place: cst.BaseExpression | None = None) -> Evidence | None:
    """The evidence that `value` is or can be half; None without evidence, or where the function branches on dtypes.

    Such a branch says nothing of a variable, at `place`, that was computed before it. A value of unknown dtype can be
    half within a region, unless it is an item of the training data or of a function out of sight that converts to
    float32, and anywhere if the rules assume so.
    """
    if value.dtype in HALF_DTYPES and not (value.supposed and branches_on_dtypes(machine)):
        because = machine[Tensors].half_because.get(value.why_half, Because.CAST)
        return Evidence(because, frozenset({value.dtype}), f"the tensor is {value.dtype} from here on", value.why_half)
    left = _BOTH
    if branches_on_dtypes(machine) and (place is None or not computed_before_choice(machine, place)):
        left = unhandled_halves(machine) if place is not None and machine.assumes else frozenset()
        if not left or value.dtypes is not None:
            return None
    if value.dtype == FROM_PARAMETER and _is_here(machine, value.why_half):
        halves = machine[Tensors].half_options.get(value.why_half, _BOTH)
        text = f"the dtype chosen here can be {' or '.join(sorted(halves))}"
        return Evidence(Because.ANNOUNCED, halves, text, value.why_half)
    if value.among is not None:
        if not value.among or not value.among <= _BOTH:
            return None
        return Evidence(Because.REGION, value.among, "the tensor is half from here on", value.why_half)
    if machine.assumes:
        left &= _halves_of(machine.program.main)
    if value.dtype is None and not is_data(machine, value.symbol):
        region, entered_by = innermost(machine, state)
        halves = (region.dtypes or frozenset()) & _BOTH if region is not None else frozenset()
        in_reach = region is not None and reaches(region.devices, value.device)
        if halves and in_reach and not is_perhaps_wide(machine, value.symbol):
            dtype = " or ".join(sorted(halves))
            return Evidence(Because.REGION, halves, f"the {dtype} autocast region begins here", entered_by)
        if machine.assumes and left and not prepares_data(machine):
            return Evidence(Because.ASSUMED, left, "nothing here tells its dtype, which may be half", None)
    return None


def evidence_of_source(machine: Machine, node: cst.CSTNode, made: Tensor) -> Evidence | None:
    """The evidence that a tensor `made` at `node` takes its dtype from one that can be half.

    For coordinates the code provides for half; other integers may be meant for float32 alone.
    """
    if branches_on_dtypes_around(machine, node):
        return None
    because = Because.ANNOUNCED if COORDINATES in made.traits or not machine.assumes else Because.ASSUMED
    return Evidence(
        because, _halves_of(machine.program.main), "the dtype is that of another tensor, which can be half", node
    )


@cached_per_file
def _halves_of(source: Source) -> frozenset[str]:
    """The half dtypes of tensors of unknown dtype: bfloat16 alone where the code of a file names no other."""
    code = _COMMENT.sub("", source.text)
    alone = _BFLOAT16.search(code) is not None and _FLOAT16.search(code) is None
    return frozenset({"bfloat16"}) if alone else _BOTH


def _is_here(machine: Machine, node: cst.CSTNode | None) -> bool:
    """Whether `node` stands in the running function."""
    return (
        node is not None
        and bool(machine.calls)
        and (source := machine.program.source_of(node)) is not None
        and machine.calls[-1] in source.ancestors(node)
    )
