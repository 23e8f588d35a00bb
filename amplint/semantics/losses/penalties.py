"""Gradient penalties: gradients from `torch.autograd.grad(..., create_graph=True)` that enter a loss.

A loss is followed back to such gradients only by operations known to preserve a factor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amplint.records import dataclass
from amplint.semantics.events import PenaltyScaled
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Handler, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.regions.half_results import HalfResults
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import NONE, TRUE, Const, Items, Scaler, Tensor, Unknown, Value
from amplint.semantics.words import INVERSE_SCALE
from amplint.source import syntax as cst
from amplint.torchlib.policy import words


@dataclass(frozen=True, slots=True)
class Penalty:
    """A call of `torch.autograd.grad` with `create_graph`.

    `of` is the scalar it differentiates, None for other outputs; `scaler` is the one whose scale that carries.
    """

    node: cst.CSTNode
    of: int | None
    scaler: Scaler | None


_KEEPS = words(
    "Minus Power abs add amax amin cast cat clamp clamp_min clone comprehension contiguous converted double each "
    "flatten float huber_loss index item l1_loss linalg.norm linalg.vector_norm list max mean min mse_loss mul "
    "nan_to_num norm part permute pow relu reshape smooth_l1_loss sqrt square squeeze stack std sub sum to transpose "
    "tuple type unsqueeze var vector_norm view"
)
"""Operations whose result grows with their operand."""
_MEASURES = words("Power norm pow square vector_norm mse_loss")
"""Operations that make a penalty of gradients."""
_SETTINGS = frozenset({"parameter", "attribute", "name", "index"})
"""Kinds of symbols that the weights of a loss are read from."""


def gradients(machine: Machine, node: cst.Call, arguments: Arguments) -> Value:
    """Return the result of `torch.autograd.grad(...)`."""
    outputs = arguments.value("outputs", 0) or Unknown(machine.fresh())
    whole = outputs.values[0] if isinstance(outputs, Items) and len(outputs.values) == 1 else outputs
    again = arguments.value("create_graph", 4) == TRUE
    made = machine.unknown("gradients of", again, id(node), parts=(symbol_of(machine, whole),))
    if again:
        plain = arguments.value("grad_outputs", 2) in (None, NONE) and isinstance(whole, (Tensor, Unknown))
        scaler = whole.scaled if isinstance(whole, Tensor) else None
        machine[Penalties].known[made.symbol] = Penalty(node, symbol_of(machine, whole) if plain else None, scaler)
    return made


def scaled(machine: Machine, state: State, node: cst.Call, scaler: Scaler, loss: Value) -> None:
    """Report, where a loss is scaled, the gradients in it that are scaled already or were never scaled."""
    if not machine[Penalties].known:
        return
    symbol = symbol_of(machine, loss)
    for penalty in _penalties_in(machine, symbol, set()):
        unscaled = penalty.scaler is None and penalty.of in _terms(machine, symbol) and _in_half(machine, penalty.of)
        if unscaled or (penalty.scaler is not None and penalty.scaler.symbol == scaler.symbol):
            machine.emit(state, PenaltyScaled, penalty.node, scaler=scaler, by=node, carried=not unscaled)


def returned(machine: Machine, state: State, value: Value) -> None:
    """Report, where a function that nothing in sight calls returns a penalty, the scaled gradients in it."""
    if not machine[Penalties].known or not machine.sites or machine.sites[-1] is not None or machine.statement is None:
        return
    symbol = symbol_of(machine, value)
    for penalty in _penalties_in(machine, symbol, set()):
        if penalty.scaler is not None and _is_measured(machine, symbol):
            machine.emit(
                state,
                PenaltyScaled,
                penalty.node,
                scaler=penalty.scaler,
                by=machine.statement,
                carried=True,
                returned=True,
            )


def _is_measured(machine: Machine, symbol: int) -> bool:
    """Whether a norm or a power went into this, and it is not the gradients themselves."""
    for one in machine.symbols.derivation(symbol):
        key, method = machine.symbols.key(one), machine.symbols.method(one)
        name = method[0] if method is not None else str(key[1] if key[0] == "call" else key[0])
        if name.rpartition(".")[2] in _MEASURES:
            return True
    return False


def _penalties_in(machine: Machine, symbol: int, seen: set[int]) -> Iterator[Penalty]:
    """The penalties whose gradients `symbol` grows with."""
    if symbol in seen:
        return
    seen.add(symbol)
    if symbol in machine[Penalties].known:
        yield machine[Penalties].known[symbol]
        return
    for part in _operands(machine, symbol):
        yield from _penalties_in(machine, part, seen)


def _operands(machine: Machine, symbol: int) -> tuple[int, ...]:
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    kind = str(key[0])
    if kind in ("Add", "Subtract"):
        return parts
    if kind == "Multiply":
        return tuple(one for one, other in (parts, parts[::-1]) if _is_weight(machine, other))
    if kind == "Divide":
        return parts[:1] if _is_weight(machine, parts[1]) else ()
    if kind == "comprehension":
        return parts[-1:]
    if kind == "call":
        return _arguments(machine, str(key[1]), parts)
    return parts if kind in _KEEPS else ()


def _arguments(machine: Machine, name: str, parts: tuple[int, ...]) -> tuple[int, ...]:
    """The operands of a call: the arguments of a function of PyTorch, the receiver of a tensor's method."""
    root, _, op = name.partition(".")
    if root in ("torch", "builtins"):
        return parts if op.removeprefix("nn.functional.") in _KEEPS else ()
    key = machine.symbols.key(parts[0]) if parts else ("",)
    return machine.symbols.parts(parts[0]) if key[0] == "attribute" and key[1] in _KEEPS else ()


def _is_weight(machine: Machine, symbol: int) -> bool:
    """Whether a factor is a number or a setting, and not the inverse of the scale."""
    key = machine.symbols.key(symbol)
    if key[0] == "value":
        return isinstance(key[1], Const)
    return key[0] in _SETTINGS and not any(INVERSE_SCALE.search(str(part)) for part in key)


def _terms(machine: Machine, symbol: int) -> set[int]:
    """The terms of a loss that is a weighted sum."""
    todo, found = [symbol], set()
    while todo:
        current = todo.pop()
        if current not in found:
            found.add(current)
            if machine.symbols.key(current)[0] in ("Add", "Subtract", "Multiply", "Divide"):
                todo += machine.symbols.parts(current)
    return found


def _in_half(machine: Machine, symbol: int | None) -> bool:
    """Whether `symbol` was computed from results of a float16 region."""
    todo, seen = [symbol], set()
    while todo:
        current = todo.pop()
        if current in machine[HalfResults].narrow:
            return True
        if current is not None and current not in seen:
            seen.add(current)
            todo += machine.symbols.parts(current)
    return False


class Penalties(Tracker):
    """Differentiable gradients from `torch.autograd.grad`, by symbol."""

    triggers = frozenset({"grad"})

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.known: dict[int, Penalty] = {}

    def library(self) -> Mapping[str, Handler]:
        """`torch.autograd.grad`."""
        return {"torch.autograd.grad": lambda state, call: gradients(self.machine, call.node, call.arguments)}

    def function_returns(self, state: State, value: Value) -> None:
        """Handle the penalty that a function returns."""
        returned(self.machine, state, value)
