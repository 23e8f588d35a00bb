"""Calls of scalers, optimizers and losses, and their constructors."""

from __future__ import annotations

from collections.abc import Mapping

from amplint.semantics.events import DelegatedBackward, ScalerCreated
from amplint.semantics.frameworks import frameworks
from amplint.semantics.losses import readings
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.memory.progress import Owners
from amplint.semantics.models import optimized
from amplint.semantics.protocol import escapes, optimizers, passes, scale_reads, scalers
from amplint.semantics.protocol.reads import never_read
from amplint.semantics.python import attributes
from amplint.semantics.python.functions import call_function
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Handler, Tracker
from amplint.semantics.python.truth import assume
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.regions import ran
from amplint.semantics.regions.innermost import is_off
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    NONE,
    TRUE,
    Class,
    Const,
    Function,
    Optimizer,
    Ref,
    Scaler,
    Tensor,
    Unknown,
    Value,
)
from amplint.semantics.words import LOSS
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.tree import every, walk
from amplint.torchlib.names import ANY_OPTIMIZER_CLASS, DTYPES, GRAD_SCALERS, derives_optimizer, is_optimizer

_OF_BACKWARD = frozenset({"gradient", "retain_graph", "create_graph", "inputs"})
"""The parameters of a tensor's `backward`."""
_OPTIMIZERS = Ref("torch.optim")


class ProtocolCalls(Tracker):
    """Tracks the calls of the protocol."""

    triggers = frozenset(
        {"GradScaler", "ShardedGradScaler", "scale", "unscale_", "step", "update", "get_scale", "backward", "zero_grad"}
    )

    def library(self) -> Mapping[str, Handler]:
        """Scalers and `torch.autograd.backward`."""
        return {**dict.fromkeys(GRAD_SCALERS, self._scaler), "torch.autograd.backward": self._backward}

    def _scaler(self, state: State, call: Call) -> Value | None:
        machine, node = self.machine, call.node
        assert isinstance(call.callee, Ref)
        enabled = call.arguments.value("enabled") or TRUE
        scaler = Scaler(machine.identity(state, node), enabled, node, _loops(machine, state, node), call.callee.name)
        either = ran.half_flag_guesses(machine, state, scaler.enabled)
        asked = ran.bfloat16_flag_guesses(machine, state, scaler.enabled) if either is None else None
        machine.emit(
            state, ScalerCreated, node, call=node, scaler=scaler, never_read=never_read(machine, node),
            for_bfloat16=asked is not None, also_bfloat16=either is not None, guesses=asked or either or (),
            ruled_out=machine.supposition is None and not machine.configs
            and is_off(machine, state, scaler.enabled) and _compares_with_float16(node),
            only_float16=_is_made_for_float16(machine, node),
            positional=tuple((one.node, one.value) for one in call.arguments.given if not one.keyword and not one.star),
        )  # fmt: skip
        return scaler

    def _backward(self, state: State, call: Call) -> Value | None:
        if not call.arguments.given:
            return None
        if call.arguments.get("grad_tensors", 1) is not None:
            escapes.forget_gradients(state)
            return Const(None)
        tensors = call.arguments.values[0]
        values = getattr(tensors, "values", (tensors,))
        scaled = [value for value in values if isinstance(value, Tensor) and value.scaled]
        passes.backward(self.machine, state, call.node, scaled[0] if scaled else values[0] if values else tensors)
        return Const(None)

    def supposed_attribute(self, state: State, node: cst.Call, owner: Value, key: Value) -> Value | None:
        """The class that `getattr(torch.optim, name)` chooses by a setting."""
        return Ref(ANY_OPTIMIZER_CLASS) if owner == _OPTIMIZERS else None

    def handles_library_call(self, name: str) -> bool:
        """Optimizers."""
        return name == ANY_OPTIMIZER_CLASS or is_optimizer(name)

    def library_call(self, state: State, call: Call) -> Value | None:
        """The optimizers of PyTorch and of other libraries."""
        assert isinstance(call.callee, Ref)
        given = call.arguments.value("params", 0)
        owner = _parameters_of(self.machine, given)
        optimizer = self._made(state, call.node, call.callee.name, owner)
        self.machine[CallIndex].index.made[optimizer.symbol] = call.node
        self.machine[CallIndex].index.trained[optimizer.symbol] = _models_named(call.node)
        if owner is None and isinstance(given, Unknown):
            owner = self.machine[Owners].known[optimizer.symbol] = given.symbol
        if owner is not None:
            self.machine[Owners].known.setdefault(owner, owner)
        optimized.train(self.machine, state, optimizer, call.arguments)
        return optimizer

    def _made(self, state: State, node: cst.Call, cls: str, owner: int | None) -> Optimizer:
        optimizer = Optimizer(self.machine.identity(state, node), cls, owner, self.machine.loops)
        self.machine[Owners].known[optimizer.symbol] = owner
        optimizers.constructed(state, optimizer)
        return optimizer

    def subclass_instance(self, state: State, call: Call, cls: Class, base: Ref) -> Value | None:
        """A class of the tree that derives from a scaler or an optimizer is one, unless it overrides the step."""
        machine, node = self.machine, call.node
        if base.name in GRAD_SCALERS:
            if attributes.find_method(machine, state, cls, "step") is not None:
                return Unknown(machine.identity(state, node))
            enabled = machine.unknown("enabled", id(node))
            return Scaler(machine.identity(state, node), enabled, node, machine.loops, base.name)
        if derives_optimizer(base.name):
            return self._made(state, node, "", _parameters_of(machine, call.arguments.value("params", 0)))
        return None

    def method(self, state: State, call: Call) -> Value | None:
        """`backward`, `zero_grad`, and the methods of scalers and optimizers."""
        machine, node, owner, name, arguments = self.machine, call.node, call.owner, call.name, call.arguments
        assert owner is not None
        if name == "backward":
            return _backward_method(machine, state, node, owner, arguments)
        if isinstance(owner, Scaler) or (name == "unscale_" and isinstance(owner, Unknown)):
            scaler = scalers.as_scaler(machine, owner)
            if scaler is None:
                escapes.forget_gradients(state)
                return Unknown(machine.fresh())
            return _scaler_method(machine, state, node, scaler, name, arguments)
        if name == "zero_grad" and not isinstance(owner, (Ref, Const)):
            to_none = arguments.value("set_to_none", 0) in (None, TRUE)
            optimizers.zero_grad(machine, state, node, owner, to_none)
            return Const(None)
        if isinstance(owner, Optimizer):
            if name == "step":
                frameworks.stepped(machine, state, node, owner)
                _optimizer_step(machine, state, node, owner, arguments)
            machine.idle.add(node)
            return machine.unknown("call", name, parts=(owner.symbol,))
        return None


@cached_per_file
def _compares_with_float16(node: cst.Call) -> bool:
    """Whether the flag of a scaler is, or combines, a comparison of a dtype with float16."""
    flags = (argument.value for argument in node.args if argument.keyword and argument.keyword.value == "enabled")
    return any(_names_float16(one) for flag in flags for one in every(flag, cst.Comparison))


def _names_float16(comparison: cst.Comparison) -> bool:
    """Whether an operand of a comparison is float16, as a dtype or as a string."""
    operands = (comparison.left, *(target.comparator for target in comparison.comparisons))
    named = [f"torch.{one.evaluated_value!s}" if isinstance(one, cst.SimpleString) else dotted(one) for one in operands]
    return any(DTYPES.get(name or "") == "float16" for name in named)


def _is_made_for_float16(machine: Machine, node: cst.Call) -> bool:
    """Whether a scaler is constructed, or switched on, only where a comparison of a dtype with float16 holds."""
    if any(_asks_for_float16(one.value) for one in node.args if one.keyword and one.keyword.value == "enabled"):
        return True
    source = machine.program.source_of(node)
    inner: cst.CSTNode = node
    for above in source.ancestors(node) if source is not None else ():
        if isinstance(above, cst.FunctionDef):
            return False
        if isinstance(above, (cst.If, cst.IfExp)) and inner is above.body and _asks_for_float16(above.test):
            return True
        inner = above
    return False


def _asks_for_float16(test: cst.BaseExpression) -> bool:
    """Whether a condition holds only where a dtype equals float16."""
    if isinstance(test, cst.BooleanOperation):
        both = isinstance(test.operator, cst.And)
        return (any if both else all)(map(_asks_for_float16, (test.left, test.right)))
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1 or not _names_float16(test):
        return False
    return isinstance(test.comparisons[0].operator, (cst.Equal, cst.Is))


def _optimizer_step(machine: Machine, state: State, node: cst.Call, owner: Optimizer, arguments: Arguments) -> None:
    closure = arguments.value("closure", 0)
    if isinstance(closure, Function):
        call_function(machine, state, closure, [], {}, node)
    elif arguments.given:
        escapes.forget_gradients(state)
    optimizers.step(machine, state, node, owner, closure=any(value != NONE for value in arguments.values))


def _backward_method(machine: Machine, state: State, node: cst.Call, owner: Value, arguments: Arguments) -> Value:
    positional = [a for a in arguments.given if a.star != "**" and a.keyword in (None, "gradient")]
    seeds = [a for a in positional if not isinstance(a.value, Const)]
    if not seeds and (
        isinstance(owner, Tensor) or (isinstance(owner, Unknown) and _may_be_loss(machine, state, owner, arguments))
    ):
        passes.backward(machine, state, node, owner)
        return Const(None)
    escapes.forget_gradients(state)
    if isinstance(owner, Tensor):
        return Const(None)
    if state.regions:
        _delegated(machine, state, node)
    return Unknown(machine.fresh())


def _may_be_loss(machine: Machine, state: State, owner: Unknown, arguments: Arguments) -> bool:
    """Whether an unknown owner of `backward` may be a tensor: it takes what tensors take, and runs once.

    An argument of a function that runs it in each iteration, with a graph that is not retained, is an object that
    computes the losses itself.
    """
    named = {argument.keyword for argument in arguments.given} - {None}
    repeated = bool(state.iteration) and machine.symbols.key(owner.symbol)[0] == "parameter"
    return named <= _OF_BACKWARD and (not repeated or "retain_graph" in named)


def _delegated(machine: Machine, state: State, node: cst.Call) -> None:
    """`engine.backward(loss)`: a loss, by its name, is passed to an object that runs backward on it."""
    given = [argument.value for argument in node.args[:1] if argument.keyword is None]
    names = (n.value for first in given for n in walk(first) if isinstance(n, cst.Name))
    said = next(filter(LOSS.search, names), None)
    if said is not None:
        machine.emit(state, DelegatedBackward, node, guesses=LOSS.guesses(said))


def _scaler_method(
    machine: Machine, state: State, node: cst.Call, scaler: Scaler, name: str, arguments: Arguments
) -> Value:
    machine.idle.add(node)
    if scaler.created is None and name != "is_enabled":
        assume(machine, state, scaler, True)  # None has no such method; a condition can ask one that is not None
    if name == "scale":
        return passes.scale(machine, state, node, scaler, arguments)
    if name == "unscale_":
        scalers.unscale(machine, state, node, scaler, arguments)
    elif name == "step":
        scalers.step(machine, state, node, scaler, arguments)
    elif name == "update":
        scalers.update(machine, state, node, scaler, arguments)
    elif name == "is_enabled":
        return scaler.enabled
    elif name == "get_scale":
        scale_reads.read(machine, state, node, scaler)
        return readings.scale_symbol(machine, state, scaler)
    elif name not in ("state_dict", "load_state_dict"):
        escapes.forget(machine, state, [scaler])
    return Unknown(machine.fresh())


def _loops(machine: Machine, state: State, node: cst.Call) -> tuple[cst.CSTNode, ...]:
    """The loops that construct an object in each iteration: none for one constructed only if it does not exist yet."""
    return () if machine.is_in_cached_function() or _is_first(machine, state, node) else machine.loops


def _is_first(machine: Machine, state: State, node: cst.Call) -> bool:
    """Whether the path's latest decision is a comparison by `is`, and the call at `node` stands in a branch of it.

    A comparison with True or False asks for a setting, and not for the object.
    """
    decision = state.trail.step[0] if state.trail is not None and state.trail.side is not None else None
    if not isinstance(decision, cst.Comparison) or not isinstance(decision.comparisons[0].operator, cst.Is):
        return False
    other = decision.comparisons[0].comparator
    if isinstance(other, cst.Name) and other.value in ("True", "False"):
        return False
    source = machine.program.source_of(decision)
    around = next(iter(source.ancestors(decision)), None) if source is not None else None
    return around is not None and any(inner in (node, *machine.sites) for inner in walk(around))


@cached_per_file
def _models_named(made: cst.Call) -> frozenset[str]:
    """The names of the models whose parameters the construction of an optimizer takes."""
    called = (call.func for call in every(made, cst.Call))
    taken = (func.value for func in called if isinstance(func, cst.Attribute) and func.attr.value == "parameters")
    return frozenset(name for owner in taken if (name := dotted(owner)) is not None)


def _parameters_of(machine: Machine, value: Value | None) -> int | None:
    if isinstance(value, Unknown) and machine.symbols.key(value.symbol)[0] == "parameters":
        return machine.symbols.parts(value.symbol)[0]
    return None
