"""Accumulation windows of Accelerate, which divides the loss by their length and knows where they end."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence, Set

from amplint.regex import regex
from amplint.semantics.accumulation.boundaries import boundary
from amplint.semantics.events import (
    AveragedInWindow,
    ClearedInWindow,
    ClippedEachTime,
    DividedTwice,
    EnteredTwice,
    NeverAccumulated,
    UnscaledAgain,
    WindowOfOne,
)
from amplint.semantics.frameworks.deepspeed import DeepSpeed
from amplint.semantics.frameworks.frameworks import spelled, synced
from amplint.semantics.models.origins import root
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Operands, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import last_name
from amplint.semantics.values.facts import Fact
from amplint.semantics.values.state import Iteration, Part, State
from amplint.semantics.values.symbols import Callee, Key
from amplint.semantics.values.values import NONE, Const, Manager, Optimizer, Ref, Unknown, Value
from amplint.semantics.words import OPTIMIZER_NAME
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.torchlib.averages import UPDATES, UPDATING
from amplint.torchlib.deepspeed import UNDIVIDED
from amplint.torchlib.frameworks import CLIPPING, DIVIDING, WINDOW

_STEPS = "gradient_accumulation_steps"
_EVENTS = frozenset(
    event.kind
    for event in (
        *(ClearedInWindow, ClippedEachTime, DividedTwice, EnteredTwice),
        *(NeverAccumulated, UnscaledAgain, WindowOfOne),
    )
)
_COUNTS_ITSELF = frozenset({"deepspeed_plugin", "DeepSpeedPlugin"})
_SETS_STEPS = frozenset({_STEPS, "gradient_accumulation_plugin", "deepspeed_plugin"})
"""Arguments that say how many micro-batches a window has."""
_ENDS_ROUND = (cst.Continue, cst.Break, cst.Return, cst.Raise)
_SYNCED = "sync_gradients"
"""An attribute of the manager: true in all micro-batches where nothing enters its windows."""
_ENTERS = regex(rf"\.{WINDOW}\(|\bno_sync\b")
_SET_LATER = regex(rf"\.{_STEPS}\s*=[^=]|\bGradientState\b|hf_ds_config|DeepSpeedPlugin")


class _Block:
    """A `with` statement that enters a micro-batch of `manager` by `begins`, and its calls in the current iteration.

    `cleared` maps the symbols of optimizers and models to the call that cleared their gradients before any step of
    theirs; `backward` maps them to the first backward pass after it. Where it is entered `twice`, windows are shorter
    than the setting says, and what an iteration does need not be within one. `models` are those whose gradients
    accumulate, `passed` is the last backward pass and `step` the last step.
    """

    def __init__(self, manager: Manager, models: frozenset[int], begins: cst.Call) -> None:
        self.manager = manager
        self.models = models
        self.begins = begins
        self.passed: cst.Call | None = None
        self.step: cst.Call | None = None
        self.twice = False
        self.cleared: dict[int, cst.Call] = {}
        self.backward: dict[int, cst.Call] = {}
        self.stepped: set[int] = set()


class EnteredMicroBatches(Part):
    """The `with` statements that entered a micro-batch on a path, each with the facts assumed before.

    `latest` is the last one, with the iteration in which it was entered.
    """

    __slots__ = ("facts_before", "latest")

    def __init__(
        self,
        before: Mapping[cst.CSTNode, frozenset[Fact]] | None = None,
        latest: tuple[cst.CSTNode, Iteration] | None = None,
    ) -> None:
        self.facts_before = before or {}
        self.latest = latest

    def copy(self) -> EnteredMicroBatches:
        """An independent copy."""
        return EnteredMicroBatches(self.facts_before, self.latest)

    def key(self, now: Iteration) -> Hashable:
        """None: paths differ by their regions alone."""
        return None


class MicroBatches(Tracker):
    """Tracks divisions of losses, and clipping and clearing within a window.

    `windows` maps the calls that begin a micro-batch to its models, `entering` maps their results to them, `blocks` are
    the `with` statements that enter one, `without_steps` the constructions of managers that get no number of
    micro-batches, `gets_steps` says that another does, `begun` maps managers to the first call that begins one,
    `passed` is the latest backward pass outside of all of them, with its manager, iteration and facts, `at_once` maps
    managers to such a pass and the step of an optimizer behind it in the same iteration, and `divisions` maps the
    result of a division that is no average of a sum to the node and the symbol of the divisor, `sums` the result of an
    addition to the number of loops around it.
    """

    part = EnteredMicroBatches

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.windows: dict[cst.CSTNode, frozenset[int]] = {}
        self.entering: dict[int, cst.Call] = {}
        self.without_steps: dict[int, cst.Call] = {}
        self.begun: dict[int, cst.CSTNode] = {}
        self.gets_steps = False
        self.passed: tuple[cst.Call, Manager, Iteration, frozenset[Fact]] | None = None
        self.at_once: dict[int, tuple[cst.Call, Manager, cst.Call]] = {}
        self.blocks: dict[cst.CSTNode, _Block] = {}
        self.divisions: dict[int, tuple[cst.CSTNode, int]] = {}
        self.sums: dict[int, int] = {}

    def is_needed(self) -> bool:
        """Whether a selected rule handles one of the events."""
        return not self.machine.wanted.isdisjoint(_EVENTS)

    def call_begins(self, state: State, call: Call) -> None:
        """Handle the begin of a micro-batch, its backward pass, and clearing, clipping or use of its gradients."""
        owner = call.owner
        if self.blocks and owner is not None and call.name in ("zero_grad", "step"):
            self._worked_on(state, call, owner)
        if self.passed is not None and call.name == "step" and _is_optimizer(call):
            self._stepped_at_once(state, call)
        if self.blocks and isinstance(owner, Unknown) and call.name in UPDATING:
            self._averaged(state, call, owner)
        if isinstance(owner, Manager) and owner.kind in DIVIDING:
            self._managed(state, call, owner)
        elif isinstance(owner, Unknown) and call.name == "backward" and self.machine[DeepSpeed].is_engine(owner.symbol):
            self._divided_by_engine(state, call, owner)

    def _managed(self, state: State, call: Call, manager: Manager) -> None:
        if call.name == WINDOW:
            self.begun.setdefault(manager.symbol, call.node)
            self.windows[call.node] = frozenset(symbol_of(self.machine, value) for value in call.arguments.values)
        elif call.name in CLIPPING and manager.steps is not None and not synced(self.machine, state, manager):
            if any(one.manager.symbol == manager.symbol for one in self._open(state)):
                name = spelled(self.machine, state, manager)
                self.machine.emit(state, ClippedEachTime, call.node, call=call.node, manager=manager, spelled=name)
        elif call.name == "backward" and call.arguments.given and manager.steps is not None:
            self._passed_back(state, call, manager)
            if not self.is_within_window(state, manager):
                self.passed = call.node, manager, state.iteration, frozenset(state.facts)
            self._divided_again(state, call, manager, call.arguments.values[0])

    def call_returned(self, state: State, call: Call, result: Value) -> Value | None:
        """Record the construction of a manager that gets no number of micro-batches, and the begin of a micro-batch."""
        if call.node in self.windows:
            self.entering[symbol_of(self.machine, result)] = call.node
        if isinstance(result, Manager) and result.kind in DIVIDING and isinstance(call.callee, Ref):
            given = {argument.keyword for argument in call.arguments.given}
            self.without_steps[result.symbol] = call.node
            self.gets_steps |= any(argument.star for argument in call.arguments.given) or not given.isdisjoint(
                _SETS_STEPS
            )
        return None

    def file_ends(self, starts: Sequence[State]) -> None:
        """Report managers whose windows have one micro-batch in a file that names the number of micro-batches."""
        chunks = self.machine.program.main.chunks
        named = any(_STEPS in chunk.words for chunk in chunks)
        named &= all(chunk.words.isdisjoint(_COUNTS_ITSELF) for chunk in chunks)
        if named and not self.gets_steps and not any(_SET_LATER.search(chunk.text) for chunk in chunks):
            for manager in self.without_steps.keys() & self.begun.keys():
                self.machine.emit(State(), WindowOfOne, self.without_steps[manager], entered=self.begun[manager])

        self._report_unentered(chunks)

    def _stepped_at_once(self, state: State, call: Call) -> None:
        """Record a step in the iteration of the latest backward pass, unless a condition may end a window."""
        assert self.passed is not None
        backward, manager, iteration, before = self.passed
        synced = self.machine.unknown("attribute", _SYNCED, parts=(manager.symbol,)).symbol
        always = frozenset(fact for fact in state.facts if synced in self.machine.symbols.derivation(_symbol(fact)))
        counted = any(boundary(self.machine, _symbol(fact)) is not None for fact in state.facts if fact not in before)
        if iteration and iteration == state.iteration and not counted and not _may_end(self.machine, state, always):
            self.at_once.setdefault(manager.symbol, (backward, manager, call.node))
            if not isinstance(call.owner, Optimizer):
                named = call.node.func.value if isinstance(call.node.func, cst.Attribute) else call.node
                self.machine.record_guesses(backward, OPTIMIZER_NAME.guesses(last_name(named)))

    def _report_unentered(self, chunks: Sequence[Chunk]) -> None:
        """Report managers that get a number of micro-batches, and whose windows nothing enters."""
        if any(_ENTERS.search(chunk.text) for chunk in chunks):
            return
        for backward, manager, step in self.at_once.values():
            made = self.without_steps.get(manager.symbol)
            given = made is not None and any(one.keyword and one.keyword.value == _STEPS for one in made.args)
            if given and manager.steps not in (None, NONE, Const(1)):
                guesses = self.machine.guesses_for(backward)
                self.machine.emit(State(), NeverAccumulated, backward, manager=manager, step=step, guesses=guesses)

    def is_within_window(self, state: State, manager: Manager) -> bool:
        """Whether a `with` statement around has entered a micro-batch of `manager`."""
        return any(
            region.entered_by in self.blocks and self.blocks[region.entered_by].manager.symbol == manager.symbol
            for region in state.regions
        )

    def _averaged(self, state: State, call: Call, owner: Unknown) -> None:
        """Report an average of weights that is updated in an iteration whose micro-batch may not end a window."""
        part, (kind, *names) = state[EnteredMicroBatches], self.machine.symbols.key(root(self.machine, owner.symbol))
        if part.latest is None or part.latest[1] != state.iteration:
            return
        if kind != "call" or call.name not in UPDATES.get(str(names[0]), ()):
            return
        by = part.latest[0]
        manager, before = self.blocks[by].manager, part.facts_before[by]
        if manager.steps is None or synced(self.machine, state, manager) or _may_end(self.machine, state, before):
            return
        self.machine.emit(state, AveragedInWindow, call.node, entered=self.blocks[by].begins, manager=manager)

    def _worked_on(self, state: State, call: Call, owner: Value) -> None:
        """Handle `zero_grad` or `step` of `owner`, which may be an optimizer or a model."""
        symbol = symbol_of(self.machine, owner)
        for one in self._open(state):
            if call.name == "step":
                one.stepped.add(symbol)
                one.step = call.node
                for cleared in {symbol, *one.models} & one.backward.keys():
                    self._emit_cleared(state, one, cleared, one.cleared[cleared], one.backward[cleared], call.node)
            elif symbol in one.models and one.passed is not None and one.step is not None:
                self._emit_cleared(state, one, symbol, call.node, one.passed, one.step)
            elif symbol not in one.stepped and symbol not in one.backward and not self._is_given_up(call.node):
                one.cleared[symbol] = call.node

    def _is_given_up(self, node: cst.CSTNode) -> bool:
        """Whether the block around a call ends the round, so that no backward pass of this micro-batch follows.

        The body of a function ends that function alone.
        """
        source = self.machine.program.source_of(node)
        above = [*source.ancestors(node)] if source is not None else []
        blocks = [one for one in above if isinstance(one, (cst.IndentedBlock, cst.FunctionDef))]
        is_body = isinstance(blocks[1] if len(blocks) > 1 else None, cst.FunctionDef)
        last = blocks[0].body[-1:] if blocks and isinstance(blocks[0], cst.IndentedBlock) and not is_body else ()
        return any(isinstance(one, cst.SimpleStatementLine) and isinstance(one.body[-1], _ENDS_ROUND) for one in last)

    def _emit_cleared(
        self, state: State, one: _Block, owner: int, cleared: cst.Call, backward: cst.CSTNode, step: cst.CSTNode
    ) -> None:
        details = {"backward": backward, "step": step, "manager": one.manager, "by_model": owner in one.models}
        self.machine.emit(state, ClearedInWindow, cleared, **details)

    def _passed_back(self, state: State, call: Call, manager: Manager) -> None:
        for one in self._open(state):
            if one.manager.symbol == manager.symbol:
                one.passed = call.node
                for symbol in one.cleared:
                    one.backward.setdefault(symbol, call.node)

    def _open(self, state: State) -> Iterator[_Block]:
        """The micro-batches around, unless a condition decided since may imply the end of a window."""
        before = state[EnteredMicroBatches].facts_before
        for region in state.regions:
            block = self.blocks.get(region.entered_by)
            if block is None or block.twice:
                continue
            if not _may_end(self.machine, state, before.get(region.entered_by, frozenset())):
                yield block

    def _divided_again(self, state: State, call: Call, manager: Manager, loss: Value) -> None:
        division, by = self.divisions.get(symbol_of(self.machine, loss), (None, -1))
        assert manager.steps is not None
        own = self.machine.unknown("attribute", _STEPS, parts=(manager.symbol,)).symbol
        if division is not None and by in (symbol_of(self.machine, manager.steps), own):
            self.machine.emit(state, DividedTwice, call.node, division=division, manager=manager)

    def _divided_by_engine(self, state: State, call: Call, engine: Unknown) -> None:
        """Report a loss that the script has divided by the number by which DeepSpeed's `engine` divides it."""
        if not call.arguments.given or any(call.arguments.get(name) is not None for name in UNDIVIDED):
            return
        division, by = self.divisions.get(symbol_of(self.machine, call.arguments.values[0]), (None, -1))
        kind, *made = self.machine.symbols.key(by) if division is not None else ("", None)
        asked = self.machine.unknown("attribute", _STEPS, parts=(engine.symbol,)).symbol
        steps = self.machine[DeepSpeed].steps_of(engine.symbol)
        own = kind == "call" and isinstance(made[0], Callee) and made[0].symbol == asked
        if division is not None and (own or (steps is not None and symbol_of(self.machine, steps) == by)):
            self.machine.emit(state, DividedTwice, call.node, division=division, manager=None)

    def context_entered(self, state: State, value: Value, by: cst.CSTNode, item: cst.BaseExpression | None) -> None:
        """Record a `with` statement that begins a micro-batch, and report one within another."""
        written = item if item in self.windows else self.entering.get(symbol_of(self.machine, value))
        if not isinstance(written, cst.Call) or not isinstance(written.func, cst.Attribute):
            return
        manager = self.machine.evaluate(state, written.func.value)
        if not isinstance(manager, Manager):
            return
        outer = self._around(state, manager)
        if outer is not None and outer.begins is not written:
            outer.twice = True
            self.machine.emit(state, EnteredTwice, written, outer=outer.begins, manager=manager)
            return
        self.blocks[by] = _Block(manager, self.windows[written], written)
        entered = state.change(EnteredMicroBatches)
        entered.facts_before = {**entered.facts_before, by: frozenset(state.facts)}
        entered.latest = by, state.iteration

    def _around(self, state: State, manager: Manager) -> _Block | None:
        """The micro-batch of `manager` around, or of an earlier item of the same `with`."""
        for region in state.regions:
            block = self.blocks.get(region.entered_by)
            if block is not None and block.manager.symbol == manager.symbol:
                return block
        return None

    def binary_result(self, state: State, operands: Operands, result: Value) -> Value | None:
        """Record a division, unless it averages a sum: of as many terms as a literal says, or of an inner loop."""
        if operands.kind == "Add":
            self.sums[symbol_of(self.machine, result)] = len(state.iteration)
        elif operands.kind == "Divide" and operands.right[1] not in (NONE, Const(1)):
            node, divisor = operands.right
            added = self.sums.get(symbol_of(self.machine, operands.left[1]))
            if added is None or (added <= len(state.iteration) and not isinstance(node, cst.BaseNumber)):
                self.divisions[symbol_of(self.machine, result)] = (operands.node, symbol_of(self.machine, divisor))
        return None


def _may_end(machine: Machine, state: State, before: Set[Fact]) -> bool:
    """Whether the path may be at the end of a window, by a condition about windows or one decided since `before`."""
    for fact, holds in state.facts.items():
        symbol = _symbol(fact)
        if fact not in before:
            if any(_implies_end(machine.symbols.key(part)) for part in machine.symbols.derivation(symbol)):
                return True
        elif isinstance(fact, int):
            found = boundary(machine, symbol)
            if found is not None and found.counter is not None and found.holds == bool(holds.value):
                return True
    return False


def _is_optimizer(call: Call) -> bool:
    """Whether the object whose method is called is an optimizer, or by its name one that is chosen."""
    if isinstance(call.owner, Optimizer):
        return True
    named = isinstance(call.node.func, cst.Attribute) and OPTIMIZER_NAME.search(last_name(call.node.func.value))
    return isinstance(call.owner, Unknown) and bool(named)


def _symbol(fact: Fact) -> int:
    return fact if isinstance(fact, int) else fact[1]


def _implies_end(key: Key) -> bool:
    said = [part for part in key[1:] if isinstance(part, str)]
    if key[0] == "Modulo" or any("sync" in one for one in said):
        return True
    return key[0] in ("name", "parameter", "call") and any("step" in one for one in said)
