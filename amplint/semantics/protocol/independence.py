"""Calls that a path leaves out for one setting and needs for another, where nothing shows that the two are independent.

A script scales the loss under one condition and unscales the gradients under another. If both are one setting, which a
path cannot tell for attributes that unseen code may have changed, flags of two objects, or an object that may be None,
the path on which they differ does not exist.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set

from amplint.premises import Premise
from amplint.records import dataclass
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.python.expressions import test
from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.state import State
from amplint.semantics.values.symbols import Symbols
from amplint.semantics.values.values import Scaler, Unknown
from amplint.source import syntax as cst
from amplint.source.tree import every, walk

_PLAIN = {"scale": "backward", "step": "step", "update": "step"}
"""For a method of the scaler the call that a path without scaling makes instead."""
_VARYING = frozenset({"item", "each", "Modulo", "Add", "Subtract", "FloorDivide", "BitAnd"})
"""Operations whose result differs between iterations, so that a condition on it is no setting."""
_OPERATORS = frozenset({"not", "and", "or", "is none", "==", "same", "enabled"})
"""Operations that make one condition of others."""
_LEAVES = cst.Return, cst.Raise, cst.Continue, cst.Break


@dataclass(frozen=True, slots=True)
class _Decision:
    """The outcome of an `if` on a path: its `test`, the branch that it `took` and what it `left` out.

    `settings` are the values tested.
    """

    test: cst.CSTNode
    side: bool
    took: Sequence[cst.CSTNode]
    left: Sequence[cst.CSTNode]
    settings: Set[int]


def unseen(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    missing: str,
    needed: cst.CSTNode | None,
    scaler: Scaler,
    instead: cst.CSTNode | None = None,
) -> tuple[Premise, ...]:
    """The premises of a violation at `node`, because the path lacks a call of the scaler's method `missing`.

    That is a violation because the path ran the call `needed`, if any, with `scaler` enabled; it made the scaler, too.
    `instead` is what it ran in place of the missing call.
    """
    decisions = list(_decisions(machine, state))
    if instead is not None:
        decisions += _implied(machine, state, instead, {node, *machine.sites})
    if not decisions:
        return ()
    sites = machine[CallIndex].sites
    here = {node, *(site for site in machine.sites if site is not None)}
    demands = sites.get(needed, {needed}) if needed is not None else set()
    ran = here | demands | ({scaler.created} if scaler.created is not None else set())
    wanted = {site for call, led in sites.items() if _is_call(call, missing) for site in led}
    apart: set[Set[int]] = set()
    for skips in decisions:
        if _took_any(skips, demands) or not _skips(skips, missing, wanted, here):
            continue
        demanding = [one for one in decisions if _took_any(one, ran)]
        if any(_is_same_text(one, skips) for one in demanding):
            return (Premise.SETTING_CHANGES,)
        others = [one for one in demanding if not one.settings & skips.settings]
        if others or _is_conditional(machine, state, scaler, skips):
            apart.add(skips.settings)
    return (Premise.INDEPENDENT if len(apart) == 1 else Premise.ALL_INDEPENDENT,) if apart else ()


def without_own_pass(
    machine: Machine, node: cst.CSTNode, scaler: Scaler, other: cst.CSTNode | None
) -> tuple[Premise, ...]:
    """The premises of a call at `node` that unscales gradients of the pass `other`, which another scaler scaled.

    A pass is assumed to reach every optimizer. Where a condition decides whether `scaler` scales a loss as well, and
    the pass `other` is no alternative to that, its optimizer may have no gradients at all on this path.
    """
    spelled = {dotted(one) for one in machine[CallIndex].index.scalers.get(scaler.symbol, [])} - {None}
    here = {node, other, *machine.sites}
    for call in machine[CallIndex].sites:
        owner = call.func.value if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else None
        if owner is not None and _is_call(call, "scale") and dotted(owner) in spelled:
            source = machine.program.source_of(call)
            above = source.ancestors(call) if source is not None else ()
            if any(isinstance(one, cst.If) and here.isdisjoint(walk(one)) for one in above):
                return (Premise.REACHED_BY_OTHER,)
    return ()


def trains_nothing(machine: Machine, state: State, node: cst.CSTNode) -> bool:
    """Whether at least two settings together leave out all steps around `node`, so that nobody chooses them so."""
    source = machine.program.source_of(node)
    above = source.ancestors(node) if source is not None else ()
    block = next((one for one in above if isinstance(one, (cst.For, cst.While, cst.FunctionDef))), None)
    steps = [call for call in every(block, cst.Call) if _method(call) == "step"] if block is not None else []
    left_out = {_left_out_by(machine, state, step, block) for step in steps}
    return None not in left_out and any(one and two and one.isdisjoint(two) for one in left_out for two in left_out)


def _left_out_by(machine: Machine, state: State, call: cst.CSTNode, block: cst.CSTNode | None) -> Set[int] | None:
    """The settings by which a condition within `block` leaves `call` out on this path, None if none does."""
    source = machine.program.source_of(call)
    inner = call
    for above in source.ancestors(call) if source is not None else ():
        if above is block:
            break
        if isinstance(above, cst.If) and inner is not above.test and next(every(above.test, cst.Call), None) is None:
            outcomes = test(machine, state.copy(), above.test)
            (holds, tested), _ = outcomes[0]
            varies = any(_varies(machine.symbols, one) or _is_of_round(machine, state, one) for one in tested)
            if len(outcomes) == 1 and tested and not varies and holds is not (inner is above.body):
                return frozenset(atom for one in tested for atom in _atoms(machine.symbols, one))
        inner = above
    return None


def _took_any(one: _Decision, calls: Set[cst.CSTNode]) -> bool:
    """Whether the branch taken holds one of these calls."""
    return any(inner in calls for branch in one.took for inner in walk(branch))


def _decisions(machine: Machine, state: State) -> Iterator[_Decision]:
    """The conditions on settings that the path has decided, the latest first, each once."""
    seen: set[cst.CSTNode] = set()
    trail = state.trail
    while trail is not None:
        test = trail.step[0]
        if trail.side is not None and trail.tested and test not in seen:
            seen.add(test)
            if not any(_varies(machine.symbols, one) for one in trail.tested):
                took, left = _branches(machine, test, trail.side)
                settings = frozenset(atom for one in trail.tested for atom in _atoms(machine.symbols, one))
                yield _Decision(test, trail.side, took, left, settings)
        trail = trail.before


def _implied(machine: Machine, state: State, ran: cst.CSTNode, here: Set[cst.CSTNode | None]) -> Iterator[_Decision]:
    """The conditions that led to `ran` and not `here`, and that the path no longer has since others joined it."""
    known = set[cst.CSTNode]()
    trail = state.trail
    while trail is not None:
        known.add(trail.step[0])
        trail = trail.before
    source = machine.program.source_of(ran)
    inner = ran
    for above in source.ancestors(ran) if source is not None else ():
        if isinstance(above, cst.FunctionDef):
            return
        if isinstance(above, cst.If) and inner is not above.test and above.test not in known:
            side = inner is above.body
            took, left = _branches(machine, above.test, side)
            if all(one not in here for branch in took for one in walk(branch)):
                yield _Decision(above.test, side, took, left, frozenset())
        inner = above


def _varies(symbols: Symbols, symbol: int) -> bool:
    return any(symbols.key(one)[0] in _VARYING for one in symbols.derivation(symbol))


def _is_of_round(machine: Machine, state: State, symbol: int) -> bool:
    """Whether the result of a call in the running round of a loop is in `symbol`."""
    began = state.iteration[-1] if state.iteration else None
    calls = (one for one in machine.symbols.derivation(symbol) if machine.symbols.key(one)[0] == "call")
    return began is not None and any(machine.symbols.time(one) >= began for one in calls)


def _atoms(symbols: Symbols, symbol: int) -> Iterator[int]:
    """The values that a condition tests, without the operators that combine them."""

    def operands(one: int) -> tuple[int, ...]:
        return symbols.parts(one) if symbols.key(one)[0] in _OPERATORS else ()

    return (one for one in symbols.closure(symbol, operands) if not operands(one))


def _branches(machine: Machine, test: cst.CSTNode, side: bool) -> tuple[Sequence[cst.CSTNode], Sequence[cst.CSTNode]]:
    """The code that runs and the code that does not, where the condition `test` of an `if` came to `side`."""
    source = machine.program.source_of(test)
    if source is None:
        return (), ()
    chosen, block, *_ = source.ancestors(test)
    if not isinstance(chosen, cst.If):
        return (), ()
    otherwise = [chosen.orelse] if chosen.orelse is not None else []
    took, left = ([chosen.body], otherwise) if side else (otherwise, [chosen.body])
    body = getattr(block, "body", ())
    if side and not otherwise and isinstance(body, list) and _leaves(chosen.body):
        left = list(body[body.index(chosen) + 1 :])
    return took, left


def _leaves(body: cst.BaseSuite) -> bool:
    last = body.body[-1] if body.body else None
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], _LEAVES)


def _skips(one: _Decision, missing: str, wanted: Collection[cst.CSTNode], here: Set[cst.CSTNode]) -> bool:
    """Whether the missing call is left out for want of scaling, rather than together with other work.

    Other work is a step of which the path has no plain counterpart, or a use of gradients that the other branch lacks.
    """
    left, own = ([call for branch in side for call in every(branch, cst.Call)] for side in (one.left, one.took))
    found, also = (any(call in wanted or _is_call(call, missing) for call in calls) for calls in (left, own))
    if also or not found:
        return False
    if missing in _PLAIN:
        within = one.left if missing == "scale" else ()
        instead = {call for branch in within for call in _alternatives(branch, missing, wanted)}
        other = any(_is_plain(call, missing) for call in left if call not in instead)
        return any(_is_plain(call, missing) for call in own) and not other
    using = {_method(inner) for branch in one.took for inner in walk(branch) if inner in here}
    if using:
        return using <= {_method(call) for call in left}
    return any(_method(call) == "step" for call in own) or not any(_method(call) == "step" for call in left)


def _alternatives(branch: cst.CSTNode, missing: str, wanted: Collection[cst.CSTNode]) -> Iterator[cst.Call]:
    """The calls within `branch` that a condition of its own chooses instead of the missing one."""
    for inner in every(branch, cst.If):
        sides = [every(side, cst.Call) for side in (inner.body, inner.orelse) if side is not None]
        for side in sides:
            if any(call in wanted or _is_call(call, missing) for call in side):
                yield from (call for other in sides if other is not side for call in other)


def _is_call(call: cst.CSTNode, missing: str) -> bool:
    """Whether this is a call of the scaler's method, of which an optimizer has `step` without arguments, too."""
    if not isinstance(call, cst.Call):
        return False
    return _method(call) == missing and (missing == "update" or bool(call.args))


def _is_plain(call: cst.Call, missing: str) -> bool:
    """Whether this is the counterpart, without a scaler, of the scaler's method."""
    if _method(call) != _PLAIN[missing] or call.args:
        return False
    return not (isinstance(call.func, cst.Attribute) and _method(call.func.value) == "scale")


def _method(call: cst.CSTNode) -> str | None:
    """The last name of the callee."""
    called = call.func if isinstance(call, cst.Call) else None
    name = called.attr if isinstance(called, cst.Attribute) else called
    return name.value if isinstance(name, cst.Name) else None


def _is_same_text(one: _Decision, other: _Decision) -> bool:
    """Whether two outcomes differ of what is written as the same variable or attribute."""
    text = dotted(one.test)
    return text is not None and text == dotted(other.test) and one.side is not other.side


def _is_conditional(machine: Machine, state: State, scaler: Scaler, skips: _Decision) -> bool:
    """Whether `scaler` scales only under another unseen condition than that of `skips`."""
    if isinstance(scaler.enabled, Unknown):
        return skips.settings.isdisjoint(_atoms(machine.symbols, scaler.enabled.symbol))
    source = machine.program.source_of(scaler.created) if scaler.created is not None else None
    if source is None or scaler.created is None:
        return False
    inner: cst.CSTNode = scaler.created
    for above in source.ancestors(inner):
        if isinstance(above, cst.IfExp) and inner is not above.test:
            return True
        inner = above
    return False
