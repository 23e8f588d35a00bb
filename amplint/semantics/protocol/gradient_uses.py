"""Gradients that a script reads and changes itself, by operations on `parameter.grad` and by PyTorch's clipping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amplint.semantics.accumulation import windows
from amplint.semantics.events import Job
from amplint.semantics.frameworks import frameworks
from amplint.semantics.protocol import clipping, escapes
from amplint.semantics.protocol.cancelled import cancels
from amplint.semantics.protocol.skips import norm_of_gradients
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Handler, Operands, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Ref, Unknown, Value, number
from amplint.source import syntax as cst
from amplint.torchlib.catalogue import in_place, operations_with
from amplint.torchlib.names import CLIPPERS


class GradientUses(Tracker):
    """Tracks reads and changes of gradients."""

    triggers = frozenset(name.rpartition(".")[2] for name in CLIPPERS) | {"grad"}

    def library(self) -> Mapping[str, Handler]:
        """`torch.nn.utils.clip_grad_norm_` and the like, and functions that return a changed gradient."""
        replacing = {f"torch.{name}": self._replace for name in _REPLACES}
        return dict.fromkeys(CLIPPERS, self._clip) | replacing

    def _clip(self, state: State, call: Call) -> Value | None:
        assert isinstance(call.callee, Ref)
        return _clip(self.machine, state, call.node, call.callee.name, call.arguments)

    def _replace(self, state: State, call: Call) -> Value | None:
        given = call.arguments
        if not given.given or given.value("out") is not None or not _is_gradient(self.machine, given.values[0]):
            return None
        assert isinstance(call.callee, Ref)
        self.machine.idle.add(call.node)
        name = call.callee.name.rpartition(".")[2]
        return _gradient_method(self.machine, state, call.node, given.values[0], name, given.values[1:])

    def unseen_begins(self, state: State, call: Call) -> None:
        """PyTorch functions with the effect of methods of `parameter.grad`, in place if it is their `out`; writers."""
        given, callee = call.arguments, call.callee
        for value in given.values if call.name in _RECORDERS else ():
            if _is_gradient(self.machine, value):
                clipping.gradients_read(self.machine, state, call.node, value, "logged", mutates=False)
        if not isinstance(callee, Ref) or not callee.name.startswith("torch.") or not given.given:
            return
        owner, out = given.values[0], given.value("out")
        name = callee.name.rpartition(".")[2]
        if name.startswith(_FOREACH):
            owner, name = _element(self.machine, owner), name.removeprefix(_FOREACH)
        if _is_gradient(self.machine, owner):
            in_place = out is not None and _is_gradient(self.machine, out)
            name += "_" * in_place
            _gradient_method(self.machine, state, call.node, owner, name, given.values[1:])

    def method(self, state: State, call: Call) -> Value | None:
        """Methods of `parameter.grad`."""
        if call.owner is None or not _is_gradient(self.machine, call.owner):
            return None
        return _gradient_method(self.machine, state, call.node, call.owner, call.name, call.arguments.values)

    def binary(self, state: State, operands: Operands) -> Value | None:
        """`parameter.grad ** 2`."""
        (_, owner), (_, exponent) = operands.left, operands.right
        if operands.kind != "Power" or operands.in_place or not _is_gradient(self.machine, owner):
            return None
        return _gradient_method(self.machine, state, operands.node, owner, "pow", [exponent])

    def attribute_set(self, state: State, target: cst.Attribute, owner: Value, value: Value) -> Value | None:
        """`parameter.grad = parameter.grad.clamp(...)` changes the gradient as `clamp_` does."""
        name = target.attr.value
        if name != "grad" and (name != "data" or not _is_gradient(self.machine, owner)):
            return None
        changed = _changed_gradient(self.machine, value)
        if changed is not None:
            clipping.gradients_read(self.machine, state, target, changed, "changed", mutates=True)
        return None


def _is_gradient(machine: Machine, owner: Value) -> bool:
    """Whether `owner` is `parameter.grad`, derived from it by `.data` or `.detach()`, or taken from a list of these."""
    while isinstance(owner, Unknown):
        kind, *names = machine.symbols.key(owner.symbol)
        if kind in ("item", "each"):
            element = _element(machine, Unknown(machine.symbols.parts(owner.symbol)[0]))
            if not isinstance(element, Unknown) or machine.symbols.key(element.symbol)[0] != "attribute":
                return False
            owner = element
            continue
        if kind != "attribute" or names[0] not in ("grad", "data"):
            return False
        if names[0] == "grad":
            return True
        owner = Unknown(machine.symbols.parts(owner.symbol)[0])
    return False


def _element(machine: Machine, listed: Value) -> Value:
    """The element of a list that a comprehension makes; `listed` itself, if it is anything else."""
    if not isinstance(listed, Unknown) or machine.symbols.key(listed.symbol)[0] != "comprehension":
        return listed
    return Unknown(machine.symbols.parts(listed.symbol)[-1])


_RECORDERS = frozenset({"add_histogram", "Histogram"})
"""Methods of TensorBoard's writer, and the class of Weights & Biases, that are given tensors to be shown."""
_SAME_NUMBERS = frozenset({"detach", "clone", "float", "cpu", "numpy", "flatten", "ravel", "view", "reshape"})
_FOREACH = "_foreach_"
"""Prefix of the functions that take lists of tensors."""
_MEASURES = frozenset({"norm", "vector_norm", "abs", "mean", "std", "max", "pow", "square"})
_CHANGES = frozenset({"clamp_", "clip_", "add_", "sub_", "nan_to_num_"})
"""What does not commute with the loss scale; multiplying and dividing do.

Nor does what hides from the scaler that gradients have overflowed.
"""
_SETS = in_place(operations_with("fills")) | {"set_"}
_CLAMPS = frozenset({"clamp", "clip", "clamp_", "clip_"})
_RESCALES = frozenset({"mul_", "div_", "copy_", "clamp_", "clip_"})
"""What clipping does to gradients in place."""
_SIGNS = (Const(0), Const(0.0), Const(None))
"""Limits that commute with the loss scale."""
_RETURN_NORM = frozenset({"clip_grad_norm_", "clip_grad_norm"})
"""What clips and returns the norm, so that it only measures one where no norm reaches the limit."""
_NO_LIMIT = 1e8
"""What no norm of gradients reaches that carry the usual loss scale, 65536, and are not infinite."""
_REPLACES = frozenset({"clamp", "clip", "nan_to_num"})
"""What changes gradients as `_CHANGES` do, once its result is assigned."""


def _changed_gradient(machine: Machine, value: Value) -> Value | None:
    """The gradient of which `value` is a changed copy, None where it is none."""
    if not isinstance(value, Unknown):
        return None
    kind, *names = machine.symbols.key(value.symbol)
    if kind != "from gradient" or names[0] not in _REPLACES:
        return None
    return Unknown(machine.symbols.parts(value.symbol)[0])


def _is_from_gradients(machine: Machine, value: Value) -> bool:
    """Whether a number was computed from gradients, as the factor of clipping is from their norm."""
    symbol = symbol_of(machine, value)
    return any(machine.symbols.involves(symbol, *key) for key in (("from gradient",), ("attribute", "grad")))


def _involves_scale(machine: Machine, value: Value) -> bool:
    """Whether `value` was computed from the result of `get_scale()`."""
    return machine.symbols.involves(symbol_of(machine, value), "scale of")


def _gradient_method(
    machine: Machine, state: State, node: cst.CSTNode, owner: Value, name: str, arguments: Sequence[Value]
) -> Value | None:
    if name.endswith("_"):
        windows.note(machine, state, Job.RESCALE, node)
    if name in _RESCALES:
        frameworks.clipped_too_early(machine, state, node)
        if any(_is_from_gradients(machine, value) for value in arguments):
            clipping.clipped_by_hand(machine, state, node, owner)
    if any(_involves_scale(machine, value) for value in arguments):
        escapes.forget_gradients(state)
        return Unknown(machine.fresh())
    if name in _SETS:
        escapes.forget_gradients(state)
    elif name in _CLAMPS and all(limit in _SIGNS for limit in arguments):
        return Unknown(machine.fresh())
    elif name in _MEASURES or name in _CHANGES:
        mutates = name in _CHANGES
        if mutates or not cancels(machine, node):
            frameworks.met_in_hook(machine, state, node, mutates)
            clipping.gradients_read(machine, state, node, owner, "changed" if mutates else "measured", mutates)
    elif name in _SAME_NUMBERS:
        return owner
    return machine.unknown("from gradient", name, parts=(symbol_of(machine, owner),))


def _clip(machine: Machine, state: State, node: cst.Call, name: str, arguments: Arguments) -> Value:
    """`torch.nn.utils.clip_grad_norm_` and the like."""
    machine.idle.add(node)
    limit = arguments.value("max_norm", 1) or arguments.value("clip_value", 1)
    without_limit = CLIPPERS[name] and (number(limit) or 0) >= _NO_LIMIT
    if without_limit and name.rpartition(".")[2] not in _RETURN_NORM:
        return Unknown(machine.fresh())
    mutates = CLIPPERS[name] and not without_limit
    if limit is not None and _involves_scale(machine, limit):
        return Unknown(machine.fresh())
    if arguments.given and limit != Const(None):
        if mutates:
            windows.note(machine, state, Job.CLIP, node)
        what = "clipped" if mutates else "measured"
        if CLIPPERS[name]:
            frameworks.clipped(machine, state, node, name.rpartition(".")[2], mutates)
        if mutates or not cancels(machine, node):
            frameworks.met_in_hook(machine, state, node, mutates)
            clipping.gradients_read(machine, state, node, arguments.values[0], what, mutates)
    return Unknown(norm_of_gradients(machine))
