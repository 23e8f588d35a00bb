"""Regions that disable autocast: tensors from outside stay half in them until they are cast."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from amplint.regex import regex
from amplint.semantics.events import StaysHalf
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.regions.tracker import Regions
from amplint.semantics.tensors import cast_back
from amplint.semantics.tensors.cast_back import PRODUCTS, name_within, root
from amplint.semantics.tensors.halves import is_of_layer
from amplint.semantics.tensors.masks import branches_on_dtypes_before, tests_for_half_after
from amplint.semantics.tensors.tensors import converts_to, is_data, is_number, tensor
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import Region, State
from amplint.semantics.values.values import FALSE, Autocast, Class, Const, Tensor, Unknown, Value
from amplint.semantics.words import FREQUENCY, POSITION
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.policy import LOWER, words

PRECISE = words(
    "baddbmm bmm binary_cross_entropy binary_cross_entropy_with_logits cdist cosine_similarity cross_entropy einsum "
    "exp exp_ kl_div l1_loss log log10 log1p log2 log_ log_softmax logaddexp logit logsigmoid logsumexp matmul "
    "mean mm mse_loss nll_loss normalize reciprocal rsqrt sigmoid sigmoid_ smooth_l1_loss softmax softplus sqrt sqrt_ "
    "std var"
)
"""Floating-point operations whose precision such regions protect."""
REFUSING = operations_with("convolves") | words("linear")
"""Operations of layers that refuse an input whose dtype is not that of their weights."""
_ORIGINS = words("parameter part either fresh display")
"""Kinds of symbols whose dtype a region of the caller can decide; an unseen call can end in float32."""
_TRANSPOSED = words("T mT H mH")
Operand = tuple[cst.BaseExpression, Value]


_SWITCHED_OFF = regex(r"enabled\s*=\s*False")


def disables_autocast(text: str) -> bool:
    """Whether a file with this text disables autocast somewhere, so that other files call it where autocast is on."""
    return "autocast" in text and _SWITCHED_OFF.search(text) is not None


def expects_region(method: cst.FunctionDef) -> bool:
    """Whether a method disables autocast itself, so that other files call it where autocast is on."""
    return any(
        isinstance(node, cst.Arg)
        and node.keyword is not None
        and node.keyword.value == "enabled"
        and isinstance(node.value, cst.Name)
        and node.value.value == "False"
        for node in walk(method)
    )


def lifted(machine: Machine, state: State, node: cst.Call, owner: Value, name: str, arguments: Arguments) -> None:
    """Record `owner.float()` and its kind within a disabled region, evidence that tensors from outside are half."""
    region = _switched_off(state)
    if region is None or converts_to(machine, name, arguments)[1] != "float32":
        return
    if _is_outside(machine, region, symbol_of(machine, owner)):
        machine[CallIndex].index.lifted.setdefault(machine.statement or node, node)


def computed(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    op: str,
    operands: Iterable[Operand],
    weights: Tensor | None = None,
) -> None:
    """Report `op` on `operands` where all of them are half within a region that disables autocast.

    A layer with float32 `weights` raises there.
    """
    region = _switched_off(state)
    refused = region is not None and weights is not None and op in REFUSING and weights.dtype not in HALF_DTYPES
    if op not in PRECISE and op != "linear" and not refused:
        return
    tensors = [(place, tensor(machine, value)) for place, value in operands if _may_be_tensor(machine, value)]
    if region is None:
        cast_back.computed(machine, state, node, op, tensors)
        return
    if (op == "linear" and not refused) or (refused and any(value.dtype is not None for _, value in tensors)):
        return
    entries = [value for _, value in tensors if _is_entry(machine, value.symbol)]
    if entries:
        machine[CallIndex].index.of_data.add(node)
    whole = not isinstance(region.entered_by, cst.With)
    shown = whole and tests_for_half_after(machine, node)
    if tensors and all(_stays_half(machine, region, op, value, shown) for _, value in tensors):
        if branches_on_dtypes_before(machine, node):
            return
        place, operand = tensors[0]
        context, off_with = region.context, region.entered_by
        if _converted_within(machine, region, operand):
            return
        if refused and not is_of_layer(machine, _root(machine, operand.symbol)):
            return
        certain = operand.dtype in HALF_DTYPES
        given = shown or (
            _is_parameter(machine, operand.symbol)
            and not entries
            and not any(_is_coordinate(place) for place, _ in tensors)
            and (not whole or _is_unconverted(machine, op))
        )
        given = given or refused or (not certain and _is_of_products(machine, op, operand.symbol))
        machine.emit(
            state, StaysHalf, node, op=op, place=place, first=_first(off_with, place), certain=certain, given=given,
            off=context, off_with=off_with, half=operand.why_half, assumed=given and whole and not (certain or shown),
            refused=refused,
        )  # fmt: skip


def _converted_within(machine: Machine, region: Region, value: Tensor) -> bool:
    """Whether the region itself converts `value` to half, which then is what it is for."""
    node = value.why_half
    source = machine.program.source_of(node) if node is not None else None
    return node is not None and source is not None and region.entered_by in source.ancestors(node)


def _is_unconverted(machine: Machine, op: str) -> bool:
    """Whether nothing in the file casts the arguments of the running function, all of which is a disabled region."""
    function = machine.calls[-1] if machine.calls else None
    if not machine.assumes or op not in PRODUCTS or not isinstance(function, cst.FunctionDef):
        return False
    called = re.compile(rf"\b{function.name.value}\([^\n]*(?:float|dtype|\.to\()")
    return not any(called.search(chunk.text) for chunk in machine.program.chunks)


def _is_entry(machine: Machine, symbol: int) -> bool:
    """Whether a tensor comes from an entry of a dictionary, such as a batch, which no region computes."""
    while parts := machine.symbols.parts(symbol):
        held = machine.symbols.key(parts[-1])[-1] if machine.symbols.key(symbol)[0] == "index" else None
        if isinstance(held, Const) and isinstance(held.value, str):
            return True
        symbol = parts[0]
    return False


def _is_coordinate(place: cst.BaseExpression) -> bool:
    """Whether a name stands for positions or frequencies, which layers do not compute."""
    name = name_within(place)
    return FREQUENCY.search(name) is not None or POSITION.search(name) is not None


def _may_be_tensor(machine: Machine, value: Value) -> bool:
    return isinstance(value, (Tensor, Unknown)) and not is_number(machine, value)


def _switched_off(state: State) -> Region | None:
    regions = [region for region in state.regions if isinstance(region.context, Autocast)]
    return regions[-1] if regions and regions[-1].context.enabled == FALSE else None  # type: ignore[union-attr]


def is_switched_off(state: State) -> bool:
    """Whether the innermost region disables autocast."""
    return _switched_off(state) is not None


def _is_of_products(machine: Machine, op: str, symbol: int) -> bool:
    """Whether autocast around the caller has made this half: it comes from a matrix product or a convolution.

    Products of what a submodule returns count as well; to other operations it may return a loss.
    """
    origin = _root(machine, symbol)
    return machine.symbols.key(origin)[0] in LOWER or (op in PRODUCTS and is_of_layer(machine, origin))


def _stays_half(machine: Machine, region: Region, op: str, value: Tensor, shown: bool) -> bool:
    """Whether `value` is half, or came from outside of the region uncast; with `shown`, from any origin."""
    if value.dtype is not None:
        return value.dtype in HALF_DTYPES
    origin = _root(machine, value.symbol)
    if _is_of_products(machine, op, origin):
        return _is_outside(machine, region, origin) and not _was_converted(machine, origin)
    while _is_of_layer(machine, origin):
        origin = _root(machine, machine.symbols.parts(origin)[-1])
    return (
        (shown or machine.symbols.key(origin)[0] in _ORIGINS)
        and _is_outside(machine, region, origin)
        and not is_data(machine, origin)
        and not _was_converted(machine, origin)
    )


def _is_of_layer(machine: Machine, symbol: int) -> bool:
    """Whether this is the result of a layer or function of one argument that is no method of another tensor.

    What a loop takes apart, such as pairs of layers and their inputs, has methods that are layers.
    """
    called = machine.symbols.callee(symbol)
    if called is None or machine.symbols.parts(symbol)[-2:-1] != (called,):
        return False
    key, parts = machine.symbols.key(called), machine.symbols.parts(called)
    return key[0] != "attribute" or machine.symbols.key(parts[0])[0] in ("self", "part")


def _was_converted(machine: Machine, symbol: int) -> bool:
    """Whether anything that went into a value was cast."""
    todo, seen = [symbol], set[int]()
    while todo:
        current = todo.pop()
        key = machine.symbols.key(current)
        if key[0] in ("cast", "converted"):
            return True
        seen.add(current)
        callee = machine.symbols.callee(current)
        behind = (*machine.symbols.parts(current), *(() if callee is None else (callee,)))
        todo += [part for part in behind if part not in seen]
    return False


def _is_parameter(machine: Machine, symbol: int) -> bool:
    return machine.symbols.key(_root(machine, symbol))[0] == "parameter"


def _root(machine: Machine, symbol: int) -> int:
    """The symbol whose dtype `symbol` has, seen through transposition."""
    symbol = root(machine, symbol)
    while machine.symbols.key(symbol)[0] in _TRANSPOSED:
        symbol = root(machine, machine.symbols.parts(symbol)[0])
    return symbol


def _is_outside(machine: Machine, region: Region, symbol: int) -> bool:
    """Whether a value existed before the region was first entered: symbols are numbered in order of creation."""
    return _is_parameter(machine, symbol) or symbol < machine[Regions].entered_at.get(region.entered_by, 0)


def _first(region: cst.CSTNode, place: cst.BaseExpression) -> cst.BaseExpression:
    """The first mention of the variable of `place` in the region."""
    names = _names(place)
    variable = next(names, None)
    body = region.body if isinstance(region, cst.With) else place
    return next((name for name in _names(body) if variable is not None and name.value == variable.value), place)


def _names(node: cst.CSTNode) -> Iterator[cst.Name]:
    return (inner for inner in walk(node) if isinstance(inner, cst.Name))


class Subregions(Tracker):
    """Tracks methods that disable autocast themselves."""

    def has_unseen_callers(self, cls: Class, method: cst.FunctionDef) -> bool:
        """Whether other files call the method where autocast is on."""
        return _SWITCHED_OFF.search(cls.chunk.text) is not None and expects_region(method)
