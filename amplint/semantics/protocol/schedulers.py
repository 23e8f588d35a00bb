"""Learning-rate schedulers that advance once per step, and whether they wait for a step that the scaler skipped."""

from __future__ import annotations

from amplint.findings import Guessed
from amplint.semantics.events import OptState, SchedulerStep
from amplint.semantics.memory.progress import ANY_OPTIMIZER, Progress
from amplint.semantics.protocol.skips import asks
from amplint.semantics.python import attributes
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.values.state import Iteration, State
from amplint.semantics.values.values import Instance, Ref, Unknown, Value
from amplint.semantics.words import SCHEDULER
from amplint.source import syntax as cst
from amplint.source.tree import every

_SCHEDULERS = ("torch.optim.lr_scheduler.", "torch.optim.swa_utils.SWALR")
_MAKERS = (*_SCHEDULERS, "transformers.get_", "transformers.optimization.get_", "timm.scheduler.")


def step(machine: Machine, state: State, node: cst.Call, owner: Value) -> None:
    """`owner.step()` of something that is no optimizer and no scaler."""
    machine.contacts += 1
    if not isinstance(node.func, cst.Attribute) or not _is_scheduler(machine, node.func.value, owner):
        return
    latest = _stepped(machine, state)
    if latest is not None:
        scaler, call = latest
        machine.emit(
            state, SchedulerStep, node, call=node, scaler=scaler, stepped=call, waits=asks(machine, state, call),
            guesses=_guesses(machine, state, node.func.value, owner),
        )  # fmt: skip


def _is_scheduler(machine: Machine, spelled: cst.BaseExpression, owner: Value) -> bool:
    if _name(spelled):
        return True
    kind, *details = machine.symbols.key(getattr(owner, "symbol", machine.fresh()))
    return kind == "call" and str(details[0]).startswith(_SCHEDULERS)


def _name(spelled: cst.BaseExpression) -> str:
    """The name of an owner of `step`, if it says that this is a scheduler."""
    while isinstance(spelled, cst.Subscript):
        spelled = spelled.value
    name = spelled.attr if isinstance(spelled, cst.Attribute) else spelled
    return name.value if isinstance(name, cst.Name) and SCHEDULER.search(name.value) else ""


def _guesses(machine: Machine, state: State, spelled: cst.BaseExpression, owner: Value) -> tuple[Guessed, ...]:
    """The name of a scheduler that nothing in sight has made."""
    if not isinstance(owner, (Instance, Unknown)) or _is_made(machine, state, owner):
        return ()
    machine.guess(owner.symbol, SCHEDULER.taken(_name(spelled)))
    return machine.guessed(owner.symbol)


def _is_made(machine: Machine, state: State, owner: Instance | Unknown) -> bool:
    """Whether a scheduler of a library was made, on whatever path, or an object of a class that derives from one."""
    if isinstance(owner, Instance):
        above = attributes.lineage(machine, state, owner.cls)
        bases = (base for cls in above for base in attributes.bases(machine, state, cls))
        return any(isinstance(base, Ref) and base.name.startswith(_SCHEDULERS) for base in bases)
    todo = [owner.symbol]
    while todo:
        key, parts = machine.symbols.key(todo[-1]), machine.symbols.parts(todo.pop())
        if key[0] == "call" and str(key[1]).startswith(_MAKERS):
            return True
        todo += parts if key[0] == "either" else ()
    return False


def _stepped(machine: Machine, state: State) -> tuple[int, cst.CSTNode] | None:
    """The scaler that has stepped an optimizer in this very iteration, and the call that did, or its `update`."""
    for (scaler, _), stage in state[Progress].pairs.items():
        if stage.state is OptState.STEPPED and stage.node and _is_now(machine, state, stage.node, stage.iteration):
            return scaler, stage.node
    for scaler, known in state[Progress].scalers.items():
        if known.updated is not None and _is_now(machine, state, known.updated, known.iteration):
            return scaler, known.updated
    return None


def _is_now(machine: Machine, state: State, call: cst.CSTNode, iteration: Iteration) -> bool:
    """Whether `call` ran in this very iteration, or in a loop inside it that goes over the optimizers it steps."""
    if iteration == state.iteration:
        return True
    if iteration[:-1] != state.iteration or machine.chunk is None:
        return False
    gradients = state[Progress].gradients.items()
    used = [one for one, known in gradients if one != ANY_OPTIMIZER and (known.consumed or known.cleared)]
    keys = [machine.symbols.key(part) for one in used for part in machine.symbols.behind(one)]
    items = {key[1] for key in keys if key[0] == "item"}
    loops = [loop for loop in every(machine.chunk.module, cst.For) if id(loop) in items] if items else []
    return any(inner is call for loop in loops for inner in every(loop, cst.Call))


class Schedulers(Tracker):
    """Follows learning-rate schedulers."""

    triggers = frozenset({"step"})
    methods = frozenset({"step"})

    def annotated(self, symbol: int, name: str) -> Value | None:
        """An annotation tells that this is a scheduler."""
        if name.startswith(_SCHEDULERS):
            self.machine.guess(symbol, ())
        return None

    def method(self, state: State, call: Call) -> Value | None:
        """`scheduler.step()`."""
        if call.name == "step" and not call.arguments.given and isinstance(call.owner, (Unknown, Instance)):
            step(self.machine, state, call.node, call.owner)
        return None
