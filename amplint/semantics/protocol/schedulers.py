"""Learning-rate schedulers that advance once per step, and whether they respect steps skipped by the scaler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from amplint.findings import Guessed
from amplint.semantics.events import OptState, SchedulerStep
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.memory.progress import ANY_OPTIMIZER, Progress
from amplint.semantics.protocol.skips import knows_finite, reads_skips
from amplint.semantics.python import attributes
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.values.state import Iteration, State
from amplint.semantics.values.values import Function, Instance, Optimizer, Ref, Scaler, Unknown, Value
from amplint.semantics.words import ADVANCES_SCHEDULERS, EPOCHS, SCHEDULER
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.source.tree import every

_SCHEDULERS = ("torch.optim.lr_scheduler.", "torch.optim.swa_utils.SWALR")
_MAKERS = (*_SCHEDULERS, "transformers.get_", "transformers.optimization.get_", "timm.scheduler.")


_OF_FUNCTION = "torch.optim.lr_scheduler.LambdaLR"
_CONSTANT = frozenset({"transformers.get_constant_schedule", "transformers.optimization.get_constant_schedule"})
_TAKEN_FROM = frozenset({"part", "index", "item", "each", "comprehension"})
_UNCHANGED = frozenset(("call", f"builtins.{name}") for name in ("enumerate", "list", "tuple", "reversed", "iter"))
_NAMED = {"attribute": 1, "call": 1, "name": -1, "parameter": -1, "variable": -1}
"""Kinds of symbols that a name leads to, or that what a name calls has made, and where in their key it stands."""
_VIEWS = frozenset({"items", "values"})


def step(machine: Machine, state: State, node: cst.Call, owner: Unknown | Instance) -> None:
    """`owner.step()` of an object that is no optimizer and no scaler."""
    machine.interactions += 1
    if _is_constant(machine, owner):
        return
    if isinstance(node.func, cst.Attribute) and _is_scheduler(machine, state, node.func.value, owner):
        guesses = _guesses(machine, state, node.func.value, owner)
        _advanced(machine, state, node, _rounds(machine, state, owner), guesses, _optimizers(machine, state, owner))


def _advanced(
    machine: Machine,
    state: State,
    node: cst.Call,
    rounds: Sequence[Iteration],
    guesses: tuple[Guessed, ...],
    optimizers: Set[int] = frozenset(),
) -> None:
    """A scheduler, of `optimizers` if known, advances at `node`, in the latest iterations, `rounds`, around it."""
    latest = next((found for now in rounds if (found := _stepped(machine, state, now)) is not None), None)
    if latest is not None:
        scaler, call = latest
        partners = machine[CallIndex].index.partners.get(scaler, (ANY_OPTIMIZER,))
        if state[Progress].unskipped.issuperset(partners) or (optimizers and optimizers.isdisjoint(partners)):
            return  # no step was skipped
        waits = knows_finite(machine, state) or reads_skips(machine, state, call)
        machine.emit(state, SchedulerStep, node, call=node, scaler=scaler, stepped=call, waits=waits, guesses=guesses)


def _rounds(machine: Machine, state: State, owner: Unknown | Instance) -> list[Iteration]:
    """The iterations in which `owner` advances: this one, and the one around a loop over schedulers."""
    loop = machine.loops[-1] if machine.loops else None
    taken = {machine.symbols.key(symbol)[:2] for symbol in _taken_from(machine, owner.symbol)}
    inner = loop is not None and ("item", id(loop)) in taken
    return [state.iteration, state.iteration[:-1]] if inner else [state.iteration]


def _taken_from(machine: Machine, symbol: int) -> Iterator[int]:
    """`symbol`, its container, and the representative of all items of that."""
    symbols = machine.symbols
    while True:
        yield symbol
        key, parts, method = symbols.key(symbol), symbols.parts(symbol), symbols.method(symbol)
        if method is not None and method[0] in _VIEWS:
            symbol = method[1][0]
        elif not parts or (key[0] not in _TAKEN_FROM and key[:2] not in _UNCHANGED):
            return
        elif key[0] == "part" and (zipped := _zipped(machine, parts[0])):
            yield from (parts[0], *symbols.parts(parts[0])[:1])
            symbol = zipped[min(int(str(key[1])), len(zipped) - 1)]
        else:
            symbol = parts[-1] if key[0] == "comprehension" else parts[0]


def _zipped(machine: Machine, item: int) -> tuple[int, ...]:
    """The argument of `zip` that `item` is an item of, also numbered by `enumerate`."""
    symbols = machine.symbols
    numbered = symbols.key(item)[:2] == ("part", 1)
    sources = symbols.parts(symbols.parts(item)[0] if numbered else item)
    if numbered and sources and symbols.key(sources[0])[:2] == ("call", "builtins.enumerate"):
        sources = symbols.parts(sources[0])
    is_zip = bool(sources) and symbols.key(sources[0])[:2] == ("call", "builtins.zip")
    return symbols.parts(sources[0]) if is_zip else ()


def _is_scheduler(machine: Machine, state: State, spelled: cst.BaseExpression, owner: Unknown | Instance) -> bool:
    return bool(_name(machine, spelled, owner)) or _is_made(machine, state, owner)


def _name(machine: Machine, spelled: cst.BaseExpression, owner: Unknown | Instance) -> str:
    """The name of `step`'s owner, its key or the name of its container, if it implies a scheduler."""
    while isinstance(spelled, cst.Subscript):
        item = next((node.raw_value for one in spelled.slice for node in every(one, cst.SimpleString)), "")
        if SCHEDULER.search(item):
            return item
        spelled = spelled.value
    name = spelled.attr if isinstance(spelled, cst.Attribute) else spelled
    if isinstance(name, cst.Name) and SCHEDULER.search(name.value):
        return name.value
    for symbol in _taken_from(machine, owner.symbol):
        key = machine.symbols.key(symbol)
        place = _NAMED.get(str(key[0]))
        said = str(key[place]).rpartition(".")[2] if place is not None else ""
        if SCHEDULER.search(said):
            return said
    return ""


def _guesses(
    machine: Machine, state: State, spelled: cst.BaseExpression, owner: Unknown | Instance
) -> tuple[Guessed, ...]:
    """The guess for a scheduler of unseen construction."""
    if _is_made(machine, state, owner):
        return ()
    machine.record_guesses(owner.symbol, SCHEDULER.guesses(_name(machine, spelled, owner)))
    return machine.guesses_for(owner.symbol)


def _is_made(machine: Machine, state: State, owner: Instance | Unknown) -> bool:
    """Whether a scheduler of a library, or of a class derived from one, was constructed on any path."""
    if isinstance(owner, Instance):
        above = attributes.lineage(machine, state, owner.cls)
        bases = (base for cls in above for base in attributes.bases(machine, state, cls))
        return any(isinstance(base, Ref) and base.name.startswith(_SCHEDULERS) for base in bases)
    symbols = machine.symbols
    made = (one for taken in _taken_from(machine, owner.symbol) for one in symbols.alternatives(taken))
    return any(symbols.key(one)[0] == "call" and str(symbols.key(one)[1]).startswith(_MAKERS) for one in made)


def _is_constant(machine: Machine, owner: Instance | Unknown) -> bool:
    """Whether a scheduler sets one rate, whatever the number of steps."""
    symbols = machine.symbols
    if isinstance(owner, Instance) or symbols.key(owner.symbol)[0] != "call":
        return False
    if symbols.key(owner.symbol)[1] in _CONSTANT:
        return True
    values = [symbols.key(part) for part in symbols.parts(owner.symbol)]
    functions = [key[1] for key in values if key[0] == "value" and isinstance(key[1], Function)]
    return symbols.key(owner.symbol)[1] == _OF_FUNCTION and bool(functions) and all(map(_returns_number, functions))


def _optimizers(machine: Machine, state: State, owner: Instance | Unknown) -> set[int]:
    """The optimizers whose rates a scheduler of a library sets, as far as their gradients are known."""
    symbols = machine.symbols
    if isinstance(owner, Instance):
        return set()
    key = symbols.key(owner.symbol)
    is_made = key[0] == "call" and str(key[1]).startswith(_MAKERS)
    return state[Progress].gradients.keys() & symbols.parts(owner.symbol) if is_made else set()


def _returns_number(function: Function) -> bool:
    return isinstance(function.node, cst.Lambda) and isinstance(function.node.body, (cst.Integer, cst.Float))


def _stepped(machine: Machine, state: State, now: Iteration) -> tuple[int, cst.CSTNode] | None:
    """The scaler that stepped an optimizer in the iteration `now`, and that call, or its `update`."""
    for (scaler, _), stage in state[Progress].pairs.items():
        if stage.state is OptState.STEPPED and stage.node and _is_now(machine, state, now, stage.node, stage.iteration):
            return scaler, stage.node
    for scaler, known in state[Progress].scalers.items():
        if known.updated is not None and _is_now(machine, state, now, known.updated, known.iteration):
            return scaler, known.updated
    return None


def _is_now(machine: Machine, state: State, now: Iteration, call: cst.CSTNode, iteration: Iteration) -> bool:
    """Whether `call` ran in the iteration `now`, or in an inner loop over the optimizers it steps."""
    if iteration == now:
        return True
    if iteration[:-1] != now or machine.chunk is None:
        return False
    gradients = state[Progress].gradients.items()
    used = [one for one, known in gradients if one != ANY_OPTIMIZER and (known.consumed or known.cleared)]
    keys = [machine.symbols.key(part) for one in used for part in machine.symbols.derivation(one)]
    items = {key[1] for key in keys if key[0] == "item"}
    loops = [loop for loop in every(machine.chunk.module, cst.For) if id(loop) in items] if items else []
    return any(inner is call for loop in loops for inner in every(loop, cst.Call))


class Schedulers(Tracker):
    """Tracks learning-rate schedulers."""

    triggers = frozenset({"step"})
    methods = frozenset({"step"})

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Calls that by their name advance schedulers."""
        return Words(calls=frozenset().union(*map(_advancing, chunks)))

    def annotated_value(self, symbol: int, name: str) -> Value | None:
        """An annotation implies a scheduler."""
        if name.startswith(_SCHEDULERS):
            self.machine.record_guesses(symbol, ())
        return None

    def method(self, state: State, call: Call) -> Value | None:
        """`scheduler.step()`."""
        if call.name == "step" and not call.arguments.given and isinstance(call.owner, (Unknown, Instance)):
            step(self.machine, state, call.node, call.owner)
        return None

    def unseen_begins(self, state: State, call: Call) -> None:
        """Unseen code that, by its name, advances schedulers each time and irrespective of its arguments."""
        if isinstance(call.callee, Ref):
            return
        name = last_name(call.node.func) or call.name
        if not ADVANCES_SCHEDULERS.search(name):
            return
        spelled = [dotted(argument.value) or "" for argument in call.node.args]
        aware = any(isinstance(value, (Scaler, Optimizer)) for value in (call.owner, *call.arguments.values))
        if not aware and not any(map(EPOCHS.search, spelled)):
            self.machine.interactions += 1
            _advanced(self.machine, state, call.node, [state.iteration], ADVANCES_SCHEDULERS.guesses(name))


@cached_per_chunk
def _advancing(chunk: Chunk) -> frozenset[str]:
    if "sched" not in chunk.text and "Sched" not in chunk.text:
        return frozenset()
    return frozenset(word for word in chunk.words if ADVANCES_SCHEDULERS.search(word))
