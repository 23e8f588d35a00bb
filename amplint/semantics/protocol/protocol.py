"""Tracker of the GradScaler protocol: scalers, optimizers and the gradients of a path.

The stages are PyTorch's own (`torch.amp.grad_scaler.OptState`). A backward pass is assumed to reach every optimizer,
since the parameters that a loss depends on are unknown; a violation is reported only for the optimizer that is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from amplint.semantics.accumulation import windows
from amplint.semantics.events import Job, ScalerRecordsRead
from amplint.semantics.frameworks import frameworks
from amplint.semantics.memory.gradients import CLEARED, MIXED, NO_GRADIENTS, each
from amplint.semantics.memory.progress import ANY_OPTIMIZER, Owners, Progress, ScalerState
from amplint.semantics.memory.scaling import Scaling
from amplint.semantics.protocol.clipping import gradients_read
from amplint.semantics.protocol.escapes import escape_to_base, forget, forget_gradients, forget_protocol, gradient_set
from amplint.semantics.protocol.scalers import as_scaler
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.inherited import only_computes
from amplint.semantics.reading.scopes import NAMED_OPTIMIZER, OPTIMIZERS, SCALER, last_name
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    PERHAPS_SCALED,
    Function,
    Instance,
    Items,
    Method,
    Optimizer,
    Ref,
    Scaler,
    Tensor,
    Unknown,
    Value,
)
from amplint.semantics.words import OPTIMIZER_NAME, RUNS_BACKWARD
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.torchlib.catalogue import operations_with_form
from amplint.torchlib.frameworks import XLA
from amplint.torchlib.methods import INHERITED_HARMLESS
from amplint.torchlib.names import ANY_OPTIMIZER_CLASS, GRAD_SCALERS, is_optimizer

_METHODS = frozenset({"backward", "unscale_", "step", "update", "zero_grad"})
_TENSOR_METHODS = operations_with_form("m")
_MAKES_OPTIMIZERS = frozenset({"optim", "Adam", "AdamW", "SGD"})
_RECORDS = "_per_optimizer_states"
"""Where a scaler keeps how far each optimizer has come."""


def _scale_of(value: Value) -> int | None:
    """The symbol of the scaler whose scale `value` carries."""
    return value.scaled.symbol if isinstance(value, Tensor) and value.scaled else None


_HOLDERS = frozenset({Scaler, Optimizer, Instance, Unknown})


def _held(value: Value) -> set[int]:
    if isinstance(value, Items):
        return set().union(*(_held(item) for item in value.values))
    return {value.symbol} if type(value) in _HOLDERS else set()  # type: ignore[union-attr]


class Protocol(Tracker):
    """Tracks scalers, optimizers and gradients.

    `from_owners` are results of methods of objects with a scaler.
    """

    triggers = frozenset({"grad", "zero_grad"})
    decisive = frozenset({Scaler})
    part = Progress

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.from_owners: set[int] = set()

    def script_begins(self, state: State) -> None:
        """There are no gradients yet."""
        state.change(Progress).gradients[ANY_OPTIMIZER] = CLEARED

    def unseen_call_begins(self, state: State, me: Instance | None) -> None:
        """The gradients, and the state of an object's scalers, are unknown."""
        self.machine[Scaling].begin_unseen_call()
        state.change(Progress).gradients = {ANY_OPTIMIZER: NO_GRADIENTS}
        for value in state.heap.get(me.symbol, {}).values() if me is not None else ():
            if isinstance(value, Scaler):
                state.change(Progress).scalers[value.symbol] = ScalerState(checked=True)

    def function_ends(self, state: State) -> None:
        """Forget unreachable scalers and optimizers of visible construction."""
        progress = state[Progress]
        symbols = {*progress.gradients, *progress.scalers, *(symbol for pair in progress.pairs for symbol in pair)}
        symbols |= {scaler for known in progress.gradients.values() for scaler in known.scalers}
        young = {symbol for symbol in symbols if symbol >= 0 and self.machine.is_created_on_path(symbol)}
        young = {symbol for symbol in young if not frameworks.is_kept(self.machine, symbol)}
        if not young:
            return
        for table in [*state.frames.values(), *state.heap.values()]:
            for value in table.values():
                kind = type(value)
                if kind in _HOLDERS:
                    young.discard(value.symbol)  # type: ignore[union-attr]
                elif kind is Items:
                    young -= _held(value)
            if not young:
                return
        progress = state.change(Progress)
        progress.gradients = {
            key: NO_GRADIENTS if young & known.scalers else known
            for key, known in progress.gradients.items()
            if key not in young
        }
        progress.scalers = {key: known for key, known in progress.scalers.items() if key not in young}
        progress.pairs = {pair: stage for pair, stage in progress.pairs.items() if not young & set(pair)}

    def unrolls(self, element: Value) -> bool:
        """Whether the element is an optimizer or a scaler, each of which has a state of its own."""
        return isinstance(element, (Optimizer, Scaler))

    def forget(self, state: State) -> None:
        """Everything is unknown, also whether there are gradients."""
        forget_protocol(state)
        state.change(Progress).gradients = dict.fromkeys(state[Progress].gradients, MIXED)

    def escape(self, state: State, values: Iterable[Value]) -> None:
        """Scalers and optimizers among these values may be used."""
        forget(self.machine, state, values)

    def call_skipped(
        self, state: State, function: Function, positional: Sequence[Value], keywords: Mapping[str, Value]
    ) -> None:
        """Scalers whose methods are arguments of a skipped call may be used."""
        given = (*positional, *keywords.values())
        forget(self.machine, state, [value for value in given if isinstance(value, Method)])

    def unseen(self, state: State, call: Call) -> None:
        """An unseen call may use its arguments, and run backward if its name says so."""
        machine, values = self.machine, call.arguments.values
        if call.entered is not None:
            harmless = call.entered == "super" and (call.name in INHERITED_HARMLESS or call.name == "__init__")
            forget(machine, state, values)
            if call.owner is not None and not harmless:
                escape_to_base(machine, state, call.owner)
            return
        name = call.callee.name.rpartition(".")[2] if isinstance(call.callee, Ref) else last_name(call.node.func)
        if RUNS_BACKWARD.search(name):
            forget_gradients(state)
        elif name == "step" and any(known.clipped for known in state[Progress].gradients.values()):
            state.change(Progress).gradients = each(state[Progress].gradients, lambda one: replace(one, clipped=None))
        elsewhere = isinstance(call.callee, Ref) and call.callee.name.startswith(XLA)
        if elsewhere or (
            isinstance(call.owner, Unknown)
            and name not in _TENSOR_METHODS
            and machine.symbols.derives_from(call.owner.symbol, self.from_owners)
        ):
            machine.interactions += 1
            forget_protocol(state)
        if call.inherited and call.owner is not None and not only_computes(name):
            escape_to_base(machine, state, call.owner)
        forget(machine, state, values, name)

    def call_resolved(self, state: State, call: Call) -> None:
        """An optimizer that wraps another one clears its gradients."""
        if isinstance(call.callee, Method) and call.callee.function is not None and call.callee.name == "zero_grad":
            owner = call.callee.owner
            if isinstance(owner, Instance) and owner.symbol in state[Progress].gradients:
                state.change(Progress).gradients[owner.symbol] = CLEARED

    def entered_returns(self, state: State, call: Call, result: Value) -> None:
        """The result of a method of an object with a scaler may be an optimizer that steps through that scaler."""
        if call.entered == "method" and isinstance(call.callee, Method) and isinstance(result, Unknown):
            owner = call.callee.owner
            held = state.heap.get(owner.symbol, {}).values() if isinstance(owner, Instance) else ()
            if any(isinstance(value, Scaler) for value in held):
                self.from_owners.add(result.symbol)

    def kind_of(self, value: Unknown, path: str, kind: str) -> Value | None:
        """The scaler or optimizer that an unknown value is, by its use."""
        if self.machine.symbols.derives_from(value.symbol, self.from_owners):
            return None
        if kind == SCALER:
            return as_scaler(self.machine, value)
        if kind not in OPTIMIZERS:
            return None
        self.machine.record_guesses(value.symbol, OPTIMIZER_NAME.guesses(path) if kind == NAMED_OPTIMIZER else ())
        return Optimizer(value.symbol)

    def annotated_value(self, symbol: int, name: str) -> Value | None:
        """A scaler or an optimizer by its annotation."""
        if name in GRAD_SCALERS:
            return Scaler(symbol, self.machine.unknown("enabled", parts=(symbol,)), cls=name)
        return Optimizer(symbol) if name == ANY_OPTIMIZER_CLASS or is_optimizer(name) else None

    def rebound_result(self, node: cst.Call, before: Value) -> Value | None:
        """A function that modifies and returns an optimizer or scaler returns the same one; only a class wraps it."""
        called = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
        wraps = not isinstance(called, cst.Name) or called.value[:1].isupper()
        return before if isinstance(before, (Optimizer, Scaler)) and not wraps else None

    def join(self, left: Value, right: Value) -> Value | None:
        """Join optimizers, their classes or scalers to one, a loss and its scaled one to one that may be scaled."""
        machine = self.machine
        if isinstance(left, Ref) and isinstance(right, Ref):
            classes = {left.name, right.name} - {ANY_OPTIMIZER_CLASS}
            return Ref(ANY_OPTIMIZER_CLASS) if classes and all(map(is_optimizer, classes)) else None
        if isinstance(left, Optimizer) and isinstance(right, Optimizer):
            owner = left.owner if left.owner == right.owner else None
            cls = left.cls if left.cls == right.cls else ""
            return Optimizer(machine.joined_symbol(left, right), cls, owner, left.loops)
        if isinstance(left, Scaler) and isinstance(right, Scaler):
            symbol, cls = machine.joined_symbol(left, right), left.cls if left.cls == right.cls else ""
            enabled = left.enabled if left.enabled == right.enabled else machine.unknown("enabled", parts=(symbol,))
            return Scaler(symbol, enabled, left.created, left.loops, cls)
        if _scale_of(left) != _scale_of(right):
            return Tensor(machine.symbols.intern("either", left, right), traits=frozenset({PERHAPS_SCALED}))
        return None

    def joined(self, left: Value, right: Value, joint: Value) -> None:
        """Two optimizers joined to one."""
        if isinstance(left, Optimizer) and isinstance(right, Optimizer) and isinstance(joint, Optimizer):
            self.machine[Owners].known.setdefault(joint.symbol, joint.owner)

    def explores(self, value: Value) -> bool:
        """Scalers, optimizers and scaled losses have a state of their own."""
        return isinstance(value, (Scaler, Optimizer)) or _scale_of(value) is not None

    def differ_in_kind(self, left: Value, right: Value) -> bool:
        """Losses with the scale of different scalers, or one without, are kept apart."""
        return _scale_of(left) != _scale_of(right)

    def set_elsewhere(self, value: Value) -> Value | None:
        """The loops around the construction of a scaler or optimizer in another method are unknown here."""
        if isinstance(value, Optimizer):
            return replace(value, loops=None)
        return replace(value, loops=()) if isinstance(value, Scaler) else None

    def owns_attribute(self, target: cst.Attribute) -> bool:
        """Gradients are tracked apart from other attributes."""
        return target.attr.value == "grad"

    def attribute_set(self, state: State, target: cst.Attribute, owner: Value, value: Value) -> Value | None:
        """`parameter.grad = value`."""
        if target.attr.value == "grad":
            windows.note(self.machine, state, Job.RESCALE, target)
            gradient_set(self.machine, state, value)
        return None

    def attribute_read(self, state: State, owner: Value, name: str) -> None:
        """Code that reads the scaler's internal records may take other paths than it seems."""
        if isinstance(owner, Scaler) and name == _RECORDS:
            forget(self.machine, state, [owner])
            if self.machine.statement is not None:
                self.machine.emit(state, ScalerRecordsRead, self.machine.statement, scaler=owner)

    def augmented(self, state: State, node: cst.AugAssign, before: Value, other: Value) -> Value | None:
        """`parameter.grad *= other`."""
        if isinstance(node.target, cst.Attribute) and node.target.attr.value == "grad":
            windows.note(self.machine, state, Job.RESCALE, node)
            if self.machine.symbols.involves(symbol_of(self.machine, other), "scale of"):
                forget_gradients(state)
            elif isinstance(node.operator, (cst.AddAssign, cst.SubtractAssign)):
                gradients_read(self.machine, state, node, before, "changed", mutates=True)
        return None

    def condition_assumed(self, state: State, value: Value, holds: bool) -> None:
        """If no parameter has a gradient, there is nothing to step with."""
        if not holds and self._is_any_gradient(value):
            forget_gradients(state)

    def _is_any_gradient(self, value: Value) -> bool:
        """Whether `value` is `any(parameter.grad is not None ...)`."""
        symbols = self.machine.symbols
        if not isinstance(value, Unknown) or symbols.key(value.symbol)[:2] != ("call", "builtins.any"):
            return False
        return symbols.involves(value.symbol, "attribute", "grad")

    def must_follow(self, state: State, function: Function, given: Sequence[Value]) -> bool:
        """A function that is given a scaled loss, or one of the linted file that makes an optimizer of what it gets."""
        if any(_scale_of(value) is not None for value in given):
            return True
        ours = function.chunk.source is self.machine.program.main
        return ours and not function.chunk.words.isdisjoint(_MAKES_OPTIMIZERS)

    def resumes(self, function: cst.CSTNode) -> bool:
        """Whether a generator contains calls of the protocol."""
        return any(isinstance(node, cst.Attribute) and node.attr.value in _METHODS for node in walk(function))
