"""Calls of functions in other files that raise for half, as losses do: float32, in a region that is off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.codemods.mending import wrapped_in_float32
from amplint.edits.casting import used_as_tensor
from amplint.findings import Finding, Fix
from amplint.semantics.models.half_outputs import is_loss
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.rewrite import Rewriter
from amplint.source.source import Source
from amplint.source.tree import every
from amplint.training.bindings import bound_paths, called_name, constructor
from amplint.training.givers import is_model
from amplint.training.halves import halves_of, regions_of
from amplint.training.surroundings import whole_program

_OF_LOSSES = "bce-in-autocast"
_OF_OUTPUTS = "loss-in-half"
RULES = (_OF_LOSSES, "unsupported-half-op", "dtype-mismatch-after-autocast")
"""The rules about operations that raise for half."""
_VARIABLES = (cst.Name, cst.Attribute, cst.Subscript)


def islands(text: str, path: str, findings: Sequence[Finding]) -> Iterator[Fix]:
    """The fixes of those `findings` that a call of another file leads to, with its half arguments in float32.

    A finding names one of the calls in regions that lead to its place, of which each needs the fix.
    """
    halves = halves_of(text, path)
    source, rewrite = halves.source, Rewriter(halves.source)
    calls = [call for chunk in source.chunks for call in every(chunk.module, cst.Call)]
    found = {one.span: one.name for one in findings if one.name in RULES and one.elsewhere is not None}
    if any(one.name == _OF_OUTPUTS for one in findings):
        found |= {source.span(call): _OF_LOSSES for call in losses_of_models(source)}
    spans = {
        span
        for call in calls
        if (span := source.span(call)) in found and (found[span] == _OF_LOSSES or _is_no_network(source, call))
    }
    names = {dotted(call.func) for call in calls if source.span(call) in spans}
    for call in calls:
        if source.span(call) not in spans and not (dotted(call.func) in names and halves.is_inside(call)):
            continue
        statement, half = rewrite.statement_of(call), halves.arguments(call)
        if not half or not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) > 1:
            continue
        if any(not isinstance(one, _VARIABLES) or used_as_tensor(one, rewrite) is False for one in half):
            continue
        fix = wrapped_in_float32(source, [statement], half, _device_type(source))
        if fix is not None:
            yield fix


def losses_of_models(source: Source) -> Iterator[cst.Call]:
    """The calls of an attribute of a model in sight that is binary cross-entropy of probabilities."""
    models = [chunk for chunk in whole_program(source).chunks if is_model(chunk) and "BCELoss" in chunk.words]
    assigned = (one for chunk in models for one in every(chunk.module, cst.Assign))
    losses = {path for one in assigned if called_name(constructor(one.value)) == "BCELoss" for path in bound_paths(one)}
    for call in (one for chunk in source.chunks for one in every(chunk.module, cst.Call)):
        owner, _, name = (dotted(call.func) or "").rpartition(".")
        if owner not in ("", "self") and f"self.{name}" in losses:
            yield call


def _is_no_network(source: Source, call: cst.Call) -> bool:
    """Whether `call` is of an imported function, or of a loss by its name: a network is to compute in half."""
    return (dotted(call.func) or "").partition(".")[0] in source.imports or is_loss(called_name(call))


def _device_type(source: Source) -> str:
    """The device type of the regions of a file, as the first one spells it."""
    items = (item for region in regions_of(source) for item in region.items)
    calls = (call for item in items for call in every(item, cst.Call) if called_name(call) == "autocast")
    given = (one for call in calls for one in call.args if one.keyword is None or one.keyword.value == "device_type")
    first = next(given, None)
    return source.code(first.value) if first is not None else '"cuda"'


def literal_device(source: Source) -> str | None:
    """The device type of the regions of a file, None if it is no constant."""
    spelled = _device_type(source)
    return spelled if spelled[1:-1].isalpha() else None
