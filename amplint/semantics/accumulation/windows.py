"""Accumulation windows: the loop that accumulates gradients, the window's boundary, and the work inside.

Every call that touches gradients is recorded with its loop iteration. At the end of an iteration, the paths through it
are compared: if one condition sends those with a backward pass either to a step or to the next iteration, gradients
accumulate until it holds. A loop over `range(n)` with a backward pass whose step follows the loop is a window as a
whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.semantics.accumulation import flagged, uncleared
from amplint.semantics.accumulation.boundaries import boundary, repeats, runs_once
from amplint.semantics.accumulation.counters import begin_iteration, window_methods, window_tests
from amplint.semantics.accumulation.divisors import may_be_sum, may_divide
from amplint.semantics.accumulation.inner import emit_inner, micro_batch_name
from amplint.semantics.accumulation.lost import emit_lost
from amplint.semantics.accumulation.outer import emit_outer, emit_stepped_within
from amplint.semantics.accumulation.rounds import Round
from amplint.semantics.accumulation.work import WorkDone
from amplint.semantics.events import Job, Work
from amplint.semantics.losses import shares
from amplint.semantics.memory.rhythm import Rhythm
from amplint.semantics.models.models import is_model, is_unwrapped
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.plain_calls import unseen_result
from amplint.semantics.python.tracker import Call, Operands, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import last_name
from amplint.semantics.regions.ran import without_gradients
from amplint.semantics.values.state import State
from amplint.semantics.values.values import TRUE, Function, Instance, Module, Ref, Tensor, Unknown, Value
from amplint.semantics.words import CALLED_MODULE
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.torchlib.catalogue import in_place, spellings
from amplint.torchlib.methods import SAME_NUMBERS

_LOGICAL = frozenset({"not", "and", "or"})
_MAKERS = frozenset({"DistributedDataParallel", "DataLoader"})
_OTHER_WRAPPERS = frozenset({"apex.parallel.DistributedDataParallel", "deepspeed.initialize"})
"""Wrappers of a model in a program with several ways to distribute it, which reduce gradients themselves."""
_CHANGING = in_place(spellings("div", "mul"))
CHANGED = "<changed in place>"


def note(machine: Machine, state: State, job: Job, node: cst.CSTNode, in_vain: bool = False) -> None:
    """Record a job of `node` on this path."""
    if not machine.muted:
        done = Work(job, node, machine.loops, state.iteration, closes=_at_end(machine, state), in_vain=in_vain)
        state.change(WorkDone).add(done)


def _at_end(machine: Machine, state: State) -> bool:
    """Whether a condition implies that this micro-batch ends a window.

    One tested only before all loops implies nothing about an iteration.
    """
    early = machine[Rhythm].early if machine.loops else ()
    for symbol, fact in state.facts.items():
        if symbol in early and symbol not in machine[Rhythm].repeated:
            continue
        found = boundary(machine, symbol) if isinstance(symbol, int) else None
        if found is not None and bool(fact.value) is found.holds:
            return True
    return False


def record_backward(machine: Machine, state: State, node: cst.CSTNode, loss: Value) -> None:
    """Record a backward pass and its argument."""
    plain = loss.plain if isinstance(loss, Tensor) and loss.plain is not None else symbol_of(machine, loss)
    machine[Rhythm].losses.setdefault(node, set()).add(plain)
    shares.backward_ran(machine, state, plain)
    if state.heap.get(plain, {}).get(CHANGED) is not None:
        machine[Rhythm].opaque.add(plain)
    note(machine, state, Job.BACKWARD, node)


def end_iteration(machine: Machine, loop: cst.CSTNode, states: list[State], first: bool = False) -> None:
    """Compare the paths on which an iteration of `loop`, the `first` or not, or a call of a function ended."""
    for state in states:
        uncleared.note(machine, loop, state)
    uncleared.compare(machine, loop, states)
    rounds = [Round(state, len(machine.loops), first) for state in states]
    rounds = [one for one in rounds if one.has(Job.BACKWARD)]
    if not any(one.has(Job.STEP) for one in rounds):
        if isinstance(loop, cst.For) and rounds and micro_batch_name(loop) and repeats(machine, loop) is not None:
            machine[Rhythm].inside |= {done.node for one in rounds for done in one.of(Job.UNSCALE)}
        return
    emit_inner(machine, rounds)
    emit_lost(machine, rounds)
    asked = {node: found for one in rounds for node, (_, found) in one.asked(machine).items()}
    if len(asked) == 1:
        for one in rounds:
            one.suppose(machine, *next(iter(asked.items())))
    for guard, found in asked.items():
        if found.counter is not None or isinstance(loop, cst.FunctionDef):
            emit_outer(machine, loop, rounds, guard, found)
        if found.counter is not None and not found.others:
            emit_stepped_within(machine, rounds, guard)
    if isinstance(loop, cst.FunctionDef) and loop not in machine[Rhythm].windows:
        flagged.compare(machine, loop, states)


def _clauses(machine: Machine, symbol: int) -> Iterator[int]:
    """A condition and its operands."""
    symbols = machine.symbols
    return symbols.closure(symbol, lambda one: symbols.parts(one) if symbols.key(one)[0] in _LOGICAL else ())


class Windows(Tracker):
    """Tracks accumulation windows."""

    methods = _CHANGING
    part = WorkDone

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Functions and methods that return whether a window ends, in files that run a backward pass."""
        if not any("backward" in chunk.words for chunk in chunks):
            return Words()
        return Words(frozenset().union(*map(window_methods, chunks), *map(window_tests, chunks)))

    def call_begins(self, state: State, call: Call) -> None:
        """Record a forward pass that bypasses the wrapper of a distributed model."""
        if is_unwrapped(self.machine, call.callee) and not without_gradients(state):
            self.machine[Rhythm].bypassed = True

    def handles_library_call(self, name: str) -> bool:
        """Whether this is a distributed model or a data loader."""
        return (name.startswith("torch.") and name.rpartition(".")[2] in _MAKERS) or name in _OTHER_WRAPPERS

    def library_call(self, state: State, call: Call) -> Value | None:
        """Record a distributed model or a data loader."""
        assert isinstance(call.callee, Ref)
        rhythm, name = self.machine[Rhythm], call.callee.name
        if name in _OTHER_WRAPPERS:
            rhythm.bypassed = True
        elif name.endswith("DistributedDataParallel") and call.arguments.given:
            rhythm.parallel.append(call.node)
        if name.startswith("torch.utils.data."):
            loader = unseen_result(self.machine, state, name, call.arguments)
            rhythm.loaders.setdefault(symbol_of(self.machine, loader), call.node)
            return loader
        return None

    def method(self, state: State, call: Call) -> Value | None:
        """Handle `loss.div_(n)`."""
        if call.name in _CHANGING and isinstance(call.owner, (Tensor, Unknown)):
            state.set_attribute(call.owner.symbol, CHANGED, TRUE)
        return None

    def binary_result(self, state: State, operands: Operands, result: Value) -> Value | None:
        """Record the division of a loss after its backward pass."""
        if operands.kind == "Divide":
            loss, by = symbol_of(self.machine, operands.left[1]), symbol_of(self.machine, operands.right[1])
            while (found := self.machine.symbols.method(loss)) is not None and found[0] in SAME_NUMBERS:
                loss = found[1][0]
            rhythm = self.machine[Rhythm]
            if any(loss in losses for losses in rhythm.losses.values()):
                rhythm.divided_after_backward.add((loss, by))
        return None

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """Record the result of an unseen inherited method, which may count micro-batches, and losses that are sums.

        So is what a model out of sight returns, of which either can be true.
        """
        is_method = not isinstance(call.callee, Instance) and not CALLED_MODULE.search(call.name)
        counts = call.inherited and call.entered is None and is_method
        opaque = self.machine[Rhythm].opaque
        sums = isinstance(call.callee, Module) and call.callee.symbol in opaque
        if counts or sums or may_be_sum(last_name(call.node.func), call.arguments):
            opaque.add(symbol_of(self.machine, result))
        if isinstance(call.callee, Unknown) and is_model(self.machine, state, call.callee, call.node.func):
            self.machine[Rhythm].of_models.add(symbol_of(self.machine, result))

    def unfollowed_returns(self, function: Function, result: Value) -> None:
        """Record the result of a function that is not interpreted and no forward pass, which may have divided it."""
        computes = isinstance(function.node, cst.FunctionDef) and function.node.name.value == "forward"
        if not computes and may_divide(function.chunk):
            self.machine[Rhythm].opaque.add(symbol_of(self.machine, result))

    def condition(self, node: cst.BaseExpression, value: Value) -> None:
        """Record a condition that may test the end of a window."""
        if isinstance(value, Unknown):
            rhythm = self.machine[Rhythm]
            rhythm.spelled.setdefault(value.symbol, node)
            rhythm.sites.setdefault(node, set()).add(self.machine.sites)
            rhythm.asked.setdefault(value.symbol, set()).add(self.machine.loops)
            asked = rhythm.repeated if self.machine.loops else rhythm.early
            if value.symbol not in asked:
                asked.update(_clauses(self.machine, value.symbol))

    def arithmetic(self, node: cst.BinaryOperation, value: Value) -> None:
        """Record a modulo that may test the end of a window."""
        if isinstance(node.operator, cst.Modulo) and isinstance(value, Unknown):
            self.machine[Rhythm].spelled.setdefault(value.symbol, node)

    def unseen_call_begins(self, state: State, me: Instance | None) -> None:
        """What the constructor did is no work of the round that a method runs."""
        if state[WorkDone].work:
            state.change(WorkDone).forget()

    def loop_begins(self, node: cst.For, source: int) -> None:
        """Record the iterable of a loop."""
        self.machine[Rhythm].sources[node] = source

    def has_one_iteration(self, source: int) -> bool:
        """Whether a loop iterates over one number."""
        return runs_once(self.machine, source)

    def iteration_begins(self, state: State, loop: cst.For | cst.While, first: bool) -> None:
        """Forget the counters of the loop."""
        begin_iteration(self.machine, state, loop, first)

    def iteration_ends(self, node: cst.CSTNode, states: Sequence[State], first: bool) -> None:
        """Compare the paths at the end of an iteration, which may end a window."""
        end_iteration(self.machine, node, list(states), first)
