"""Scaled losses and backward passes."""

from __future__ import annotations

from amplint.semantics.accumulation import windows
from amplint.semantics.events import Backward, Gradients, GradState, ScaleDiscarded
from amplint.semantics.losses import penalties, readings, zeros
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.memory.gradients import NO_GRADIENTS, added, each, waiting
from amplint.semantics.memory.progress import ANY_OPTIMIZER, Progress, on_path
from amplint.semantics.memory.scaling import Scaling
from amplint.semantics.models import outside
from amplint.semantics.protocol import first_scales
from amplint.semantics.protocol.escapes import forget_gradients
from amplint.semantics.protocol.optimizers import has_another
from amplint.semantics.protocol.overflows import emit_overflow, leave_overflow
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.regions import ran
from amplint.semantics.regions.innermost import is_off
from amplint.semantics.regions.ran import RegionsRun
from amplint.semantics.tensors.tensors import Tensors
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import PERHAPS_SCALED, Items, Scaler, Tensor, Unknown, Value
from amplint.source import syntax as cst


def scale(machine: Machine, state: State, node: cst.Call, scaler: Scaler, arguments: Arguments) -> Value:
    """`scaler.scale(outputs)`."""
    machine.idle.add(node)
    machine[CallIndex].record(node)
    value = arguments.values[0] if arguments.given else Unknown(machine.fresh())
    if is_off(machine, state, scaler.enabled):
        machine[Scaling].idle_scales.add(node)
        machine[CallIndex].index.idle.add(scaler.symbol)
        return value
    if isinstance(value, Items):
        return Items(tuple(_scaled(machine, state, node, scaler, item) for item in value.values))
    machine[CallIndex].spell(scaler, node)
    penalties.scaled(machine, state, node, scaler, value)
    scaled = _scaled(machine, state, node, scaler, value)
    if isinstance(machine.statement, cst.SimpleStatementLine) and _is_bare(machine.statement, node):
        state.bind(state.frame, "<scaled>", scaled)
        machine.emit(state, ScaleDiscarded, node, scaler=scaler, loss=symbol_of(machine, value))
    return scaled


def _is_bare(statement: cst.SimpleStatementLine, node: cst.Call) -> bool:
    return any(isinstance(small, cst.Expr) and small.value is node for small in statement.body)


def _scaled(machine: Machine, state: State, node: cst.Call, scaler: Scaler, value: Value) -> Tensor:
    plain = symbol_of(machine, value)
    readings.scaled(machine, state, scaler, plain, node)
    result = Tensor(machine.fresh(), scaled=scaler, plain=plain, made=node)
    machine[Scaling].scaled.add(result.symbol)
    machine[Scaling].plain[result.symbol] = value
    return result


def backward(machine: Machine, state: State, node: cst.Call, loss: Value) -> None:
    """A backward pass on `loss`."""
    machine.idle.add(node)
    machine[CallIndex].record(node)
    machine.interactions += 1
    machine[Scaling].ran_at.setdefault(node, set()).add(machine.sites)
    if _of_unknown_scale(machine, loss) or (isinstance(loss, Tensor) and PERHAPS_SCALED in loss.traits):
        forget_gradients(state)
        return
    scaler = loss.scaled if isinstance(loss, Tensor) else None
    if scaler is not None and is_off(machine, state, scaler.enabled):
        scaler = None
    machine[CallIndex].index.backwards.setdefault(symbol_of(machine, loss), []).append(node)
    windows.record_backward(machine, state, node, loss)
    of_leaf = isinstance(loss, Tensor) and loss.symbol in machine[Tensors].leaves
    regions = ran.regions(machine, state, scaler)
    of_zero = zeros.is_zero(machine, loss)
    machine.emit(
        state, Backward, node, loss=loss, scaler=scaler, regions=regions, of_leaf=of_leaf, of_zero=of_zero,
    )  # fmt: skip
    outside.differentiated(machine, state, loss, node)
    state.change(RegionsRun).ran = ()
    if scaler is not None:
        leave_overflow(machine, state)
        emit_overflow(machine, state, node, scaler)
        state.note(node, "backward leaves gradients that carry the loss scale")
        fresh = Gradients(GradState.SCALED, scaler, node)
        plain = machine[Scaling].plain.get(symbol_of(machine, loss))
        if plain is not None and not _retains_graph(node):
            state.change(Progress).spent = plain, node
    else:
        machine[CallIndex].index.absent.setdefault(node, set()).update(first_scales.without_object(state))
        discarded = _discarded_scale(machine, state, loss)
        if discarded is not None:
            machine.emit(state, ScaleDiscarded, discarded[1], scaler=discarded[0], loss=symbol_of(machine, loss))
        state.note(node, "backward runs on the loss without its scale")
        idle = _idle_scale(machine, node)
        scale = discarded[1] if discarded else idle
        fresh = Gradients(GradState.RAW, backward=node, raw=node, discarded=scale, again=_spent(state, loss))
    known = {key for key in state[Progress].gradients if key != ANY_OPTIMIZER}
    alone = len(known) <= 1 and not has_another(machine, state, known)
    left = {ANY_OPTIMIZER: NO_GRADIENTS, **state[Progress].gradients}
    before = each(left, lambda one: on_path(machine, state, one))
    after = each(before, lambda one: added(one, fresh, alone))
    kept = [optimizer for optimizer in known if _keeps_graph(before[optimizer])] if not alone else []
    for optimizer in kept:
        if not any(waiting(before[other]) for other in known if other != optimizer):
            after[optimizer] = added(before[optimizer], fresh, True)
    state.change(Progress).gradients = after
    state[Progress].unskipped = frozenset()


def _idle_scale(machine: Machine, node: cst.Call) -> cst.CSTNode | None:
    """The call of `scale` whose result `backward` is called on, on a path with a disabled scaler."""
    owner = node.func.value if isinstance(node.func, cst.Attribute) else None
    return owner if owner in machine[Scaling].idle_scales else None


def _spent(state: State, loss: Value) -> cst.CSTNode | None:
    """The pass on the scaled `loss` that has used up its graph.

    It is the value of one evaluation: another one of the same expression has a graph of its own.
    """
    plain, node = state[Progress].spent or (None, None)
    return node if plain is loss else None


def _keeps_graph(gradients: Gradients) -> bool:
    """Whether the latest pass kept its graph for a further one, which adds to the gradients of the same parameters."""
    return isinstance(gradients.backward, cst.Call) and _retains_graph(gradients.backward)


def _retains_graph(call: cst.Call) -> bool:
    return any(
        argument.keyword is not None
        and argument.keyword.value == "retain_graph"
        and isinstance(argument.value, cst.Name)
        and argument.value.value == "True"
        for argument in call.args
    )


def _of_unknown_scale(machine: Machine, loss: Value) -> bool:
    """Whether `loss` may hold older gradients or carry a scale.

    That is the result of an unseen call of a scaled loss, and an argument from an unseen caller, of a private method or
    in a program that neither makes a scaler nor scales anything.
    """
    symbol, scaled = symbol_of(machine, loss), isinstance(loss, Tensor) and loss.scaled is not None
    taken = machine.symbols.involves(symbol, "gradients of", False) and not scaled
    if machine.symbols.key(symbol)[0] == "call" and not machine[Scaling].scaled.isdisjoint(
        machine.symbols.parts(symbol)
    ):
        return True
    method = machine.calls[-1] if machine.calls else None
    from_caller = machine.symbols.key(symbol)[0] == "parameter" and (
        _is_private_method(method) or all(chunk.words.isdisjoint(_SCALING) for chunk in machine.program.chunks)
    )
    return taken or from_caller or machine.symbols.involves(symbol, "attribute", "grad")


def _is_private_method(function: cst.CSTNode | None) -> bool:
    """Whether other methods of the same object, including those of subclasses, call a function."""
    if not isinstance(function, cst.FunctionDef) or not function.params.params:
        return False
    name = function.name.value
    return function.params.params[0].name.value == "self" and name.startswith("_") and not name.startswith("__")


def _discarded_scale(machine: Machine, state: State, loss: Value) -> tuple[Scaler, cst.CSTNode] | None:
    symbol = symbol_of(machine, loss)
    for value in [value for table in state.frames.values() for value in table.values()]:
        if isinstance(value, Tensor) and value.scaled and value.plain == symbol and value.made is not None:
            return value.scaled, value.made
    return None


_SCALING = frozenset({"GradScaler", "scale"})
