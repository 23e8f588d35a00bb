"""Calls of a gradient scaler: scale every loss, unscale before gradients are used, step, and update in each round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from amplint.codemods.conversion import Remark
from amplint.edits import protocol
from amplint.findings import Edit
from amplint.source import syntax as cst
from amplint.training.bindings import bound_paths, paths
from amplint.training.observed import Observed
from amplint.training.refusal import Reasons, Refusal, required
from amplint.training.script import Script


class Protocol:
    """Writes the calls for all that is `observed`, of the scaler that `scaler_at` names at a node.

    Raises Refusal for a call without a certain place.
    """

    def __init__(self, script: Script, observed: Observed, scaler_at: Callable[[cst.Call], str]) -> None:
        self._script = script
        self._observed = observed
        self._scaler_at = scaler_at
        self.edits: list[Edit] = []
        self.done: list[Remark] = []
        self.late = False
        """Whether gradients are used behind the last step that used them, where nothing has to unscale them."""
        reasons = Reasons()
        for call in observed.steps:
            with reasons.collecting():
                self._step(call)
        for group in self._rounds():
            with reasons.collecting():
                self._update(group)
        self._uses = list[cst.CSTNode]()
        for use in observed.uses:
            with reasons.collecting():
                self._uses += (one for one in self._in_stepping_functions(use) if one not in self._uses)
        for use in self._uses:
            with reasons.collecting():
                self._unscale(use)
        reasons.raise_collected()
        for backward, loss in observed.losses.items():
            with reasons.collecting():
                self._scale(backward, loss)
        reasons.raise_collected()

    def _scale(self, backward: cst.Call, loss: cst.BaseExpression) -> None:
        code = protocol.scaled(loss, self._scaler_at(backward), self._script.rewrite)
        self._put(self._script.rewrite.replace(loss, code), backward, "scale the loss")

    def _step(self, call: cst.Call) -> None:
        edit = protocol.step(call, self._observed.steps[call], self._scaler_at(call), self._script.rewrite)
        self._put(edit, call, "let the scaler step the optimizer")

    def _rounds(self) -> Iterator[list[cst.Call]]:
        """The steps between two updates: those of one loop, up to the next step of the same optimizer."""
        groups: dict[tuple[object, object], list[cst.Call]] = {}
        for step in sorted(self._observed.steps, key=self._script.row):
            unit = self._unit(step)
            groups.setdefault((self._script.function_of(step), self._script.loop_of(unit)), []).append(step)
        for steps in groups.values():
            current: list[cst.Call] = []
            for step in steps:
                same = [other for other in current if self._optimizer(step) == self._optimizer(other)]
                if any(not self._script.exclude(step, other) for other in same):
                    around = self._statement_beside(step, current[0])
                    near = [one for one in current if around is not None and self._script.inside(around, one)]
                    yield [one for one in current if one not in near]
                    current = near
                current.append(step)
            yield current

    def _statement_beside(self, step: cst.Call, first: cst.Call) -> cst.CSTNode | None:
        """The statement around `step`, and around more, that does not contain the `first` one."""
        common = self._script.common([first, step])
        return common[1][1] if common is not None and common[1][0] is not common[1][1] else None

    def _unit(self, step: cst.Call) -> cst.CSTNode:
        """The step, or the loop over optimizers that contains it."""
        loop = self._script.loop_of(step)
        over = isinstance(loop, cst.For) and bound_paths(loop) & paths(self._observed.steps[step])
        return loop if over and loop is not None else step

    def _optimizer(self, step: cst.Call) -> str:
        return self._script.text_of(self._observed.steps[step])

    def _update(self, steps: Sequence[cst.Call]) -> None:
        units = [self._unit(step) for step in steps]
        name = self._scaler_at(steps[-1])
        last = units[-1]
        if len(units) > 1:
            common = self._script.common(units)
            if common is None:
                raise Refusal(steps[-1], "the steps of the optimizers are too far apart for one update of the scaler")
            block, statements = common
            last = max(statements, key=block.index)
            plain = [self._script.statement_of(unit) for unit in units]
            if not any(statement in block for statement in plain) and not _both_ways(statements):
                if len(branches := self._branches(steps)) > 1:
                    for branch in branches:
                        self._update(branch)
                    return
                raise Refusal(
                    steps[-1], "none of the optimizers steps every time; the scaler cannot be updated in one place"
                )
        edit = protocol.update(self._behind_condition(steps[-1], last), name, self._script.rewrite)
        self._put(edit, steps[-1], "update the scaler")

    def _branches(self, steps: Sequence[cst.Call]) -> list[list[cst.Call]]:
        """`steps` by the branches of an `if`, of which only one runs."""
        found: list[list[cst.Call]] = []
        for step in steps:
            same = next((one for one in found if not self._script.exclude(one[0], step)), None)
            if same is None:
                found.append([step])
            else:
                same.append(step)
        return found

    def _behind_condition(self, step: cst.Call, last: cst.CSTNode) -> cst.CSTNode:
        """The `if` around `last`, the statement of `step`, before which the gradients are unscaled; else `last`.

        A round that skips the step has to end with an update, too: PyTorch refuses to unscale twice without one.
        """
        function, row = self._script.function_of(step), self._script.row(step)
        mine = [one for one in self._observed.backwards if self._script.function_of(one) is function]
        begin = max((other for other in map(self._script.row, mine) if other < row), default=row)
        uses = [
            use
            for use in self._observed.uses
            if self._script.function_of(use) is function and begin <= self._script.row(use) < row
        ]
        common = self._script.common([uses[0], last]) if uses else None
        if common is None:
            return last
        block, (_, around) = common
        unscaled = self._script.statement_of(self._unscaled_above(uses, self._unit(step), common[1][0]))
        conditional = isinstance(around, cst.If) and self._script.loop_of(around) is self._script.loop_of(last)
        return around if conditional and unscaled in block else last

    def _unscale(self, use: cst.CSTNode) -> None:
        steps = self._steps_of(use)
        self.late |= not steps
        for step in steps:
            uses = [other for other in self._uses if step in self._steps_of(other)]
            if uses[0] is not use:
                continue
            common = self._script.common([use, self._unit(step)])
            if common is None:
                raise Refusal(use, "the gradients are used too far from the step for them to be unscaled")
            below = self._unscaled_above(uses, self._unit(step), common[1][0])
            optimizer, scaler = self._optimizer(step), self._scaler_at(step)
            edit = protocol.unscale(below, optimizer, scaler, self._script.rewrite, self._given(step, below))
            self._put(edit, use, "unscale the gradients before they are used")
            self._leave(below, step)

    def _given(self, step: cst.Call, below: cst.CSTNode) -> str | None:
        """The condition of an `if` around a step, and not around `below`, that asks whether there is its optimizer."""
        for above in self._script.source.ancestors(step):
            if isinstance(above, cst.If) and not self._script.inside(above, below):
                test = self._script.text_of(above.test)
                if test in (self._optimizer(step), f"{self._optimizer(step)} is not None"):
                    return test
        return None

    def _leave(self, below: cst.CSTNode, step: cst.Call) -> None:
        """Update the scaler before each `return` between the unscaling above `below` and `step`."""
        function, rows = self._script.function_of(step), range(self._script.row(below), self._script.row(step))
        for one in self._script.of_kind(cst.Return):
            if self._script.function_of(one) is function and self._script.row(one) in rows:
                update = protocol.update(one, self._scaler_at(step), self._script.rewrite, above=True)
                self._put(update, one, "update the scaler")

    def _unscaled_above(self, uses: Sequence[cst.CSTNode], unit: cst.CSTNode, outer: cst.CSTNode) -> cst.CSTNode:
        """The node above which gradients are unscaled for `uses`, of which `outer` contains the first."""
        first = uses[0]
        alone = len(uses) == 1 and self._script.loop_of(first) is self._script.loop_of(unit)
        plain = alone and self._script.statement_of(first) is not None
        return first if plain else self._after_backward(first, outer)

    def _after_backward(self, use: cst.CSTNode, outer: cst.CSTNode) -> cst.CSTNode:
        """The outermost statement around `use`, up to `outer`, that contains no backward pass; `use` without any."""
        found = use
        for statement, _ in self._script.enclosing_statements(use):
            if any(self._script.inside(statement, backward) for backward in self._observed.backwards):
                break
            found = statement
            if statement is outer:
                break
        return found

    def _steps_of(self, use: cst.CSTNode) -> list[cst.Call]:
        """The steps that follow `use` before the next backward pass; those of optimizers that it is given."""
        steps = self._steps_behind(use)
        given = {self._script.text_of(one.value) for one in use.args} if isinstance(use, cst.Call) else set[str]()
        return [step for step in steps if self._optimizer(step) in given] or steps

    def _in_stepping_functions(self, use: cst.CSTNode) -> list[cst.CSTNode]:
        """`use`, or the calls that lead to it from functions that step."""
        stepping = {self._script.function_of(step) for step in self._observed.steps}
        waiting, found, seen = [use], list[cst.CSTNode](), set[cst.CSTNode]()
        while waiting:
            place = waiting.pop(0)
            function = self._script.function_of(place)
            if function in stepping:
                found.append(place)
                continue
            callers = self._observed.calls.callers(function) if function is not None else None
            if not callers or place in seen:
                raise Refusal(use, "gradients are used here, away from the step of their optimizer")
            seen.add(place)
            waiting += callers
        return found

    def _steps_behind(self, place: cst.CSTNode) -> list[cst.Call]:
        """The steps that follow `place` before the next backward pass; none if one has just run."""
        function, row = self._script.function_of(place), self._script.row(place)
        backwards = [
            self._script.row(one) for one in self._observed.backwards if self._script.function_of(one) is function
        ]
        border = min((other for other in backwards if other > row), default=None)
        steps = [step for step in self._observed.steps if self._script.function_of(step) is function]
        behind = [
            step
            for step in steps
            if self._script.row(step) > row and (border is None or self._script.row(step) < border)
        ]
        if not behind:
            before = [self._script.row(step) for step in steps if self._script.row(step) < row]
            if not before or max(before) < max((other for other in backwards if other <= row), default=0):
                raise Refusal(place, "gradients are used here, and no step of an optimizer follows")
        return behind

    def _put(self, edit: Edit | None, node: cst.CSTNode, what: str) -> None:
        self.edits.append(required(edit, node, f"there is no place here to {what}"))
        self.done.append(Remark(self._script.row(node), what))


def _both_ways(statements: Sequence[cst.CSTNode]) -> bool:
    """Whether all statements are in one `if` that steps in both branches."""
    first = statements[0]
    return isinstance(first, cst.If) and all(one is first for one in statements) and isinstance(first.orelse, cst.Else)
