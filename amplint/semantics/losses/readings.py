"""Reads of a scaled loss as if it were the loss: in sums, logs and comparisons.

A scaled loss is for backward alone. A value read from it is 65536 times too large at first, and varies between
iterations as the scale does; dividing by `get_scale()` helps only until `update()` changes the scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from amplint.records import dataclass
from amplint.semantics.events import ScaledLossRead
from amplint.semantics.losses import shares
from amplint.semantics.losses.shares import Shares
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.memory.progress import ANY_OPTIMIZER, Progress
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Operands, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import PERHAPS_SCALED, Instance, Items, Scaler, Tensor, Unknown, Value
from amplint.semantics.words import SPEAKS_OF_SCALE
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.tree import children, every, walk
from amplint.torchlib.policy import words


@dataclass(frozen=True, slots=True)
class Reading:
    """The scale of a value read from a scaled loss.

    `node` is the call of `scale()`, `era` identifies the scale between two updates.
    """

    scaler: Scaler
    node: cst.CSTNode
    era: tuple[object, ...] | None


REPORTS = words(
    "print log info debug warning log_metric log_metrics log_dict log_scalar add_scalar add_scalars put_scalar "
    "put_scalars set_postfix set_postfix_str set_description write format record"
)
_ORDERED = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
COLLECTS = words("append add update push put")
_FINITE = words("isfinite is_finite isreal")
_FINITENESS = _FINITE | words("isnan isinf is_nan is_inf")
_DETACHED = words("detach data item cpu")
_LINEAR = frozenset({"Add", "Subtract", "Multiply", "Divide", "FloorDivide"})
_SCALE = "scale of"


def scale_symbol(machine: Machine, state: State, scaler: Scaler) -> Unknown:
    """The result of `get_scale()`, which is equal until `update()` runs."""
    return machine.unknown(_SCALE, _scale_identity(state, scaler), parts=(scaler.symbol,))


def scaled(machine: Machine, state: State, scaler: Scaler, plain: int, node: cst.CSTNode) -> None:
    """Record the scale under which the loss `plain` was scaled."""
    machine[Readings].scaled_under[scaler.symbol, plain] = (_scale_identity(state, scaler), node)


def _scale_identity(state: State, scaler: Scaler) -> tuple[object, ...] | None:
    """The identity of the scale between two calls of `update()`; None if that is unknown."""
    if (scaler.symbol, ANY_OPTIMIZER) in state[Progress].pairs:
        return None
    known = state[Progress].scalers.get(scaler.symbol)
    return (known.updated, known.iteration) if known is not None else ()


def carried(machine: Machine, value: Value) -> Reading | None:
    """The scale that `value` carries; None for a value that is not known to carry one."""
    symbol = symbol_of(machine, value) if isinstance(value, (Tensor, Unknown)) else None
    if symbol in machine[Readings].known:
        return machine[Readings].known[symbol]
    if not isinstance(value, Tensor) or value.scaled is None or value.plain is None:
        return None
    era, node = machine[Readings].scaled_under.get((value.scaled.symbol, value.plain), (None, None))
    return Reading(value.scaled, node, era) if node is not None else None


def converted(machine: Machine, value: Value, number: Value) -> Value:
    """`number`, read from `value` by `.item()` or `float()`, with the scale that it carries."""
    reading = carried(machine, value)
    if reading is not None and isinstance(number, Unknown):
        machine[Readings].known[number.symbol] = reading
    return number


def combined(
    machine: Machine, state: State, node: cst.CSTNode, kind: str, left: Value, right: Value, result: Tensor | Unknown
) -> Tensor | Unknown:
    """`result` of `left kind right`, with the scale that it carries."""
    if not machine[Readings].scaled_under or kind not in _LINEAR:
        return result
    ours, theirs = carried(machine, left), carried(machine, right)
    reading, other = (ours, right) if ours is not None else (theirs, left)
    if reading is None:
        return result
    divisor = next(_scales(machine, symbol_of(machine, other)), None)
    if divisor is None:
        if isinstance(result, Unknown):
            machine[Readings].known[result.symbol] = reading
        return result
    era, scaler = machine.symbols.key(divisor)[1], machine.symbols.parts(divisor)[0]
    update = era[0] if isinstance(era, tuple) and era else None
    if scaler == reading.scaler.symbol and reading.era not in (None, era) and isinstance(update, cst.CSTNode):
        _emit(machine, state, node, reading, "divided", update)
    if isinstance(result, Tensor):
        return replace(result, scaled=None, plain=None, traits=result.traits | {PERHAPS_SCALED})
    return result


def _scales(machine: Machine, symbol: int) -> Iterator[int]:
    """The values of `get_scale()` from which `symbol` was computed."""
    return (one for one in machine.symbols.derivation(symbol) if machine.symbols.key(one)[0] == _SCALE)


def summed(machine: Machine, state: State, node: cst.CSTNode, value: Value) -> bool:
    """Report `total += value`, unless `value` keeps its graph for backward; return whether it was reported."""
    return _is_number(machine, value) and _report_read(machine, state, node, [value], "summed")


def compared(machine: Machine, state: State, node: cst.CSTNode, values: Iterable[Value]) -> None:
    """Report an ordering comparison of values."""
    _report_read(machine, state, node, values, "compared")


def formatted(machine: Machine, state: State, node: cst.FormattedString, values: Iterable[Value]) -> None:
    """Report values formatted into a string."""
    if (machine[Readings].scaled_under or machine[Shares].known) and not _mentions_scale(node):
        _report_read(machine, state, node, values, "logged")


def report_logged(machine: Machine, state: State, node: cst.Call, arguments: Arguments) -> None:
    """Report a call that logs or collects its arguments; a bare `print(value)` is taken for debugging."""
    if not (machine[Readings].scaled_under or machine[Shares].known):
        return
    name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    called = name.value if isinstance(name, cst.Name) else ""
    if called not in COLLECTS and (called not in REPORTS or (called == "print" and len(arguments.given) == 1)):
        return
    values = [part for value in arguments.values for part in _flat(value)]
    if called in COLLECTS:
        values = [value for value in values if _is_number(machine, value)]
        if called != "update":
            values = [value for value in values if shares.share_in(machine, value) is None]
    if not _mentions_scale(node):
        _report_read(machine, state, node, values, "logged")


def returned(machine: Machine, state: State, value: Value) -> None:
    """Report `value` returned to unseen code after a backward pass on the loss."""
    node = machine.statement
    if node is None or len(machine.calls) != 1 or machine.entered_from is not None or _is_called_scaled(node):
        return
    for part in _within(state, value):
        reading = carried(machine, part)
        if reading is None or not machine.program.main.owns(reading.node):
            continue
        if isinstance(part, Unknown) or part.symbol in machine[CallIndex].index.backwards:  # type: ignore[union-attr]
            _emit(machine, state, node, reading, "returned")
            return


def _within(state: State, value: Value) -> Iterator[Value]:
    """`value`, and the elements of a tuple or dictionary."""
    if isinstance(value, Items):
        for part in value.values:
            yield from _within(state, part)
        return
    yield value
    if isinstance(value, Unknown):
        yield from (held for name, held in state.heap.get(value.symbol, {}).items() if name.startswith("["))


@cached_per_file
def _is_called_scaled(statement: cst.CSTNode) -> bool:
    """Whether a name or string in the returned expression mentions the scale."""
    names = (inner.value for inner in walk(statement) if isinstance(inner, (cst.Name, cst.SimpleString)))
    return any(map(SPEAKS_OF_SCALE.search, names))


def _flat(value: Value) -> Iterator[Value]:
    if isinstance(value, Items):
        for part in value.values:
            yield from _flat(part)
    else:
        yield value


def _is_number(machine: Machine, value: Value) -> bool:
    return isinstance(value, Unknown) or (
        isinstance(value, Tensor) and machine.symbols.key(value.symbol)[0] in _DETACHED
    )


@cached_per_file
def _mentions_scale(node: cst.CSTNode) -> bool:
    texts = (inner.value for inner in walk(node) if isinstance(inner, (cst.SimpleString, cst.FormattedStringText)))
    return any(SPEAKS_OF_SCALE.search(text) for text in texts)


def _report_read(machine: Machine, state: State, node: cst.CSTNode, values: Iterable[Value], how: str) -> bool:
    values = list(values)
    if machine[Shares].known and how != "summed" and not _has_tested_finiteness(state):
        for value in values:
            shares.read(machine, state, node, value, how)
    reading = next((found for value in values if (found := carried(machine, value)) is not None), None)
    if reading is None or _has_tested_finiteness(state):
        return False
    _emit(machine, state, node, reading, how)
    return True


def _emit(
    machine: Machine, state: State, node: cst.CSTNode, reading: Reading, how: str, update: cst.CSTNode | None = None
) -> None:
    divided = any("get_scale" in chunk.text for chunk in machine.relevant)
    machine.emit(
        state, ScaledLossRead, node, scaler=reading.scaler, scaled=reading.node, how=how, update=update, divided=divided
    )


def _has_tested_finiteness(state: State) -> bool:
    """Whether a branch on this path tested for infinity or NaN."""
    trail = state.trail
    for _ in range(4):
        if trail is None:
            return False
        if trail.side in _not_finite(trail.step[0]):
            return True
        trail = trail.before
    return False


@cached_per_file
def _not_finite(condition: cst.CSTNode) -> frozenset[bool]:
    """The outcomes of a condition under which a value can be infinite or NaN."""
    sides: set[bool] = set()
    todo = [(condition, True)]
    while todo:
        node, side = todo.pop()
        if isinstance(node, cst.Comparison) and any(name.value in _FINITENESS for name in every(node, cst.Name)):
            return frozenset({True, False})
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            side = not side
        elif isinstance(node, cst.Name) and node.value in _FINITENESS:
            sides.add(side != (node.value in _FINITE))
        todo += [(child, side) for child in children(node)]
    return frozenset(sides)


class Readings(Tracker):
    """Values read from scaled losses, by symbol, and the scale by scaler and loss."""

    triggers = frozenset({"get_scale"})

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.known: dict[int, Reading] = {}
        self.scaled_under: dict[tuple[int, int], tuple[tuple[object, ...] | None, cst.CSTNode]] = {}
        self.from_outside = False

    def unseen_call_begins(self, state: State, me: Instance | None) -> None:
        """Return values go to unseen code from here on."""
        self.from_outside = True

    def function_returns(self, state: State, value: Value) -> None:
        """Unseen callers take the returned value for the loss."""
        if self.from_outside and self.scaled_under:
            returned(self.machine, state, value)

    def call_resolved(self, state: State, call: Call) -> None:
        """Check a call that may log or collect its arguments."""
        report_logged(self.machine, state, call.node, call.arguments)

    def number_read(self, tensor: Value, number: Value) -> None:
        """`loss.item()` still carries the scale."""
        converted(self.machine, tensor, number)

    def binary_result(self, state: State, operands: Operands, result: Value) -> Value | None:
        """A value computed from a scaled loss carries its scale or has lost it."""
        if not isinstance(result, (Tensor, Unknown)):
            return None
        left, right = operands.left[1], operands.right[1]
        return combined(self.machine, state, operands.node, operands.kind, left, right, result)

    def compared(self, state: State, node: cst.Comparison, left: Value, right: Value) -> Value | None:
        """An ordering comparison reads its operands."""
        if isinstance(node.comparisons[0].operator, _ORDERED):
            compared(self.machine, state, node, (left, right))
        return None

    def formatted(self, state: State, node: cst.FormattedString, values: Sequence[Value]) -> None:
        """A formatted string reads its values."""
        formatted(self.machine, state, node, values)

    def augmented(self, state: State, node: cst.AugAssign, before: Value, other: Value) -> Value | None:
        """Handle `total += loss.item()`."""
        if isinstance(node.operator, cst.AddAssign) and summed(self.machine, state, node, other):
            return Unknown(self.machine.fresh())
        return None
