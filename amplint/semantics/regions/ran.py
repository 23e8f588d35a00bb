"""Autocast regions in which the loss of a backward pass was computed, and how their flags relate to the scaler's."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from amplint.findings import Guessed
from amplint.records import dataclass
from amplint.semantics.events import RanRegion
from amplint.semantics.events.protocol import BFLOAT16, FLOAT16
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.reading.scopes import last_name
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.values.facts import Fact, compatible, is_on, record_fact
from amplint.semantics.values.state import Iteration, Part, State, shared_rounds
from amplint.semantics.values.values import (
    FALSE,
    TRUE,
    Autocast,
    Const,
    Entered,
    Function,
    GradMode,
    Instance,
    Neutral,
    Ref,
    Scaler,
    Unknown,
    Value,
)
from amplint.semantics.words import ASKS_FOR_BFLOAT16, ASKS_FOR_FLOAT16, CHOOSES_PRECISION, OTHER_MATTERS
from amplint.source import syntax as cst
from amplint.source.tree import every
from amplint.torchlib.methods import IDLE_METHODS
from amplint.torchlib.names import DTYPES


@dataclass(frozen=True, slots=True)
class Ran:
    """An autocast region in which a call ran, the facts common to all of these, and the latest iteration."""

    context: Autocast
    facts: Mapping[int | tuple[str, int], Const]
    round: Iteration


REGIONS_KEPT = 32
"""The limit of remembered regions since the last backward pass; hand-written code has a few."""


class RegionsRun(Part):
    """The latest regions in which calls ran on a path since its last backward pass."""

    __slots__ = ("ran",)

    def __init__(self, ran: tuple[Ran, ...] = ()) -> None:
        self.ran = ran

    def copy(self) -> RegionsRun:
        """An independent continuation."""
        return RegionsRun(self.ran)

    def key(self, now: Iteration) -> Hashable:
        """None: paths may join whatever regions they ran."""
        return None

    def joined(self, other: RegionsRun) -> RegionsRun:
        """The regions that ran on either path, each with the facts common to both."""
        if self.ran == other.ran:
            return RegionsRun(self.ran)
        found = {ran.context: ran for ran in self.ran}
        for ran in other.ran:
            facts = found.get(ran.context, ran).facts
            shared = {k: v for k, v in facts.items() if ran.facts.get(k) == v}
            found[ran.context] = Ran(ran.context, shared, ran.round)
        return RegionsRun(tuple(found.values())[-REGIONS_KEPT:])

    def continued(self, now: RegionsRun, before: RegionsRun, then: Iteration, here: Iteration) -> RegionsRun:
        """The regions that have run now, and those of the call."""
        return RegionsRun((*now.ran, *self.ran[len(before.ran) :]))


NO_WORK = (Autocast, Const, Entered, GradMode, Neutral)
_COMBINED = frozenset({"not", "and", "or", "==", "in", "is none"})


def note(machine: Machine, state: State, result: Value) -> None:
    """Record the region in which a call that returned `result` ran, unless gradients are disabled."""
    if isinstance(result, NO_WORK) or without_gradients(state):
        return
    context, _ = innermost(machine, state)
    if context is None:
        return
    for position, ran in enumerate(state[RegionsRun].ran):
        if ran.context == context:
            if ran.facts.items() <= state.facts.items() and ran.round == state.iteration:
                return
            shared = {key: fact for key, fact in ran.facts.items() if state.facts.get(key) == fact}
            state.change(RegionsRun).ran = (
                *state[RegionsRun].ran[:position],
                Ran(context, shared, state.iteration),
                *state[RegionsRun].ran[position + 1 :],
            )
            return
    latest = Ran(context, dict(state.facts), state.iteration)
    state.change(RegionsRun).ran = (*state[RegionsRun].ran[-REGIONS_KEPT + 1 :], latest)


def without_gradients(state: State) -> bool:
    """Whether gradients are disabled, or possibly so."""
    modes = [region.context for region in state.regions if isinstance(region.context, GradMode)]
    return bool(modes) and modes[-1].enabled != TRUE


def regions(machine: Machine, state: State, scaler: Scaler | None) -> tuple[RanRegion, ...]:
    """The regions in which the operands of the present backward pass can have been computed."""
    possible = [
        ran
        for ran in state[RegionsRun].ran
        if compatible(ran.facts, state.facts) and not _asks_for_another(machine, state, ran)
    ]
    return tuple(
        RanRegion(
            ran.context,
            scaler_on=_on_together(machine, ran, scaler),
            alike=_alike(machine, ran, scaler, together) if scaler is not None else _is_always_on(machine, state, ran),
            together=together,
            distant=is_before(ran.round, state.iteration)
            or (isinstance(ran.context.enabled, Unknown) and not _is_in_current_file(machine, ran.context.node)),
            optional=_is_optional(machine, state, ran.context),
        )
        for ran in possible
        for together in [tuple(other.context for other in possible if compatible(ran.facts, other.facts))]
    )


def _is_optional(machine: Machine, state: State, region: Autocast) -> bool:
    """Whether a setting about precision, undecided on this path, switches a region."""
    enabled = region.enabled
    if not isinstance(enabled, Unknown) or is_on(machine.symbols, state.facts, enabled) is not None:
        return False
    call = region.node
    arguments = call.args if isinstance(call, cst.Call) else ()
    given = [one for one in arguments if one.keyword is not None and one.keyword.value == "enabled"] or arguments[:1]
    names = {*_mentioned(machine, enabled.symbol), *(last_name(one.value) or "" for one in given)}
    return any(map(CHOOSES_PRECISION.search, names)) and not any(map(OTHER_MATTERS.search, names))


def _asks_for_another(machine: Machine, state: State, ran: Ran) -> bool:
    """Whether a flag for float16 is on although the region has bfloat16 by a choice, which no user asks for."""
    if ran.context.dtypes != BFLOAT16:
        return False
    on = [key for key, fact in (*ran.facts.items(), *state.facts.items()) if isinstance(key, int) and fact == TRUE]
    names = [name for name in (_name(machine, key) for key in on) if name is not None]
    is_chosen = machine.supposition is not None or any(map(ASKS_FOR_BFLOAT16.search, names))
    return is_chosen and any(map(ASKS_FOR_FLOAT16.search, names))


def is_before(then: Iteration, now: Iteration) -> bool:
    """Whether an iteration ended before the loop around `now` began, so that no backward pass there depends on it."""
    return bool(now) and shared_rounds(then, now) == 0


def _is_in_current_file(machine: Machine, region: cst.CSTNode) -> bool:
    """Whether a region stands in the linted file or in the one that is being interpreted."""
    chunk = machine.chunk
    return machine.program.main.owns(region) or (chunk is not None and chunk.source.owns(region))


def _on_together(machine: Machine, ran: Ran, scaler: Scaler | None) -> bool | None:
    """Whether the scaler is on wherever the region is; None if it can be either."""
    if scaler is None:
        return False
    facts = dict(ran.facts)
    if isinstance(ran.context.enabled, Unknown):
        record_fact(machine.symbols, facts, ran.context.enabled.symbol, True)
    on = is_on(machine.symbols, facts, scaler.enabled)
    return None if on and _is_decided_elsewhere(machine, scaler.enabled, ran.context) else on


def _is_decided_elsewhere(machine: Machine, flag: Value, region: Autocast) -> bool:
    """Whether paths that decided a flag have joined, and with them what they decided of the region's dtype."""
    joined = isinstance(flag, Unknown) and machine.symbols.key(flag.symbol)[0] == "either"
    return joined and flag != region.enabled


def _is_always_on(machine: Machine, state: State, ran: Ran) -> bool:
    """Whether a float16 region is on, and no decision on the path to the present backward pass is about devices.

    Where the choice of float16 leads to the region, the scaler may depend on the same choice.
    """
    if ran.context.dtypes != FLOAT16 or ran.context.enabled != TRUE or _asks_for_float16(machine, ran.facts):
        return False
    decided = (key for facts in (ran.facts, state.facts) for key in facts if isinstance(key, int))
    names = {name for key in decided for name in _mentioned(machine, key)}
    return not any(map(OTHER_MATTERS.search, names))


def _mentioned(machine: Machine, symbol: int) -> Iterator[str]:
    """The names of all variables, attributes and functions in a condition."""
    for one in machine.symbols.derivation(symbol):
        key = machine.symbols.key(one)
        name = key[1] if key[0] == "call" else _name(machine, one)
        if isinstance(name, str):
            yield name


def _alike(machine: Machine, ran: Ran, scaler: Scaler, together: Sequence[Autocast]) -> bool:
    """Whether both flags are plain settings of a user, which no unseen code keeps equal.

    A region that is always on counts if no setting leads there and it is the last one of those that run `together`.
    """
    if not _is_plain(machine, scaler.enabled):
        return False
    if ran.context.enabled == TRUE:
        return together[-1] == ran.context and not any(
            _is_plain(machine, Unknown(key)) and _may_lead_to(machine, key, ran.context.node)
            for key in ran.facts
            if isinstance(key, int)
        )
    return _is_plain(machine, ran.context.enabled) and not _may_be_one(machine, scaler.enabled, ran.context.enabled)


def _may_lead_to(machine: Machine, setting: int, region: cst.CSTNode) -> bool:
    """Whether a condition on a setting may be why a region is entered: it leads there alone, or is about precision."""
    names = {name for name in _names(machine, setting) if name is not None}
    return any(map(CHOOSES_PRECISION.search, names)) or not names.isdisjoint(_asked_before(machine, region))


def _asked_before(machine: Machine, region: cst.CSTNode) -> frozenset[str]:
    """The names in the conditions of the branches that a region stands in, and the present backward pass does not."""
    here = [node for node in (machine.statement, *machine.sites) if node is not None]
    shared = {above for node in here for above in _branches_around(machine, node)}
    tests = [one.test for one in _branches_around(machine, region) if one not in shared]
    return frozenset(name.value for test in tests for name in every(test, cst.Name))


def _branches_around(machine: Machine, node: cst.CSTNode) -> list[cst.If | cst.IfExp]:
    source = machine.program.source_of(node)
    above = source.ancestors(node) if source is not None else ()
    return [one for one in above if isinstance(one, (cst.If, cst.IfExp))]


def _may_be_one(machine: Machine, one: Value, other: Value) -> bool:
    """Whether two flags may be one setting.

    That is so if both test the same values, if they have the same names, of which an unseen caller or call may have
    passed one on, and if only one of them is an argument of a call by unseen code.
    """
    assert isinstance(one, Unknown)
    assert isinstance(other, Unknown)
    tested = [frozenset(_operands(machine, flag.symbol)) for flag in (one, other)]
    if tested[0] == tested[1] or set(_names(machine, one.symbol)) == set(_names(machine, other.symbol)):
        return True
    mine, theirs = (
        {machine.symbols.key(symbol)[1] for symbol in symbols if machine.symbols.key(symbol)[0] == "parameter"}
        for symbols in (tested[0] - tested[1], tested[1] - tested[0])
    )
    return mine != theirs


def _is_plain(machine: Machine, flag: Value) -> bool:
    if not isinstance(flag, Unknown):
        return False
    names = _names(machine, flag.symbol)
    return bool(names) and all(name is not None and not OTHER_MATTERS.search(name) for name in names)


def _names(machine: Machine, symbol: int) -> list[str | None]:
    """The variables and attributes in a condition, None for each other operand."""
    return [_operand_name(machine, one) for one in _operands(machine, symbol)]


def _operands(machine: Machine, symbol: int) -> list[int]:
    """The values that a condition tests, without constants."""

    def operands(one: int) -> tuple[int, ...]:
        return machine.symbols.parts(one) if machine.symbols.key(one)[0] in _COMBINED else ()

    return [
        one
        for one in machine.symbols.closure(symbol, operands)
        if not operands(one) and machine.symbols.key(one)[0] not in ("value", *_COMBINED)
    ]


def _operand_name(machine: Machine, symbol: int) -> str | None:
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] == "index" and len(parts) == 2:
        constant = machine.symbols.key(parts[1])[-1]
        return str(constant.value) if isinstance(constant, Const) else None
    return _name(machine, symbol)


def _name(machine: Machine, symbol: int) -> str | None:
    key = machine.symbols.key(symbol)
    place = {"attribute": 1, "name": -1, "parameter": -1, "variable": -1}.get(str(key[0]))
    return str(key[place]) if place is not None else None


def bfloat16_flag_guesses(machine: Machine, state: State, enabled: Value) -> tuple[Guessed, ...] | None:
    """The guesses by which a flag asks for bfloat16 and enables the object; None if no flag does.

    A flag with such a value needs no name. An object enabled by the negation of such a flag, or by a comparison with
    float16, does not ask for bfloat16.
    """
    if is_on(machine.symbols, state.facts, enabled) is False:
        return None
    facts = dict(state.facts)
    if isinstance(enabled, Unknown):
        names = _names(machine, enabled.symbol) if machine.symbols.key(enabled.symbol)[0] == "not" else ()
        if any(name is not None and ASKS_FOR_BFLOAT16.search(name) for name in names):
            return None
        record_fact(machine.symbols, facts, enabled.symbol, True)
    if _asks_for_float16(machine, facts):
        return None
    asked = {text: key for key, fact in facts.items() if fact != FALSE and (text := _asked(machine, key, fact))}
    found = [text for text in asked if ASKS_FOR_BFLOAT16.search(text)]
    if not found or any(map(ASKS_FOR_FLOAT16.search, asked)):
        return None
    named = all(isinstance(asked[text], int) for text in found)
    return ASKS_FOR_BFLOAT16.guesses(found[0], "for_bfloat16") if named else ()


def half_flag_guesses(machine: Machine, state: State, enabled: Value) -> tuple[Guessed, ...] | None:
    """The guesses by which the object is enabled by a flag for bfloat16 or one for float16; None elsewhere."""
    facts = dict(state.facts)
    if isinstance(enabled, Unknown):
        record_fact(machine.symbols, facts, enabled.symbol, True)
    if _asks_for_float16(machine, facts):
        return None
    conditions = [enabled.symbol] if isinstance(enabled, Unknown) else []
    if enabled == TRUE:
        conditions = [key for key, fact in state.facts.items() if isinstance(key, int) and fact == TRUE]
    named = {key: [name for name in _names(machine, key) if name is not None] for key in conditions}
    alone = [names for key, names in named.items() if machine.symbols.key(key)[0] != "or"]
    if any(ASKS_FOR_FLOAT16.search(name) for names in alone for name in names):
        return None
    for key, names in named.items():
        wanted = [name for name in names if ASKS_FOR_BFLOAT16.search(name)]
        others = any(ASKS_FOR_FLOAT16.search(name) for name in names if name not in wanted)
        if machine.symbols.key(key)[0] == "or" and wanted and others:
            return ASKS_FOR_BFLOAT16.guesses(wanted[0], "for_bfloat16")
    return None


def _asks_for_float16(machine: Machine, facts: Mapping[Fact, Const]) -> bool:
    """Whether a comparison of a dtype, or of its name, with float16 holds."""
    return any(isinstance(key, int) and fact == TRUE and _is_float16(machine, key) for key, fact in facts.items())


def _is_float16(machine: Machine, symbol: int) -> bool:
    """Whether a condition compares a dtype, or its name, with float16."""
    key = machine.symbols.key(symbol)
    if key[0] == "==" and isinstance(key[1], Const):
        return isinstance(key[1].value, str) and ASKS_FOR_FLOAT16.search(key[1].value) is not None
    operands = [machine.symbols.key(part) for part in machine.symbols.parts(symbol)] if key[0] == "same" else []
    others = [one[1] for one in operands if one[0] == "value"]
    return any(isinstance(one, Ref) and DTYPES.get(one.name) == "float16" for one in others)


def _asked(machine: Machine, key: int | tuple[str, int], fact: Const) -> str | None:
    if isinstance(key, int):
        return _name(machine, key) if machine.symbols.key(key)[0] != "index" else (_names(machine, key) or [None])[0]
    return str(fact.value) if key[0] == "value of" else None


class RegionUse(Tracker):
    """Tracks the regions in which calls run."""

    part = RegionsRun

    def unseen_call_begins(self, state: State, me: Instance | None) -> None:
        """Forget the regions before a call from unseen code."""
        state.change(RegionsRun).ran = ()

    def call_skipped(
        self, state: State, function: Function, positional: Sequence[Value], keywords: Mapping[str, Value]
    ) -> None:
        """A call that is not interpreted may run a forward pass."""
        note(self.machine, state, function)

    def unseen(self, state: State, call: Call) -> None:
        """An object of an unseen class may run a forward pass; methods known to be idle do not."""
        if call.entered is None and not isinstance(call.callee, Ref) and call.name in IDLE_METHODS:
            self.machine.idle.add(call.node)
        if call.entered == "object" and call.owner is not None:
            note(self.machine, state, call.owner)

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """An unseen call may run a forward pass."""
        if call.entered is None and state.regions and call.node not in self.machine.idle:
            note(self.machine, state, result)
