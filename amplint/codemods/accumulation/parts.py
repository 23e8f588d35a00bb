"""Partition of a loop body or function: statements for the beginning of a window, and for its end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.training import work
from amplint.training.bindings import bound_paths, called_name, paths
from amplint.training.observed import Observed
from amplint.training.refusal import Refusal, required
from amplint.training.rounds import Place, counted, has_remainder
from amplint.training.script import Script


class Parts:
    """Partitions the statements of `place`, a loop or function, around its `backwards`. Raises Refusal.

    `beginning` and `ending` are statements in it, in order; `left` are remarks for review. With `cleared`, a callee
    clears gradients at the beginning of a window.
    """

    def __init__(
        self,
        script: Script,
        observed: Observed,
        place: Place,
        backwards: Sequence[cst.Call],
        uses: Sequence[cst.CSTNode],
        *,
        cleared: bool = False,
    ) -> None:
        self._script = script
        self.place = place
        self._cleared = cleared
        self.backwards = backwards
        self.beginning: list[cst.CSTNode] = []
        self.ending: list[cst.CSTNode] = []
        self.left: list[tuple[cst.CSTNode, str]] = []
        self.clears = work.clears(script, place)
        self._followers = (*work.schedulers(script, place, observed), *work.averages(script, place))
        self._sort((*work.ending(script, place, observed, uses, _callers_of(script, uses)), *self._followers))
        self._add_calls_between(observed)
        self._add_dependents()
        for node, path in work.counters(script, place):
            if isinstance(place, cst.While) and path in paths(place.test):
                self._remark_on_counter(node, path)
            else:
                self._count(node, path)
        self._check_exits()
        for save in work.saves(script, place):
            if not self._held(save):
                self.left.append((save, "what is saved here can lie within a window, whose gradients it does not hold"))
        for step in observed.steps:
            if observed.calls.targets(step) and self._held(step):
                self.left.append((step, f"{called_name(step)}() runs once in a window now, with all it counts"))
        for scheduler in work.schedulers(script, place, observed):
            if any(script.inside(one, scheduler) for one in (*self.beginning, *self.ending)):
                self._remark_on_schedule(scheduler)

    def runs(self, statements: Sequence[cst.CSTNode]) -> Iterator[list[cst.CSTNode]]:
        """`statements` in groups of adjacent ones of one block."""
        run: list[cst.CSTNode] = []
        for statement in sorted(statements, key=self._script.row):
            block = self._script.block_of(statement)
            if run and not any(a is run[-1] and b is statement for a, b in itertools.pairwise(block)):
                yield run
                run = []
            run.append(statement)
        if run:
            yield run

    def clears_first(self) -> bool:
        """Whether gradients are cleared at the beginning of a window."""
        return any(self._script.inside(one, clear) for one in self.beginning for clear in self.clears)

    def _sort(self, nodes: Sequence[cst.CSTNode]) -> None:
        for node in (*self.clears, *nodes):
            statement = required(self._unit(node), node)
            follows = node in self._followers
            earlier = [one for one in self.backwards if self._order(one, statement) < 0]
            later = [one for one in self.backwards if self._order(one, statement) > 0]
            if earlier and later:
                raise Refusal(node, "this stands between two backward passes whose gradients add up")
            if earlier:
                if self._is_selected_by_counting(node, statement):
                    if not follows:
                        raise Refusal(node, "gradients are used here at some batches, which need not end a window")
                    continue
                _add(self.ending, statement)
            elif node in self.clears or (follows and called_name(node) in ("step", "step_update")):
                _add(self.beginning, self._outermost_movable(node))
            elif not follows and called_name(node) != "get_scale":
                raise Refusal(node, "gradients are used before the backward pass that makes them")

    def _is_selected_by_counting(self, node: cst.CSTNode, statement: cst.CSTNode) -> bool:
        """Whether `node`, within `statement`, runs for batches that a condition selects by counting."""
        loops = not isinstance(self.place, cst.FunctionDef)
        return any(
            isinstance(above, cst.If)
            and self._script.inside(statement, above)
            and not self._script.inside(above.test, node)
            and (has_remainder(above.test) or (loops and counted(self.place, above.test)))
            for above in self._script.source.ancestors(node)
        )

    def _add_calls_between(self, observed: Observed) -> None:
        """Add the calls on the model or the optimizer between a backward pass and the last step."""
        steps = [self._script.row(one) for one in observed.steps if self._held(one)]
        about = {path for one in self.ending for path in paths(one)}
        about |= {dotted(node.func) or "" for node in walk(self.place.body) if isinstance(node, cst.Call)}
        losses = {path for one in self.backwards for path in paths(one)} - {"self"}
        for node in walk(self.place.body):
            if not isinstance(node, cst.Expr) or not isinstance(node.value, cst.Call) or self._held(node):
                continue
            named = {path for argument in node.value.args for path in paths(argument)}
            statement = self._unit(node)
            if statement is None or not named & about or paths(node) & losses - about:
                continue
            behind = all(self._order(one, statement) <= 0 for one in self.backwards)
            if behind and steps and self._script.row(statement) < max(steps):
                _add(self.ending, statement)

    def _unit(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The outermost statement of the loop that contains `node` and no backward pass, if there is one."""
        found: cst.CSTNode | None = None
        for statement, _ in self._script.enclosing_statements(node):
            if statement is self.place or any(self._script.inside(statement, one) for one in self.backwards):
                break
            found = statement
        return found

    def _outermost_movable(self, node: cst.CSTNode) -> cst.CSTNode:
        """The outermost statement that contains `node` and nothing that has to run in every iteration."""
        found: cst.CSTNode | None = None
        for statement, _ in self._script.enclosing_statements(node):
            if statement is self.place or not self._contains_only(statement, node):
                break
            found = statement
        return required(found, node)

    def _contains_only(self, statement: cst.CSTNode, node: cst.CSTNode) -> bool:
        """Whether `statement` contains nothing but `node`, clearing of gradients and other statements on `.grad`."""
        small = [inner for inner in walk(statement) if isinstance(inner, cst.BaseSmallStatement)]
        return all(
            self._script.inside(one, node)
            or isinstance(one, cst.Pass)
            or any(self._script.inside(one, clear) for clear in self.clears)
            or any(isinstance(inner, cst.Attribute) and inner.attr.value == "grad" for inner in walk(one))
            for one in small
        )

    def _order(self, backward: cst.Call, statement: cst.CSTNode) -> int:
        """-1 for a backward pass before `statement`, 1 for one after it, 0 for one in another branch."""
        common = self._script.common([backward, statement])
        if common is not None and common[1][0] is common[1][1]:
            return 0
        return -1 if self._script.row(backward) < self._script.row(statement) else 1

    def _held(self, node: cst.CSTNode) -> bool:
        return any(self._script.inside(one, node) for one in self.ending)

    def _add_dependents(self) -> None:
        """Add the statements that read variables defined only at the end of a window."""
        grown = True
        while grown:
            grown = False
            only_there = self._bound_at_end()
            for node in list(walk(self.place.body)):
                path = dotted(node) if isinstance(node, (cst.Name, cst.Attribute)) else None
                if path not in only_there or self._held(node):
                    continue
                statement = self._unit(node)
                if statement is None or not any(self._order(one, statement) < 0 for one in self.backwards):
                    raise Refusal(node, f"{path} is read before the end of the window, which sets it")
                if isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Return):
                    raise Refusal(node, f"{path} is returned, and only the end of a window sets it")
                _add(self.ending, statement)
                self.left.append((statement, f"this runs once in a window now, where {path} is set"))
                grown = True
                break

    def _bound_at_end(self) -> set[str]:
        """The variables bound only at the end of a window."""
        function = self._home()
        found = {path for one in self.ending for node in walk(one) for path in bound_paths(node, whole=True)}
        return {
            path
            for path in found
            if not path.startswith("self.")
            and all(self._held(one) for one in self._script.assignments(function, path))
            and (function is None or self._script.parameter(function, path) is None)
        }

    def _count(self, node: cst.AugAssign, path: str) -> None:
        """Move a counter of steps, with its tests, to the end of windows, if nothing else reads it."""
        mine = self._unit(node)
        if not isinstance(mine, cst.SimpleStatementLine) or not all(self._order(b, mine) < 0 for b in self.backwards):
            return
        asking: list[cst.CSTNode] = [mine]
        for read in walk(self.place.body):
            if isinstance(read, (cst.Name, cst.Attribute)) and dotted(read) == path and not self._held(read):
                holder = self._unit(read)
                if holder is None or not (holder is mine or self._is_later_condition_on(holder, path)):
                    self._remark_on_counter(node, path)
                    return
                _add(asking, holder)
        for statement in asking:
            _add(self.ending, statement)

    def _remark_on_counter(self, node: cst.AugAssign, path: str) -> None:
        self.left.append((node, f"{path} counts batches here, and no longer steps"))

    def _is_later_condition_on(self, statement: cst.CSTNode, path: str) -> bool:
        """Whether `statement`, after the backward passes, is a condition on `path`."""
        behind = all(self._order(one, statement) < 0 for one in self.backwards)
        return behind and isinstance(statement, cst.If) and any(dotted(node) == path for node in walk(statement.test))

    def _check_exits(self) -> None:
        last = max((self._script.source.span(one).end.row for one in (*self.ending, *self.backwards)), default=0)
        for node in work.exits(self._script, self.place):
            behind = self._script.row(node) > last
            if self._held(node):
                continue
            if isinstance(node, cst.Continue) or (isinstance(node, cst.Return) and self.place is self._home()):
                if behind:
                    continue
                raise Refusal(node, "a round that ends here would leave its window without a step")
            if not (self._cleared or self.clears_first()):
                raise Refusal(node, "leaving the loop here would leave the gradients of an unfinished window")
            self.left.append((node, "leaving the loop here drops the batches of a window that is not full"))

    def _home(self) -> cst.FunctionDef | None:
        return self._script.function_of(self.place.body)

    def _remark_on_schedule(self, scheduler: cst.Call) -> None:
        assert isinstance(scheduler.func, cst.Attribute)
        made = work.constructions(self._script, scheduler.func.value) or []
        for place in made or [scheduler]:
            self.left.append((place, "this schedule advances once in a window now; shorten it if it counts batches"))


def _add(statements: list[cst.CSTNode], statement: cst.CSTNode) -> None:
    if statement not in statements:
        statements.append(statement)


def _callers_of(script: Script, uses: Sequence[cst.CSTNode]) -> set[str]:
    """The names of the functions of this file that read or change gradients and do not train."""
    functions = [script.function_of(one) for one in uses]
    return {
        one.name.value
        for one in functions
        if one is not None and not any(called_name(n) in ("backward", "step") for n in walk(one.body))
    }
