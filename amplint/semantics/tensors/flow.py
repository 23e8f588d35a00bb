"""Dtype flow: the dtype of an operation's result, and the event that reports the operation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from amplint.findings import Guessed
from amplint.semantics.events import SCALED_LATE, Because, Operand, Operation, ScaledLate
from amplint.semantics.python.machine import Machine
from amplint.semantics.regions.callers import may_be_cast
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.regions.ran import without_gradients
from amplint.semantics.regions.tracker import remembers_other_dtypes
from amplint.semantics.tensors import (
    clash_pairs,
    clashes,
    coarse_frequencies,
    divergences,
    fixed_halves,
    joins,
    lifted_inputs,
    own_sums,
    probabilities,
    sensitive,
    statistics,
    traits,
)
from amplint.semantics.tensors.devices import common, reaches
from amplint.semantics.tensors.evidence import evidence, evidence_of_source
from amplint.semantics.tensors.masks import branches_on_dtypes_before
from amplint.semantics.tensors.operands import runs
from amplint.semantics.tensors.tensors import (
    FROM_PARAMETER,
    Tensors,
    dtype_of,
    is_data,
    is_dtype,
    is_dtype_assumed,
    is_number,
    tensor_guesses,
)
from amplint.semantics.tensors.weights import Weights
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Tensor, Unknown, Value, number
from amplint.source import syntax as cst
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.operations import ATTENTION, CLASSIFIES, UNKNOWN, Outcome, known, outcome
from amplint.torchlib.policy import LOWER, Regime
from amplint.torchlib.promotion import NUMBER, SOME_DIMENSIONS, Typed

NOTHING = Arguments(())
_PRODUCTS = operations_with("matrices")
Place = tuple[cst.BaseExpression, Value]


def regime(machine: Machine, state: State) -> Regime | None:
    """The autocast regime that is or can be on; settings for which its dtype is float32 count as off."""
    region, _ = innermost(machine, state)
    if region is None:
        return None
    dtypes = region.dtypes and (region.dtypes & HALF_DTYPES or region.dtypes)
    return Regime(region.devices, dtypes, machine.program.torch)


def typed(machine: Machine, value: Value, parameter: str = "float16") -> Typed:
    """`value` as a typed operand; a dtype decided by a parameter of the function counts as `parameter`."""
    if isinstance(value, Tensor):
        dtypes = frozenset({parameter}) if value.dtype == FROM_PARAMETER else value.dtypes
        if dtypes is not None and FROM_PARAMETER in dtypes:
            dtypes = None
        return Typed(dtypes or machine[Tensors].unknown, value.rank, value.supposed)
    if isinstance(value, Const) and isinstance(value.value, bool):
        return Typed(frozenset({"bool"}), NUMBER)
    if (constant := number(value)) is not None:
        return Typed(frozenset({"float32" if isinstance(constant, float) else "int64"}), NUMBER)
    if is_number(machine, value):
        return Typed(frozenset({"float32", "int64"}), NUMBER)
    return Typed(machine[Tensors].unknown)


def local_outcome(
    machine: Machine,
    state: State,
    op: str,
    operands: Sequence[Value],
    arguments: Arguments = NOTHING,
    *,
    in_place: bool = False,
) -> Outcome:
    """The outcome of `op` here; a dtype decided by a parameter stays `FROM_PARAMETER` where the result has it, too."""
    if op in LOWER and remembers_other_dtypes(state) and any(_is_weight(machine, value) for value in operands):
        return UNKNOWN
    around = regime(machine, state)
    out = arguments.value("out")
    if around is None and machine.calls and not in_place and out is None and may_be_cast(machine, op):
        return UNKNOWN
    wanted = _asked(op, arguments)
    asked = dtype_of(machine, wanted)
    if asked is None and wanted not in (None, Const(None)):
        return UNKNOWN
    receiver = typed(machine, out) if out not in (None, Const(None)) else None
    labelled = any(isinstance(value, Tensor) and value.dtype == FROM_PARAMETER for value in operands)
    found = []
    for parameter in ("float16", "float32") if labelled else ("float16",):
        given = [typed(machine, value, parameter) for value in operands]
        if op in CLASSIFIES and len(given) > 1 and given[1].dtypes is None and _is_label(machine, operands[1]):
            given[1] = replace(given[1], dtypes=frozenset({"int64"}), supposed=True)
        here = _reached(around, op, operands)
        found.append(outcome(op, given, here, asked=asked, in_place=in_place, out=receiver))
    if found[0] == found[-1]:
        return replace(found[0], supposed=found[0].supposed or labelled or is_dtype_assumed(wanted))
    follows = [known(each.dtypes) for each in found] == ["float16", "float32"]
    return Outcome(frozenset({FROM_PARAMETER}) if follows else None)


def _asked(op: str, arguments: Arguments) -> Value | None:
    """The argument that sets the dtype of the result."""
    named = arguments.value("dtype")
    if named is None and op in ("softmax", "log_softmax"):
        return next((value for value in arguments.values if is_dtype(value)), None)
    return named


def _reached(here: Regime | None, op: str, operands: Sequence[Value]) -> Regime | None:
    """The autocast regime that casts these operands; None if it is for another device type.

    A product has all its operands on one device.
    """
    device = common([one for one in operands if op not in _PRODUCTS or getattr(one, "device", None) is not None])
    if here is None or device is None:
        return here
    return replace(here, devices={device}) if reaches(here.devices, device) else None


def _is_label(machine: Machine, value: Value) -> bool:
    """Whether `value` is an item of the training data, which is a class index unless computed."""
    return isinstance(value, (Tensor, Unknown)) and is_data(machine, value.symbol)


def _is_weight(machine: Machine, value: Value) -> bool:
    return isinstance(value, Tensor) and value.symbol in machine[Weights].symbols


def emit_operation(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    op: str,
    operands: Iterable[Place],
    result: Tensor,
    arguments: Arguments = NOTHING,
    *,
    in_place: bool = False,
    module: cst.CSTNode | None = None,
    weights: Operand | None = None,
    raises: str | None = None,
    follows: bool = False,
    supposing: bool = True,
    refused_by: tuple[Guessed, ...] = (),
) -> None:
    """Emit `Operation` for `op` on `operands`, and, if `supposing`, check the outcome with one operand half.

    `follows` says that another tensor decides its dtype, `refused_by` are the guesses that `raises` rests on.
    """
    if machine.muted or Operation.kind not in machine.wanted:
        return
    described = tuple(clashes.operand_with_evidence(machine, state, place, value) for place, value in operands)
    if machine.assumes and described and arguments.value("dtype") is None:
        sensitive.ran(machine, state, node, op, described[0], result)
        probabilities.ran(machine, state, node, op, described, result)
        divergences.ran(machine, state, node, op, described)
        statistics.ran(machine, state, node, op, described)
        own_sums.ran(machine, state, node, op, described)
    late = op in ("mul", "div") and SCALED_LATE in result.traits
    if machine.assumes and late and (half := described[0].half) is not None:
        guesses = traits.scale_guesses(machine, described[1].value)
        machine.emit(state, ScaledLate, node, half=half, assumed=True, guesses=guesses)
    plain = op != "einsum" or runs(op, arguments) == op
    supposing = supposing and plain and machine.assumes and raises is None
    if supposing and (met := clash_pairs.pair(machine, op, described)) is not None:
        supposed = _assumed_outcome(machine, state, op, described, met, in_place)
        clashes.emit_clash(machine, state, node, op, met, supposed, in_place=in_place)
    elif supposing:
        lifted_inputs.ran(machine, state, node, op, described)
        fixed_halves.met(machine, state, node, op, described)
    joins.ran(machine, op, node, result)
    coarse_frequencies.ran(machine, state, node, op, described, result, follows=follows)
    decided = result.dtype is not None or result.among is not None
    becomes = (
        evidence(machine, state, result) if decided else evidence_of_source(machine, node, result) if follows else None
    )
    reasons = {half.because for half in (*(operand.half for operand in described), becomes) if half is not None}
    assumed = reasons == {Because.ASSUMED}
    guesses = (*refused_by, *(tensor_guesses(machine, result.symbol) if assumed else ()))
    called_from_outside = None in machine.sites
    asked = (
        called_from_outside and any(operand.half for operand in described) and branches_on_dtypes_before(machine, node)
    )
    machine.emit(
        state, Operation, node, op=op, operands=described, result=result, arguments=arguments, in_place=in_place,
        module=module, weights=weights, raises=raises, becomes=becomes, assumed=assumed, asked=asked,
        unrecorded=bool(reasons) and without_gradients(state), guesses=guesses,
    )  # fmt: skip


def _assumed_outcome(
    machine: Machine,
    state: State,
    op: str,
    described: Sequence[Operand],
    met: tuple[Operand, Operand],
    in_place: bool,
) -> Outcome:
    """The outcome of `op` where the second one of `met` is half, and parameters and buffers are float32.

    Queries, keys and values are half together, apart from the first one of `met`. Targets beside weights are classes.
    """
    steady, half = met
    if op == ATTENTION and any(steady is one for one in described[:3]):
        described = described[:3]  # its mask is converted or not, the others decide
    here = _reached(regime(machine, state), op, [operand.value for operand in described])
    lows = (here.dtypes or HALF_DTYPES) & HALF_DTYPES if here is not None else HALF_DTYPES
    given = []
    for operand in described:
        known = typed(machine, operand.value)
        dtypes = known.dtypes
        if operand is half or (op == ATTENTION and known.dtypes is None and operand is not steady):
            dtypes = frozenset(sorted(lows)[-1:])
        elif operand.dtype in (None, FROM_PARAMETER) and known.rank != NUMBER:
            classes = op in CLASSIFIES and operand is not described[0]
            dtypes = frozenset({"int64" if classes else "float32"})
        given.append(Typed(dtypes, SOME_DIMENSIONS if known.rank is None else known.rank))
    return outcome(op, given, here, in_place=in_place)


def with_dtype(
    machine: Machine, node: cst.CSTNode, result: Tensor, found: Outcome, operands: Sequence[Value]
) -> Tensor:
    """`result` with the dtype of the outcome, and the node that made it half."""
    dtype = known(found.dtypes)
    halves = [value for value in operands if isinstance(value, Tensor) and value.dtype == dtype and value.why_half]
    why = halves[0].why_half if halves else node
    if dtype in HALF_DTYPES and not halves:
        machine[Tensors].half_because[node] = Because.REGION
    if dtype == "float32" and any(isinstance(value, Tensor) and value.dtype in HALF_DTYPES for value in operands):
        machine[Tensors].lifts.add(node)
    among = found.dtypes if dtype is None else None
    return replace(
        result, dtype=dtype, among=among, why_half=why if dtype else None, device=common(operands),
        supposed=found.supposed,
    )  # fmt: skip
