"""Methods of losses, scalers, optimizers, models and gradients."""

from __future__ import annotations

import libcst as cst

from amplint.semantics import (
    checkpoints,
    contexts,
    frameworks,
    models,
    numerics,
    parameters,
    protocol,
    readings,
    scale_reads,
    schedulers,
    seams,
    subregions,
    sums,
    weights,
    windows,
)
from amplint.semantics.arguments import Arguments
from amplint.semantics.containers import hold
from amplint.semantics.events import HalfCast, Job
from amplint.semantics.functions import call_function
from amplint.semantics.machine import Machine
from amplint.semantics.state import State
from amplint.semantics.tensors import CASTS, converted
from amplint.semantics.truth import symbol_of
from amplint.semantics.values import (
    TRUE,
    Const,
    Function,
    Instance,
    Manager,
    Module,
    Optimizer,
    Ref,
    Scaler,
    Tensor,
    Unknown,
    Value,
)
from amplint.torchlib.names import CLIPPERS, DTYPES, HALF_DTYPES

SAME_OBJECT = frozenset(["cuda", "cpu", "train", "eval", "requires_grad_", "share_memory", "to", "xpu"])


def call_method(
    machine: Machine, state: State, node: cst.Call, owner: Value, name: str, arguments: Arguments
) -> Value | None:
    """What `owner.name(...)` does for the methods known here, None for any other."""
    if isinstance(owner, Manager):
        return frameworks.call_method(machine, state, node, owner, name, arguments)
    if name == "half" and node not in machine.index.halves:
        machine.index.halves.append(node)
    _tell_half(machine, state, node, owner, name, arguments)
    if name == "state_dict":
        machine.idle.add(node)
        return checkpoints.take(machine, state, node, owner)
    if name == "load_state_dict":
        checkpoints.restore(machine, state, node, owner, arguments)
    if name == "backward":
        return _backward_method(machine, state, node, owner, arguments)
    if isinstance(owner, Scaler) or (name == "unscale_" and isinstance(owner, Unknown)):
        scaler = protocol.as_scaler(machine, owner)
        assert scaler is not None
        return _scaler_method(machine, state, node, scaler, name, arguments)
    if name == "zero_grad" and not isinstance(owner, (Ref, Const)):
        to_none = arguments.value("set_to_none", 0) in (None, TRUE)
        protocol.zero_grad(machine, state, node, owner, to_none)
        return Const(None)
    if isinstance(owner, Optimizer):
        if name == "step":
            frameworks.stepped(machine, state, node, owner)
            _optimizer_step(machine, state, node, owner, arguments)
        machine.idle.add(node)
        return machine.unknown("call", name, parts=(owner.symbol,))
    if name == "step" and not arguments.given and isinstance(owner, (Unknown, Instance)):
        schedulers.step(machine, state, node, owner)
    if name == "enter_context" and arguments.given:
        contexts.enter(machine, state, arguments.values[0], node)
        return arguments.values[0]
    if name == "__enter__":
        contexts.enter(machine, state, owner, node)
        return owner
    if name in ("parameters", "named_parameters", "trainable_parameters"):
        machine.idle.add(node)
        return machine.unknown("parameters", parts=(symbol_of(machine, owner),))
    if name == "register_buffer" and isinstance(owner, Instance) and len(arguments.values) > 1:
        buffer = arguments.values[0]
        if isinstance(buffer, Const) and isinstance(buffer.value, str):
            given = arguments.values[1]
            kept = weights.kept(machine, given) if isinstance(given, Tensor) else given
            state.set_attribute(owner.symbol, buffer.value, kept)
        return Const(None)
    if name == "append" and isinstance(owner, Module) and arguments.given:
        hold(state, owner, arguments.values[0])
        return owner
    if (name in SAME_OBJECT or name in CASTS) and not isinstance(owner, Tensor):
        parameters.cast(machine, state, node, owner, name, arguments)
        weights.cast(machine, state, node, owner, name, arguments)
        return converted(machine, node, owner, name, arguments) or owner
    if name == "type" and not isinstance(owner, Tensor):
        cast = converted(machine, node, owner, name, arguments)
        if cast is not None:
            return cast
    if name in ("div_", "mul_", "divide_", "multiply_") and isinstance(owner, (Tensor, Unknown)):
        state.set_attribute(owner.symbol, windows.CHANGED, TRUE)
    if _is_gradient(machine, owner):
        return _gradient_method(machine, state, node, owner, name, arguments)
    return numerics.method(machine, state, node, owner, name, arguments)


def _tell_half(machine: Machine, state: State, node: cst.Call, owner: Value, name: str, arguments: Arguments) -> None:
    """Tell of `x.half()` and its kind, where the dtype is written out and `x` is no model."""
    named = arguments.values if name in ("to", "type") else []
    dtype = CASTS.get(name) or next((DTYPES.get(v.name) for v in named if isinstance(v, Ref)), None)
    subregions.lifted(machine, state, node, owner, name, arguments)
    seams.converted_late(machine, state, node, dtype)
    if dtype in HALF_DTYPES and node not in machine.index.lowered:
        machine.index.lowered.append(node)
    sums.stored(machine, state, node, dtype)
    if dtype not in HALF_DTYPES or not isinstance(owner, (Tensor, Unknown)):
        return
    if isinstance(node.func, cst.Attribute) and not models.is_model(machine, state, owner, node.func.value):
        machine.emit(state, HalfCast, node, dtype=dtype)


def _optimizer_step(machine: Machine, state: State, node: cst.Call, owner: Optimizer, arguments: Arguments) -> None:
    closure = arguments.value("closure", 0)
    if isinstance(closure, Function):
        call_function(machine, state, closure, [], {}, node)
    elif arguments.given:
        protocol.forget_gradients(state)
    protocol.optimizer_step(machine, state, node, owner, closure=bool(arguments.given))


def _backward_method(machine: Machine, state: State, node: cst.Call, owner: Value, arguments: Arguments) -> Value:
    seeds = [a for a in arguments.given if a.keyword in (None, "gradient") and not isinstance(a.value, Const)]
    if isinstance(owner, (Tensor, Unknown)) and not seeds:
        protocol.backward(machine, state, node, owner)
    else:
        protocol.forget_gradients(state)
    return Const(None)


def _scaler_method(
    machine: Machine, state: State, node: cst.Call, scaler: Scaler, name: str, arguments: Arguments
) -> Value:
    machine.idle.add(node)
    if name == "scale":
        return protocol.scale(machine, state, node, scaler, arguments)
    if name == "unscale_":
        protocol.unscale(machine, state, node, scaler, arguments)
    elif name == "step":
        protocol.step(machine, state, node, scaler, arguments)
    elif name == "update":
        protocol.update(machine, state, node, scaler, arguments)
    elif name == "is_enabled":
        return scaler.enabled
    elif name == "get_scale":
        scale_reads.read(machine, state, node, scaler)
        return readings.scale_symbol(machine, state, scaler)
    elif name not in ("state_dict", "load_state_dict"):
        protocol.forget(machine, state, [scaler])
    return Unknown(machine.fresh())


def _is_gradient(machine: Machine, owner: Value) -> bool:
    """Whether `owner` is `parameter.grad`, or something taken from it by `.data` or `.detach()`."""
    while isinstance(owner, Unknown):
        kind, *names = machine.symbols.key(owner.symbol)
        if kind != "attribute" or names[0] not in ("grad", "data"):
            return False
        if names[0] == "grad":
            return True
        owner = Unknown(machine.symbols.parts(owner.symbol)[0])
    return False


_MEASURES = frozenset({"norm", "abs", "mean", "std", "max"})
_CHANGES = frozenset({"clamp_", "clip_", "add_", "sub_"})
"""In-place methods that do not commute with the loss scale; multiplying and dividing do."""
_SETS = frozenset({"zero_", "copy_", "set_", "fill_"})


def _involves_scale(machine: Machine, value: Value) -> bool:
    """Whether `value` was computed from what `get_scale()` returned."""
    return machine.symbols.involves(symbol_of(machine, value), "scale of")


def _gradient_method(
    machine: Machine, state: State, node: cst.Call, owner: Value, name: str, arguments: Arguments
) -> Value | None:
    if name.endswith("_"):
        windows.note(machine, state, Job.RESCALE, node)
    if any(_involves_scale(machine, value) for value in arguments.values):
        protocol.forget_gradients(state)
        return Unknown(machine.fresh())
    if name in _SETS:
        protocol.forget_gradients(state)
    elif name in _MEASURES or name in _CHANGES:
        what = "changed" if name in _CHANGES else "measured"
        protocol.gradients_read(machine, state, node, owner, what, mutates=name in _CHANGES)
    elif name in ("detach", "clone", "float"):
        return owner
    return machine.unknown("from gradient", name, parts=(symbol_of(machine, owner),))


def clip(machine: Machine, state: State, node: cst.Call, name: str, arguments: Arguments) -> Value:
    """`torch.nn.utils.clip_grad_norm_` and its kin."""
    machine.idle.add(node)
    mutates = CLIPPERS[name]
    limit = arguments.value("max_norm", 1) or arguments.value("clip_value", 1)
    if limit is not None and _involves_scale(machine, limit):
        return Unknown(machine.fresh())
    if arguments.given and limit != Const(None):
        if mutates:
            windows.note(machine, state, Job.CLIP, node)
        what = "clipped" if mutates else "measured"
        if mutates:
            frameworks.clipped(machine, state, node, name.rpartition(".")[2])
        protocol.gradients_read(machine, state, node, arguments.values[0], what, mutates)
    return Unknown(machine.fresh())
