"""Remarks on training code that behaves otherwise with a scaler, or beside half: what a person decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from amplint.codemods.writers.regions import Regions
from amplint.semantics.models.half_outputs import is_loss
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import SPEAKS_OF_LOSS
from amplint.source import syntax as cst
from amplint.source.tree import every, walk
from amplint.training.bindings import bound_paths, called_name, changed, paths
from amplint.training.flow import EXITS, Flow
from amplint.training.observed import Observed, disables_gradients
from amplint.training.operands import constructors
from amplint.training.script import Script
from amplint.training.surroundings import whole_program

_Note = tuple[cst.CSTNode, str]
_TESTS = frozenset({"isnan", "isinf", "isfinite"})
_OUT_OF_SIGHT = "this computes a loss out of sight; see that what half rounds is float32 there"
_ANOMALIES = frozenset({"set_detect_anomaly", "detect_anomaly"})


def of_scaler(script: Script, observed: Observed) -> Iterator[_Note]:
    """Remarks on what a scaler changes: each node and what to look at."""
    yield from _conditional_steps(script, observed)
    yield from _conditional_backwards(script, observed)
    yield from _ends(script, observed)
    for use in observed.idle:
        yield use, "between backward pass and step these gradients carry the scale; call this after the step"
    for call in script.calls:
        if called_name(call) in _ANOMALIES and not any(dotted(one.value) == "False" for one in call.args):
            yield call, "anomaly mode raises for the infinite gradients of an overflow, where the scaler skips the step"
        if _raises_for_infinite(call):
            yield call, "this raises for infinite gradients, where the scaler would skip the step and lower its scale"


def _raises_for_infinite(call: cst.Call) -> bool:
    """Whether `call` clips gradients and raises if they are infinite."""
    named = (one for one in call.args if one.keyword is not None and one.keyword.value == "error_if_nonfinite")
    return any(dotted(one.value) == "True" for one in named)


def _conditional_steps(script: Script, observed: Observed) -> Iterator[_Note]:
    """Steps of one of several optimizers, all of whose models run in one branch before it alone.

    Source: `GradScaler.step` of PyTorch 2.13 asserts that the optimizer's `found_inf_per_device` is not empty, which it
    is where no parameter has a gradient. `Optimizer.step` does nothing then.
    """
    for step, optimizer in observed.steps.items():
        function, own = script.function_of(step), _models_of(script, optimizer)
        others = (other for one, other in observed.steps.items() if script.function_of(one) is function)
        if len({*map(script.text_of, others)}) < 2:
            continue
        runs = [call for call in script.calls if script.function_of(call) is function and dotted(call.func) in own]
        if _may_be_skipped(script, runs, step):
            models = " or ".join(sorted(filter(None, {dotted(call.func) for call in runs})))
            yield step, f"a scaler raises at the step of an optimizer without gradients, as where {models} does not run"


def _conditional_backwards(script: Script, observed: Observed) -> Iterator[_Note]:
    """Steps that the same round reaches where no backward pass before them has run."""
    for step in observed.steps:
        function, row = script.function_of(step), script.row(step)
        before = [one for one in observed.backwards if script.function_of(one) is function and script.row(one) < row]
        if _may_be_skipped(script, before, step):
            yield step, "a scaler raises at a step without gradients, as where the condition before it is false"


def _may_be_skipped(script: Script, calls: Sequence[cst.Call], step: cst.Call) -> bool:
    """Whether all of `calls` stand in one branch before `step`, which is not under the same condition."""
    branches = {_branch_before(script, call, step) for call in calls}
    taken = {one for one in branches if one is not None and not _steps_alike(script, one, step)}
    return bool(taken) and taken == branches and not any((one, not side) in taken for one, side in taken)


def _branch_before(script: Script, call: cst.Call, step: cst.Call) -> tuple[cst.CSTNode, bool] | None:
    """The outermost `if` around `call`, but not around `step`, and whether `call` is in its `else`."""
    found: tuple[cst.CSTNode, bool] | None = None
    node: cst.CSTNode = call
    for above in script.source.ancestors(call):
        if isinstance(above, cst.FunctionDef) or script.inside(above, step):
            break
        if isinstance(above, cst.If) and node is not above.test:
            found = (above, node is above.orelse)
        node = above
    return found


def _steps_alike(script: Script, branch: tuple[cst.CSTNode, bool], step: cst.Call) -> bool:
    """Whether `step` stands under the condition of a `branch` before it, whose values nothing changes in between."""
    ran, otherwise = branch
    if otherwise or not isinstance(ran, cst.If):
        return False
    node: cst.CSTNode = step
    for above in script.source.ancestors(step):
        if isinstance(above, cst.FunctionDef):
            break
        if isinstance(above, cst.If) and node is above.body and script.text_of(above.test) == script.text_of(ran.test):
            return _is_kept(script, ran, above)
        node = above
    return False


def _is_kept(script: Script, first: cst.If, second: cst.If) -> bool:
    """Whether the condition of two `if` statements is made of names and attributes that nothing binds between them."""
    calls = any(every(first.test, cst.Call))
    begin, end = script.row(first), script.row(second)
    between = (one for one in script.of_kind(cst.BaseSmallStatement) if begin <= script.row(one) < end)
    bound = {path for one in between for path in changed(one)}
    return not calls and not bound & paths(first.test)


def _models_of(script: Script, optimizer: cst.BaseExpression) -> set[str]:
    """The models whose parameters the file gives to an optimizer, by paths."""
    path = dotted(optimizer)
    found: set[str] = set()
    for assign in script.of_kind(cst.Assign):
        if path is not None and path in bound_paths(assign, whole=True):
            calls = (call for call in every(assign.value, cst.Call) if called_name(call).endswith("parameters"))
            found |= {dotted(call.func.value) or "" for call in calls if isinstance(call.func, cst.Attribute)}
    return found - {""}


def _ends(script: Script, observed: Observed) -> Iterator[_Note]:
    """Tests of a loss for NaN or infinity that end training before the backward pass."""
    why = "an overflow of the forward pass ends training here, where the scaler would skip the step"
    losses: dict[cst.FunctionDef | None, set[str]] = {}
    for backward, loss in observed.losses.items():
        losses.setdefault(script.function_of(backward), set()).update(paths(loss) - {"self"})
    guards: list[cst.If | cst.Assert] = [*script.of_kind(cst.If), *script.of_kind(cst.Assert)]
    for node in guards:
        test, read = node.test, losses.get(script.function_of(node))
        if not read or not any(called_name(call) in _TESTS for call in every(test, cst.Call)):
            continue
        named = {path for one in script.of_kind(cst.Assign) if paths(one.value) & read for path in bound_paths(one)}
        if not paths(test) & (read | named) and not any(map(SPEAKS_OF_LOSS.search, paths(test))):
            continue
        if isinstance(node, cst.Assert) or any(map(_leaves, walk(node.body))):
            yield node, why


def _leaves(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.Break, cst.Return, cst.Raise)) or called_name(node) in EXITS


def in_float32(script: Script, observed: Observed, flow: Flow, regions: Regions) -> Iterator[_Note]:
    """Forward passes that no region contains or calls: in a loop that trains, with gradients enabled, or beside it.

    Those beside are in a function that trains nothing, and call what a region of training does. Each is told once.
    """
    statements = [one for region in (*regions.training, *regions.evaluation) for one in region.statements]
    inside = {node for statement in statements for node in walk(statement)}
    called = observed.calls.reached(statements)
    trains = [one for region in regions.training for one in region.statements]
    trains += (one for one in observed.calls.reached(trains) if script.source.owns(one))
    trained = {dotted(one.func) for each in trains for one in every(each, cst.Call)}
    models, reported = observed.models | observed.modules, set[str | None]()
    for call in script.calls:
        name, targets = dotted(call.func), observed.calls.targets(call)
        runs = name in models or (call in observed.forwards and (name in trained or _are_forward(targets)))
        home, statement = script.function_of(call), script.statement_of(call)
        made = constructors(script.source, name or "")
        if not runs or name in reported or call in inside or home in called or any(map(is_loss, (name or "", *made))):
            continue
        if statement is not None and regions.exits is not None and regions.exits.is_of_penalty(statement):
            continue
        loops = [one for one in script.source.ancestors(call) if isinstance(one, (cst.For, cst.While))]
        assigned = isinstance(statement, cst.SimpleStatementLine) and any(every(statement, cst.Assign))
        apart = any(map(flow.trains, loops)) and not flow.trains(statement or call)
        apart = apart and not disables_gradients(script.source, call)
        beside = name in trained and home is not None and home.name.value != "forward" and not flow.trains(home)
        if assigned and (apart or beside):
            reported.add(name)
            yield call, "this runs in float32 what trains in half"


def losses_out_of_sight(script: Script, observed: Observed, regions: Regions) -> Iterator[_Note]:
    """Losses that regions of training compute by methods or attributes of the object or a model that no class has."""
    sources = whole_program(script.source).sources
    modules = [chunk.module for source in sources for chunk in source.chunks]
    defined = {one.name.value for module in modules for one in every(module, cst.FunctionDef)}
    assigned = {
        path for module in modules for one in every(module, cst.Assign) for path in bound_paths(one, whole=True)
    }
    defined.update(path.removeprefix("self.") for path in assigned if path.startswith("self."))
    statements = [one for region in regions.training for one in region.statements]
    inside = [one for one in (*statements, *observed.calls.reached(statements)) if script.source.owns(one)]
    for call in dict.fromkeys(call for one in inside for call in every(one, cst.Call)):
        owner, _, method = (dotted(call.func) or "").rpartition(".")
        known = owner != "self" or bool(observed.calls.targets(call)) or call in observed.forwards
        if owner in observed.models and SPEAKS_OF_LOSS.search(method) and not observed.calls.targets(call):
            yield from ((call, _OUT_OF_SIGHT) for _ in range(method not in defined))
        if known or not SPEAKS_OF_LOSS.search(method):
            continue
        home = script.method_owner(script.function_of(call))
        if not any(script.assignments(one, f"self.{method}") for one in observed.calls.methods(home)):
            yield call, _OUT_OF_SIGHT


def _are_forward(functions: Set[cst.CSTNode]) -> bool:
    return bool(functions) and all(
        isinstance(one, cst.FunctionDef) and one.name.value == "forward" for one in functions
    )
