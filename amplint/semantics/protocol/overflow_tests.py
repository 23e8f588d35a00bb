"""Tests of gradients for inf, written by hand: the branch that a path takes if the gradients have overflowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.reading.scopes import last_name
from amplint.semantics.values.state import State
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk, cached_per_file
from amplint.source.source import Chunk, Source
from amplint.source.tree import every
from amplint.torchlib.names import CLIPPERS
from amplint.torchlib.policy import words

_TRUTHS = {"isfinite": False, "isinf": True}
"""Functions and methods, and what they return for gradients that have overflowed.

An overflow need not lead to NaN.
"""
_NORMS = frozenset(name.rpartition(".")[2] for name in CLIPPERS) | {"get_total_norm"}
_SAME_TRUTH = words("bool item float int cpu detach")
_SOME = frozenset({"any", "sum", "max", "count_nonzero"})
"""Functions and methods that are true if one element is."""
_EVERY = frozenset({"all", "min"})
"""Those that are false if one element is."""


def decided(machine: Machine, state: State, since: cst.CSTNode) -> cst.CSTNode | None:
    """The condition that made the path leave out the step after `since`, a backward pass, as it does at an overflow."""
    found, trail = None, state.trail
    while trail is not None and trail.step[0] is not since:
        if trail.side is not None and _leaves_out_step(machine, trail.step[0], trail.side, since):
            found = trail.step[0]
        trail = trail.before
    return found if trail is not None else None


def occur(machine: Machine) -> bool:
    """Whether the program tests any number for inf."""
    return any(map(_may_test, machine.program.chunks))


@cached_per_chunk
def _may_test(chunk: Chunk) -> bool:
    return not chunk.words.isdisjoint(_TRUTHS)


def _leaves_out_step(machine: Machine, condition: cst.CSTNode, side: bool, since: cst.CSTNode) -> bool:
    """Whether an overflow chooses the `side` of a condition, and only the other one leads to a step."""
    source, start = machine.program.source_of(condition), machine.program.source_of(since)
    if source is None or source is not start or source.function_around(condition) is not source.function_around(since):
        return False
    choice = next((one for one in source.ancestors(condition) if isinstance(one, cst.If)), None)
    if choice is None or choice.test is not condition:
        return False
    taken, other = (choice.body, choice.orelse) if side else (choice.orelse, choice.body)
    if taken is not None and next(every(taken, cst.Raise), None) is not None:
        return False
    steps = other is not None and any(last_name(call.func) == "step" for call in every(other, cst.Call))
    if not steps and (taken is None or not _leaves(taken, _loop(source, choice) is _loop(source, since))):
        return False
    return machine[OverflowTests].truth(condition) is side


def _leaves(taken: cst.CSTNode, of_backward: bool) -> bool:
    """Whether a branch ends the round of the loop, if that is the one of the backward pass, or the call."""
    ends = every(taken, cst.Continue, cst.Return) if of_backward else every(taken, cst.Return)
    return next(ends, None) is not None


def _loop(source: Source, node: cst.CSTNode) -> cst.CSTNode | None:
    return next((one for one in source.ancestors(node) if isinstance(one, (cst.For, cst.While))), None)


class OverflowTests(Tracker):
    """Values of expressions if the gradients have overflowed, None where that does not decide them."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._known: dict[cst.CSTNode, bool | None] = {}

    def truth(self, node: cst.CSTNode) -> bool | None:
        """The truth of `node`; of a tensor, that of the element that has overflowed."""
        if node not in self._known:
            self._known[node] = None  # until it is known: names may be bound in circles
            self._known[node] = self._truth(node)
        return self._known[node]

    def _truth(self, node: cst.CSTNode) -> bool | None:
        if isinstance(node, cst.UnaryOperation):
            return _opposite(self.truth(node.expression)) if isinstance(node.operator, _NEGATIONS) else None
        if isinstance(node, cst.BooleanOperation):
            sides = [self.truth(side) for side in (node.left, node.right)]
            decisive = isinstance(node.operator, cst.Or)
            return decisive if decisive in sides else sides[0] if sides[0] is sides[1] else None
        if isinstance(node, cst.BinaryOperation):
            sides = [self.truth(side) for side in (node.left, node.right)]
            return True if isinstance(node.operator, (cst.Add, cst.BitOr)) and True in sides else None
        if isinstance(node, cst.Comparison):
            return self._compared(node)
        if isinstance(node, (cst.GeneratorExp, cst.ListComp)):
            return self.truth(node.elt)
        if isinstance(node, cst.Call):
            return self._called(node)
        return self._named(node) if isinstance(node, cst.Name) else None

    def _compared(self, node: cst.Comparison) -> bool | None:
        """A count compared with zero, or a gradient with None."""
        (only, *more) = node.comparisons
        if more:
            return None
        if _is_name(only.comparator, "None"):
            there = isinstance(node.left, cst.Attribute) and node.left.attr.value == "grad"
            return {cst.Is: False, cst.IsNot: True}.get(type(only.operator)) if there else None
        if not isinstance(only.comparator, cst.Integer) or only.comparator.evaluated_value != 0:
            return None
        return _AGAINST_ZERO.get(type(only.operator)) if self.truth(node.left) else None

    def _called(self, node: cst.Call) -> bool | None:
        name = last_name(node.func)
        first = node.args[0].value if node.args else None
        owner = node.func.value if isinstance(node.func, cst.Attribute) else None
        operands = [one for one in (first, owner) if one is not None]
        if name in _TRUTHS:
            return _TRUTHS[name] if any(map(self._is_of_gradients, operands)) else None
        if name in _SAME_TRUTH or name in _SOME or name in _EVERY:
            known = {self.truth(one) for one in operands} - {None}
            found = known.pop() if len(known) == 1 else None
            kept = {True} if name in _SOME else {False} if name in _EVERY else {True, False}
            return found if found in kept else None
        function = self._function(name)
        if function is None:
            return None
        returned = [(one, one.value) for one in every(function, cst.Return)]
        return self._outcome([(one, value) for one, value in returned if value is not None])

    def _function(self, name: str) -> cst.FunctionDef | None:
        """The only function of that name in the program."""
        chunks = [chunk for chunk in self.machine.program.chunks if name in chunk.words]
        found = [one for chunk in chunks for one in every(chunk.module, cst.FunctionDef) if one.name.value == name]
        return found[0] if len(found) == 1 else None

    def _named(self, node: cst.Name) -> bool | None:
        scopes = self._scopes(node)
        added = [one for scope in scopes for one in every(scope, cst.AugAssign) if _is_name(one.target, node.value)]
        for one in added:
            if isinstance(one.operator, (cst.AddAssign, cst.BitOrAssign)) and self.truth(one.value):
                return True
            if isinstance(one.operator, cst.BitAndAssign) and self.truth(one.value) is False:
                return False
        bound = [(one, one.value) for one in _bindings(scopes, node.value)]
        return self._outcome(bound) if not added else None

    def _outcome(self, results: Sequence[tuple[cst.CSTNode, cst.BaseExpression]]) -> bool | None:
        """The truth of a name or function with these `results`: the only one, or the constant for the overflow."""
        if len(results) == 1:
            return self.truth(results[0][1])
        if any(_constant(value) is None for _, value in results):
            return None
        known = {_constant(value) for place, value in results if self._is_for_overflow(place)}
        return known.pop() if len(known) == 1 else None

    def _is_for_overflow(self, place: cst.CSTNode) -> bool:
        """Whether the innermost choice around `place` is decided for it by an overflow."""
        source = self.machine.program.source_of(place)
        inner = place
        for above in source.ancestors(place) if source is not None else ():
            if isinstance(above, cst.If):
                return self.truth(above.test) is (inner is above.body)
            if isinstance(above, cst.FunctionDef):
                return False
            inner = above
        return False

    def _is_of_gradients(self, node: cst.CSTNode) -> bool:
        """Whether `node` is computed from `parameter.grad`, or is a norm that clipping returns."""
        if _has_gradient(node):
            return True
        names = {name.value for name in every(node, cst.Name)}
        return any(not names.isdisjoint(_gradient_names(scope)) for scope in self._scopes(node))

    def _scopes(self, node: cst.CSTNode) -> Sequence[cst.CSTNode]:
        """The function around `node`, or the statements of the script."""
        source = self.machine.program.source_of(node)
        if source is None:
            return ()
        function = source.function_around(node)
        return [function] if function is not None else [one.module for one in source.chunks if one.name is None]


_NEGATIONS = (cst.Not, cst.BitInvert)
_AGAINST_ZERO: Mapping[type[cst.CSTNode], bool] = {
    cst.GreaterThan: True, cst.NotEqual: True, cst.Equal: False, cst.LessThanEqual: False
}  # fmt: skip
"""Comparisons of a positive count with zero."""


def _opposite(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _constant(node: cst.BaseExpression) -> bool | None:
    return {"True": True, "False": False}.get(node.value) if isinstance(node, cst.Name) else None


def _is_name(node: cst.CSTNode, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def _bindings(scopes: Sequence[cst.CSTNode], name: str) -> Iterator[cst.Assign]:
    every_one = (one for scope in scopes for one in every(scope, cst.Assign))
    return (one for one in every_one if any(_is_name(target.target, name) for target in one.targets))


def _has_gradient(node: cst.CSTNode) -> bool:
    return any(one.attr.value == "grad" for one in every(node, cst.Attribute)) or any(
        last_name(call.func) in _NORMS for call in every(node, cst.Call)
    )


@cached_per_file
def _gradient_names(scope: cst.CSTNode) -> frozenset[str]:
    """The variables of a function or script that are computed from gradients, or iterate over them."""
    bound = list(_variables(scope))
    found = {name for name, value in bound if _has_gradient(value)}
    used = [(name, {one.value for one in every(value, cst.Name)}) for name, value in bound]
    count = -1
    while len(found) > count:
        count = len(found)
        found.update(name for name, names in used if not names.isdisjoint(found))
    return frozenset(found)


def _variables(scope: cst.CSTNode) -> Iterator[tuple[str, cst.BaseExpression]]:
    """The variables of `scope`, each with an expression that it is bound to or iterates over."""
    bound = [(target.target, one.value) for one in every(scope, cst.Assign) for target in one.targets]
    added = [(one.target, one.value) for one in every(scope, cst.AugAssign)]
    each = [(one.target, one.iter) for one in every(scope, cst.For)]
    each += [(one.target, one.iter) for one in every(scope, cst.CompFor)]
    for target, value in (*bound, *added, *each):
        if isinstance(target, cst.Name):
            yield target.value, value
