"""`--accumulate N`: gradient accumulation, one optimizer step for several batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from amplint.codemods import parameters
from amplint.codemods.accumulation import windows
from amplint.codemods.accumulation.blocks import Blocks
from amplint.codemods.accumulation.parts import Parts
from amplint.codemods.accumulation.windows import Window
from amplint.codemods.conversion import Change, Plan, Remark, Wish
from amplint.codemods.editing import remarks_on
from amplint.codemods.flags import Flag
from amplint.codemods.options import number_of_batches
from amplint.codemods.rows import row_edited
from amplint.findings import Edit, Fix
from amplint.fixes.apply import apply_round
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.training import work
from amplint.training.bindings import called_name, paths
from amplint.training.gradients import gradient_uses
from amplint.training.observed import Observed, framework
from amplint.training.parallel import Parallel
from amplint.training.reductions import Reduction, Reductions
from amplint.training.refusal import Reasons, Refusal
from amplint.training.rounds import Place, Round, as_place, check_conditions, find, has_remainder, observe
from amplint.training.script import Script, parsed

_COUNTS = ("accumulation_steps", "accumulate_steps", "steps_to_accumulate")
"""Names for the number of batches per window."""


def plan(text: str, wish: Wish, path: str) -> Plan:
    """Add windows of `wish.accumulate` batches to every loop with one step per batch; empty without such a loop."""
    if ".backward(" not in text or wish.accumulate is None:
        return Plan()
    script = parsed(text, path)
    try:
        return _planned(script, wish.accumulate, add_flag=wish.add_flag)
    except Refusal as refusal:
        return Plan(refused=remarks_on(refusal, script))


def _planned(script: Script, count: int, *, add_flag: bool) -> Plan:
    _check(script)
    observed = observe(script)
    rounds = find(script, observed)
    if not rounds:
        return Plan()
    flag = Flag(script, observed.calls, number_of_batches(count)) if add_flag else None
    conversion = _Conversion(script, observed, count, flag)
    reasons = Reasons()
    for place in dict.fromkeys(one.place for one in rounds):
        with reasons.collecting():
            conversion.convert(place, [one for one in rounds if one.place is place])
    reasons.raise_collected()
    return conversion.plan()


def _check(script: Script) -> None:
    """Raise Refusal for training code that cannot be followed."""
    foreign = framework(script.text)
    if foreign is not None:
        raise Refusal(foreign[0], f"{foreign[1]} has a way of its own to accumulate gradients")
    for call in script.calls:
        last = called_name(call)
        owner = dotted(call.func.value) if isinstance(call.func, cst.Attribute) else None
        if last == "manual_backward" or (last == "backward" and owner in ("torch.autograd", "autograd")):
            raise Refusal(call, "only backward() of a tensor can be followed")


class _Conversion:
    """Collects the edits of all loops of a file."""

    def __init__(self, script: Script, observed: Observed, count: int, flag: Flag | None) -> None:
        self._script = script
        self._observed = observed
        self._uses = gradient_uses(script, observed.calls)
        self._blocks = Blocks(script)
        self._reductions = Reductions(script, observed.calls)
        self._parallel = Parallel(script, observed.calls)
        self._number = count
        self._flag = flag
        self._count = script.fresh(*_COUNTS)
        self._helper = script.fresh("micro_batches", "batch_windows")
        self._defined: list[cst.CSTNode] = []
        self._declared: set[cst.CSTNode] = set()
        self._edits: list[Edit] = []
        self._done: list[Remark] = []
        self._left: list[tuple[cst.CSTNode, str]] = []
        self._imports: list[str] = []
        self._helped = False

    def convert(self, place: Place, rounds: Sequence[Round]) -> None:
        """Let the `rounds` of `place` accumulate gradients."""
        parts = self._parts(place, [call for one in rounds for call in one.backwards])
        window = self._window(place, counted=True)
        if not self._divide(parts, window):
            window = replace(window, sets=())
        self._begin(parts, window)
        self._end(parts, window, one=len(rounds) == 1)
        clears = [*parts.clears]
        if isinstance(place, cst.FunctionDef):
            clears += self._pass_position(place, cleared=parts.clears_first())
        if not clears:
            raise Refusal(place, "nothing in this loop clears the gradients")

    def _parts(self, place: Place, backwards: Sequence[cst.Call], *, cleared: bool = False) -> Parts:
        parts = Parts(self._script, self._observed, place, backwards, self._uses, cleared=cleared)
        self._left += parts.left
        return parts

    def _window(self, place: Place, *, counted: bool) -> Window:
        """The window of a loop; that of a function is passed to it."""
        if isinstance(place, cst.FunctionDef):
            return windows.function_window(self._script)
        windows.refuse_epochs(place)
        script, calls, window = self._script, self._observed.calls, None
        if counted and isinstance(place, cst.For):
            window = windows.counting(script, calls, place, self._count)
        if window is None:
            window = windows.grouping(script, calls, place, self._count, self._helper)
            self._helped = True
        self._edits += window.edits
        self._define(place)
        if windows.over_range(place):
            self._left.append((place, "a step takes several rounds of this loop now, so there are fewer steps"))
        self._done.append(Remark(self._script.row(place), f"step once for {self._number} batches"))
        return window

    def _pass_position(self, function: cst.FunctionDef, *, cleared: bool) -> list[cst.CSTNode]:
        """Pass `function` the position of its batch in the window; return the nodes in callers that clear gradients.

        Gradients are `cleared` by the function, or one that it calls, at the beginning of a window.
        """
        if function in self._declared:
            raise Refusal(function, f"{function.name.value}() calls itself")
        self._declared.add(function)
        window = windows.function_window(self._script)
        calls = self._calls_with_position(function, window)
        clears: list[cst.CSTNode] = []
        for call in calls:
            place = self._script.loop_of(call) or self._script.function_of(call)
            if place is None or any(self._script.inside(place, other) for other in calls if other is not call):
                raise Refusal(call, f"{function.name.value}() is not called once for each batch of a loop")
            if any(has_remainder(one.value) for one in call.args):
                self._left.append(
                    (call, "what is picked here by counting batches can fall between the ends of windows")
                )
            around = as_place(self._script, self._observed.calls, place)
            check_conditions(self._script, around, call)
            if isinstance(around, cst.While):
                self._check_counter(around, function)
            parts = self._parts(around, [call], cleared=cleared)
            caller = self._window(around, counted=False)
            self._begin(parts, caller)
            for run in parts.runs(parts.ending):
                self._blocks.wrap(run, f"if {caller.ends}:")
            clears += parts.clears
            if isinstance(around, cst.FunctionDef):
                clears += self._pass_position(around, cleared=cleared or parts.clears_first())
        return clears

    def _calls_with_position(self, function: cst.FunctionDef, window: Window) -> list[cst.Call]:
        """The calls of `function`, which pass the position in the window, named as its parameters are."""
        name = function.name.value
        calls = self._observed.calls.callers(function)
        if not calls:
            raise Refusal(function, f"{name}() trains on one batch, and the loop over batches is not in sight")
        if not parameters.takes_more(function):
            raise Refusal(function, f"{name}() would need to know its place in a window, and cannot be told here")
        why = f"{name}() is called here in a way that leaves no place for more arguments"
        self._edits += parameters.passed_on(self._script, function, calls, window.parameters, why)
        self._done.append(Remark(self._script.row(function), "hand on the place in the window"))
        return calls

    def _check_counter(self, loop: cst.While, function: cst.FunctionDef) -> None:
        """Raise Refusal if `function` counts for the condition of `loop`, and would no longer do so every iteration."""
        for node, path in work.counters(self._script, function):
            if path in paths(loop.test):
                raise Refusal(node, f"{path} tells when the loop ends, and would count windows instead of batches")

    def plan(self) -> Plan:
        """The plan with one change for all edits."""
        if self._helped:
            self._blocks.define(windows.helper_code(self._helper))
            self._imports.append("import itertools")
        for node in self._script.nodes:
            if isinstance(node, cst.Call) and "BatchNorm" in called_name(node):
                self._left.append((node, "the statistics of batch normalization remain those of single batches"))
                break
        edits = [*self._edits, *self._blocks.edits()]
        if self._flag is not None:
            edits += self._flag.edits
            self._done += self._flag.done
            self._imports += self._flag.imports
        fix = Fix("Accumulate gradients", tuple(edits), imports=tuple(dict.fromkeys(self._imports)))
        new, _ = apply_round(self._script.text, [fix])
        left = [
            Remark(row_edited(self._script.text, new, edits, self._script.row(node)), why) for node, why in self._left
        ]
        return Plan((Change(fix, tuple(self._done), tuple(dict.fromkeys(left))),))

    def _define(self, loop: cst.For | cst.While) -> None:
        """Define the number of batches above the outermost loop."""
        outermost = [loop, *self._script.loops_around(loop)][-1]
        block = self._script.block_of(outermost)
        if not any(self._script.block_of(one) is block for one in self._defined):
            self._defined.append(outermost)
            number = self._flag.at(outermost) if self._flag is not None else str(self._number)
            if number != self._count:
                self._blocks.above(outermost, f"{self._count} = {number}")

    def _divide(self, parts: Parts, window: Window) -> bool:
        """Divide the losses that are means by the window length; return whether there is one."""
        rewrite, divided = self._script.rewrite, False
        for backward in parts.backwards:
            assert isinstance(backward.func, cst.Attribute)
            loss = backward.func.value
            reduction = self._reductions.of(loss)
            if reduction is Reduction.SUM:
                self._left.append((backward, "this loss is a sum over its batch, so it is not divided"))
                continue
            if reduction is Reduction.UNKNOWN:
                self._left.append((backward, "this loss is taken for a mean over its batch; a sum must not be divided"))
            scaled = isinstance(loss, cst.Call) and (dotted(loss.func) or "").endswith(".scale") and len(loss.args) == 1
            inner = loss.args[0].value if isinstance(loss, cst.Call) and scaled else loss
            text = f"{rewrite.operand(inner)} / {window.length}"
            self._edits.append(rewrite.replace(inner, text if scaled else f"({text})"))
            divided = True
        return divided

    def _begin(self, parts: Parts, window: Window) -> None:
        first, *others = [*parts.runs(parts.beginning)] or [[]]
        if first and self._runs_every_iteration(parts, first[0]):
            self._blocks.wrap(first, f"if {window.begins}:", *window.sets)
        else:
            others = [first, *others] if first else others
            if window.sets:
                code = (f"if {window.begins}:", *(f"    {line}" for line in window.sets))
                self._blocks.above(parts.place.body.body[0], *code)
        for run in others:
            self._blocks.wrap(run, f"if {window.begins}:")

    def _runs_every_iteration(self, parts: Parts, statement: cst.CSTNode) -> bool:
        """Whether `statement` runs in every iteration, before the backward passes."""
        for around, block in self._script.enclosing_statements(statement):
            if block is parts.place.body.body or all(
                block is self._script.block_of(self._script.statement_of(one) or one) for one in parts.backwards
            ):
                return True
            if not isinstance(self._script.source.parent(self._script.source.parent(around) or around), cst.With):
                break
        return False

    def _end(self, parts: Parts, window: Window, *, one: bool) -> None:
        runs = list(parts.runs(parts.ending))
        condition = window.ends
        model = self._parallel.model(parts.place) if self._parallel else None
        if self._parallel and model is None:
            self._left.append(
                (parts.place, "run all but the last batch of a window in no_sync() of the distributed model")
            )
        held = self._distributed(parts, model[0]) if model is not None else []
        if (held or len(runs) > 1) and " or " in condition:
            name = self._script.fresh("last", "is_last", "ends_window")
            one = one and len({id(self._script.block_of(run[0])) for run in runs}) == 1
            place = held[0] if held else runs[0][0] if one else parts.place.body.body[0]
            self._blocks.above(place, f"{name} = {condition}")
            condition = name
        if model is not None and held:
            name, kind = model
            if kind is not None:
                synchronous = self._script.fresh("synchronous", "is_synchronous")
                self._blocks.above(held[0], f"{synchronous} = {condition} or not isinstance({name}, {kind})")
            else:
                synchronous = condition
            self._blocks.wrap(held, f"with contextlib.nullcontext() if {synchronous} else {name}.no_sync():")
            self._imports.append("import contextlib")
        for run in runs:
            self._blocks.wrap(run, f"if {condition}:")

    def _distributed(self, parts: Parts, model: str) -> list[cst.CSTNode]:
        """The statements from the forward pass of `model` to the last backward pass."""
        last = max(map(self._script.row, parts.backwards))
        uses = [
            node
            for node in walk(parts.place.body)
            if isinstance(node, cst.Call)
            and (dotted(node.func) == model or any(dotted(one.value) == model for one in node.args))
            and self._script.row(node) <= last
        ]
        common = self._script.common([*uses, *parts.backwards])
        if common is None:
            raise Refusal(parts.place, "the distributed model has no one place here for its no_sync()")
        block, statements = common
        places = [block.index(statement) for statement in statements]
        return [*block[min(places) : max(places) + 1]]
