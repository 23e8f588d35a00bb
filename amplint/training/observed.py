"""Events of a training script: forward and backward passes, steps, uses of gradients, and windows of batches."""

from __future__ import annotations

import enum
import functools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from amplint.records import dataclass
from amplint.semantics.events import (
    Accumulation,
    AutocastCreated,
    Backward,
    Event,
    Forward,
    ManagedBackward,
    OptimizerStep,
    Purpose,
    Recipe,
    ScalerStep,
    ScalerUpdate,
)
from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import MODEL, OPTIMIZERS, dotted, kinds
from amplint.semantics.words import ABOUT_MODELS, OPTIMIZER_NAME, SCHEDULER, SPEAKS_OF_LOSS, SPEAKS_OF_OPTIMIZER
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import every, walk
from amplint.torchlib.frameworks import TITLES
from amplint.training.bindings import bound_paths, called_name, given_to
from amplint.training.calls import Calls
from amplint.training.gradients import gradient_uses
from amplint.training.interpretation import Interpretation, interpreted
from amplint.training.refusal import Refusal
from amplint.training.script import Script
from amplint.training.surroundings import modules

AT_HOME = sys.stdlib_module_names | {"torch", "torchvision", "torchaudio", "numpy", "tqdm", "timm", ""}
_FRAMEWORKS = re.compile(
    r"^[ \t]*(?:from|import)[ \t]+(accelerate|apex|composer|deepspeed|fastai|ignite|keras|lightning|lightning_fabric"
    r"|mmcv|mmengine|pytorch_lightning|colossalai|torch_xla"
    r"|torch\.distributed\.(?:fsdp|_composable|_?tensor)|fairscale)\b",
    re.MULTILINE,
)
_SCALING = {
    "ignite": re.compile(r"\bcreate_supervised_trainer\b|\bsupervised_training_step"),
    "apex": re.compile(r"\bamp\.(?:initialize|scale_loss)\b|\bfp16_utils\b"),
    "mmcv": re.compile(r"\bmmcv\.(?:runner|engine)\b|\bfrom mmcv import .*\brunner\b"),
    "mmengine": re.compile(r"\bmmengine\.(?:runner|optim|hooks|_strategy)\b|\bRunner\b|\bbuild_optim_wrapper\b"),
}
"""Library -> what of it scales losses; its other parts, such as files of settings, leave training alone."""


class Goal(enum.Enum):
    """The code that a codemod writes into a training loop."""

    REGIONS = enum.auto()
    SCALER = enum.auto()
    """A scaler, and regions."""
    WINDOWS = enum.auto()
    """Windows of batches whose gradients are accumulated."""


@dataclass
class Observed:
    """The relevant calls of the file; forward passes and uses of gradients only for regions, windows only for windows.

    `calls` maps them to the functions they run. `forwards` holds the calls that run a forward pass, directly or through
    a callee; training runs those in `shared`. `evaluations` are the call chains of evaluation to its forward passes.
    `losses` maps backward passes to the unscaled loss, and `steps` each step of an optimizer to the expression of the
    optimizer; `updates` are those of the scale, `windows` the loops and functions that accumulate gradients already,
    `uses` the clipping, measuring and updates of gradients, and `idle` those in functions that nothing in the file
    names. `modules` are the names of objects with a forward pass, `models` the expressions used as models, `mixed` is
    whether the file uses mixed precision already, and `foreign` maps names imported from libraries other than PyTorch
    to their qualified names.
    """

    calls: Calls
    backwards: list[cst.Call] = field(default_factory=list)
    losses: dict[cst.Call, cst.BaseExpression] = field(default_factory=dict)
    steps: dict[cst.Call, cst.BaseExpression] = field(default_factory=dict)
    updates: list[cst.CSTNode] = field(default_factory=list)
    windows: set[cst.CSTNode] = field(default_factory=set)
    uses: list[cst.CSTNode] = field(default_factory=list)
    idle: list[cst.CSTNode] = field(default_factory=list)
    forwards: set[cst.CSTNode] = field(default_factory=set)
    shared: set[cst.CSTNode] = field(default_factory=set)
    evaluations: dict[tuple[cst.CSTNode, ...], None] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    mixed: bool = False
    foreign: dict[str, str] = field(default_factory=dict)


def observe(script: Script, goal: Goal) -> Observed:
    """Interpret the file. Raises Refusal if a relevant part of it is unseen, and SourceError.

    Without a scaler, steps in other files are irrelevant to regions.
    """
    interpretation = interpreted(script)
    watch = _Watch(script, interpretation, goal)
    for event in interpretation.events:
        watch(event)
    if goal is Goal.WINDOWS:
        return watch.found
    scales = goal is Goal.SCALER
    watch.found.models |= watch.models
    watch.found.forwards.update(call for call in script.calls if watch.uses_model(call))
    watch.found.forwards.difference_update(call for call in script.calls if watch.sets_up(call))
    watch.found.modules.update(_made_of_modules(script, interpretation.program))
    watch.found.uses += gradient_uses(script, interpretation.calls, scaled=scales)
    watch.found.steps.update(
        (call, call.func.value)
        for call in script.calls
        if isinstance(call.func, cst.Attribute) and scales and watch.is_unseen_step(call)
    )
    watch.found.backwards += [call for call in script.calls if watch.is_seeded(call) or watch.is_unseen_backward(call)]
    if not watch.found.backwards:
        watch.found.backwards += _of_functions_handed_over(script)
    if scales and not watch.found.steps:
        watch.found.steps.update(_only_steps_behind(script, watch.found.backwards))
    idle = [owner for owner in script.of_kind(cst.ClassDef) if _only_steps(script, owner, watch.found)]
    watch.found.steps = {
        step: optimizer
        for step, optimizer in watch.found.steps.items()
        if not any(script.inside(owner, step) for owner in idle)
    }
    if scales:
        unscaled = [step for step in watch.found.steps if _gets_gradients_elsewhere(script, watch.found, step)]
        for step in unscaled if len(unscaled) < len(watch.found.steps) else ():
            del watch.found.steps[step]
    watch.found.uses = [use for use in watch.found.uses if not any(script.inside(owner, use) for owner in idle)]
    watch.found.idle = [use for use in watch.found.uses if _is_unused(script, watch.found, script.function_of(use))]
    watch.found.uses = [use for use in watch.found.uses if use not in watch.found.idle]
    watch.found.losses = {
        call: call.func.value for call in watch.found.backwards if isinstance(call.func, cst.Attribute)
    }
    named = watch.found.forwards - watch.found.shared
    evaluating = (
        call
        for call in script.calls
        if call in named and disables_gradients(script.source, call) and not watch.sets_up(call)
    )
    watch.found.evaluations |= {(call,): None for call in evaluating}
    watch.found.evaluations |= {(call,): None for call in script.calls if call in named and watch.is_beside(call)}
    watch.found.evaluations |= {(call,): None for call in _behind_eval(script, watch.found)}
    for name in script.source.imports:
        target = interpretation.program.resolve(script.source, name)
        if isinstance(target, str) and target.partition(".")[0] not in AT_HOME and not _is_beside(script, target):
            watch.found.foreign[name] = target
    return watch.found


def _of_functions_handed_over(script: Script) -> Iterator[cst.Call]:
    """The backward passes in functions that are passed to another, which nothing else in the file runs."""
    passed = {dotted(argument.value) for call in script.calls for argument in call.args}
    for call in script.calls:
        function, func = script.function_of(call), call.func
        plain = isinstance(func, cst.Attribute) and func.attr.value == "backward" and isinstance(func.value, cst.Name)
        if plain and not call.args and function is not None and function.name.value in passed:
            yield call


def _behind_eval(script: Script, found: Observed) -> Iterator[cst.Call]:
    """The forward passes in functions without a backward pass that set the mode of their model before."""
    modes = [
        one
        for one in script.calls
        if called_name(one) == "eval" and isinstance(one.func, cst.Attribute) and not one.args
    ]
    training = {script.function_of(one) for one in found.backwards}
    for call in (one for one in script.calls if one in found.forwards):
        function, path = script.function_of(call), dotted(call.func)
        if path is not None and function is not None and function not in training:
            own = (one for one in modes if script.function_of(one) is function and script.row(one) < script.row(call))
            if any(isinstance(one.func, cst.Attribute) and dotted(one.func.value) == path for one in own):
                yield call


def _only_steps_behind(script: Script, backwards: Sequence[cst.Call]) -> dict[cst.Call, cst.BaseExpression]:
    """The steps of the only object that is stepped behind each of `backwards`, in the same function.

    By its name it is no scheduler, and where functions step different ones, an optimizer; none for several.
    """
    found, owners = dict[cst.Call, cst.BaseExpression](), set[str]()
    for backward in backwards:
        function, row = script.function_of(backward), script.row(backward)
        steps = {
            call: call.func.value
            for call in script.calls
            if script.function_of(call) is function
            and script.row(call) > row
            and isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "step"
            and not call.args
            and dotted(call.func.value) != "self"
            and not SCHEDULER.search(script.text_of(call.func.value))
        }
        stepped = {script.text_of(owner) for owner in steps.values()}
        if len(stepped) != 1:
            return {}
        found |= steps
        owners |= stepped
    return found if len(owners) == 1 or all(map(OPTIMIZER_NAME.search, owners)) else {}


def _gets_gradients_elsewhere(script: Script, found: Observed, step: cst.Call) -> bool:
    """Whether calls out of sight alone make gradients between a step and the last clearing of its optimizer."""
    owner, function, row = script.text_of(found.steps[step]), script.function_of(step), script.row(step)
    before = [one for one in script.calls if script.function_of(one) is function and script.row(one) < row]
    cleared = [
        one for one in before if called_name(one) == "zero_grad" and script.text_of(one.func) == f"{owner}.zero_grad"
    ]
    between = [one for one in before if cleared and script.row(one) > script.row(cleared[-1])]
    training = found.calls.functions_reaching({*found.backwards})
    known = any(one in found.backwards or found.calls.targets(one) & training for one in between)
    return not known and any(isinstance(script.source.parent(one), cst.Expr) for one in between)


def _is_unused(script: Script, found: Observed, function: cst.FunctionDef | None) -> bool:
    """Whether nothing in the file names a function, in which nothing trains."""
    work = (*found.backwards, *found.steps)
    if function is None or any(script.inside(function, one) for one in work):
        return False
    return found.calls.callers(function) == []


def _is_beside(script: Script, target: str) -> bool:
    """Whether a module, or a package without `__init__.py`, is in the tree around the file."""
    folder = os.path.join(os.path.dirname(script.path), target.partition(".")[0])
    return bool(script.path) and (
        modules().folders.place(script.path, target) is not None or bool(modules().folders.scripts(folder))
    )


def _only_steps(script: Script, owner: cst.ClassDef, found: Observed) -> bool:
    """Whether the steps in a class use gradients of other files: nothing in it differentiates, or uses it here."""
    if any(script.inside(owner, backward) for backward in found.backwards):
        return False
    name = owner.name.value
    names = [node for node in script.of_kind(cst.Name) if isinstance(node, cst.Name) and node.value == name]
    bases = {(dotted(base.value) or "").rpartition(".")[2] for base in owner.bases}
    return all(script.inside(owner, node) for node in names) and bases <= {"object", "Optimizer"}


def is_no_grad_function(function: cst.CSTNode) -> bool:
    """Whether a function is decorated to run with gradients disabled."""
    decorators = function.decorators if isinstance(function, cst.FunctionDef) else ()
    return any(_switches_off(one.decorator) for one in decorators)


def disables_gradients(source: Source, node: cst.CSTNode) -> bool:
    """Whether gradients are disabled at `node`."""
    for above in source.ancestors(node):
        if isinstance(above, cst.With) and any(_switches_off(item.item) for item in above.items):
            return True
        if isinstance(above, cst.FunctionDef):
            return is_no_grad_function(above)
    return False


def is_no_grad_block(statement: cst.CSTNode) -> bool:
    """Whether `statement` is a `with` that disables gradients."""
    return isinstance(statement, cst.With) and any(_switches_off(item.item) for item in statement.items)


def _switches_off(context: cst.BaseExpression) -> bool:
    name = dotted(context.func if isinstance(context, cst.Call) else context) or ""
    return name.rpartition(".")[2] in ("no_grad", "inference_mode")


class _Watch:
    def __init__(self, script: Script, interpretation: Interpretation, goal: Goal) -> None:
        self._script = script
        self._program = interpretation.program
        self._goal = goal
        self.source = script.source
        self.found = Observed(interpretation.calls)

    def __call__(self, event: Event) -> None:
        """Record an event."""
        windows = self._goal is Goal.WINDOWS
        if isinstance(event, ManagedBackward):
            asks = (
                "runs the backward pass; ask it to accumulate gradients"
                if windows
                else "scales the loss itself; ask it for mixed precision"
            )
            raise Refusal(self._here(event), f"{TITLES.get(event.manager.kind, 'the framework')} {asks}")
        if isinstance(event, Backward):
            self._backward(event)
        elif isinstance(event, OptimizerStep) or (isinstance(event, ScalerStep) and windows):
            self._step(event)
        elif windows:
            self._follow_window(event)
        elif isinstance(event, Forward):
            self._forward(event)
        elif not isinstance(event, (Accumulation, ScalerUpdate)):
            self.found.mixed |= not (isinstance(event, AutocastCreated) and self._evaluates_elsewhere(event.node))

    def _follow_window(self, event: Event) -> None:
        if isinstance(event, Accumulation):
            self.found.windows.add(event.loop)
        elif isinstance(event, ScalerUpdate):
            self.found.updates += [event.node] if self._here(event) is event.node else []

    def _here(self, event: Event) -> cst.CSTNode:
        """The node of the script that reaches `event`, which may be in another file."""
        if self.source.owns(event.node):
            return event.node
        return event.entered_from or self.source.chunks[0].module

    def _backward(self, event: Backward) -> None:
        if not self.source.owns(event.node):
            raise Refusal(self._here(event), "a loss is differentiated in another file")
        if not isinstance(event.node, cst.Call):
            raise Refusal(event.node, "this backward pass is not a plain call")
        self.found.backwards += [event.node] if event.node not in self.found.backwards else []

    def _step(self, event: OptimizerStep | ScalerStep) -> None:
        if not self.source.owns(event.node):
            if self._goal is Goal.REGIONS:
                return
            raise Refusal(self._here(event), "an optimizer steps in another file")
        given = (
            [one for one in event.call.args if dotted(one.value) != "None"] if isinstance(event, OptimizerStep) else []
        )
        chooses = len(given) == 1 and isinstance(given[0].value, (cst.SimpleString, cst.Integer))
        if chooses and self._goal is not Goal.REGIONS:
            raise Refusal(event.node, "the optimizer is stepped with a key, as no optimizer of PyTorch is")
        if not chooses and (event.closure or given):
            scales = self._goal is Goal.SCALER
            why = "a gradient scaler cannot step" if scales else "makes and uses gradients in one call"
            raise Refusal(event.node, f"the optimizer runs a closure, which {why}")
        if isinstance(event.node, cst.Call):
            self.found.steps[event.node] = event.optimizer_node

    @functools.cached_property
    def models(self) -> set[str]:
        """The expressions that the file uses as models, and attributes that base classes in other files use so."""
        own = {path for chunk in self.source.chunks for path, kind in kinds(chunk.module).items() if kind == MODEL}
        inherited = {path for base in self._bases() for path, kind in kinds(base.module).items() if kind == MODEL}
        return own | {path for path in inherited if path.startswith("self.")}

    def _bases(self) -> list[Chunk]:
        """The classes of other files that classes of this file derive from."""
        waiting, found = [chunk for chunk in self.source.chunks if chunk.is_class], list[Chunk]()
        while waiting:
            one = waiting.pop()
            classes = every(one.module, cst.ClassDef)
            names = [dotted(base.value) for owner in classes for base in owner.bases]
            targets = [self._program.resolve(one.source, name) for name in names if name is not None]
            new = [base for base in targets if isinstance(base, Chunk) and base.is_class and base not in found]
            found += [base for base in new if base.source is not self.source]
            waiting += [base for base in new if base.source is not self.source]
        return found

    @functools.cached_property
    def _keys(self) -> dict[str, set[str]]:
        """Collection -> the keys under which its elements are models."""
        found = dict[str, set[str]]()
        for path, key in _elements_that_are_models(self._script):
            found.setdefault(path, set()).add(key)
        return found

    @functools.cached_property
    def _optimizers(self) -> set[str]:
        named = {
            path for chunk in self.source.chunks for path, kind in kinds(chunk.module).items() if kind in OPTIMIZERS
        }
        chosen = (one for one in self._script.of_kind(cst.Assign) if self._makes_optimizer(one.value))
        grouped = (one.value for one in self._script.of_kind(cst.Attribute) if one.attr.value == "param_groups")
        named |= {path for one in grouped if (path := dotted(one)) is not None}
        return named.union(*(bound_paths(one, whole=True) for one in chosen))

    def _makes_optimizer(self, value: cst.BaseExpression) -> bool:
        """Whether `value` constructs an optimizer of PyTorch."""
        owner, _, name = (dotted(value.func) or "" if isinstance(value, cst.Call) else "").rpartition(".")
        one = self.source.imports.get((owner or name).partition(".")[0])
        made = (owner or one.module) if one is not None and one.module.startswith("torch") else ""
        return (made.endswith("optim") and name[:1].isupper()) or _chooses_optimizer(value)

    @functools.cached_property
    def _methods(self) -> dict[str, list[cst.FunctionDef]]:
        """Name of a method -> its definitions in the file."""
        return _methods_of(self._script.source.chunks)

    @functools.cached_property
    def _methods_elsewhere(self) -> dict[str, list[cst.FunctionDef]]:
        return _methods_of(one for source in self._program.sources for one in source.chunks)

    def _evaluates_elsewhere(self, node: cst.CSTNode) -> bool:
        """Whether `node` stands in another file, with gradients disabled."""
        home = self._program.source_of(node)
        return home is not None and home is not self.source and disables_gradients(home, node)

    def _forward(self, event: Forward) -> None:
        if isinstance(event.node, cst.Call) and not event.node.args and not self._is_model(event.node.func):
            return  # constants, as of a noise schedule
        calls = tuple(call for _, call in event.way if self.source.owns(call) and not self._makes_model(call))
        if event.gradients is not False:
            self.found.forwards.update(calls)
        if event.purpose is not Purpose.EVALUATION:
            self.found.shared.update(calls if event.gradients is not False else ())
        elif event.autocast is Recipe.OFF and calls and self.source.owns(event.node):
            self.found.evaluations[calls] = None

    def _makes_model(self, call: cst.CSTNode) -> bool:
        """Whether `call` constructs an object that the file uses as a model."""
        above = next((one for one in self.source.ancestors(call) if not isinstance(one, cst.BaseExpression)), None)
        while isinstance(above, cst.Arg):
            above = next((one for one in self.source.ancestors(above) if not isinstance(one, cst.BaseExpression)), None)
        return isinstance(above, cst.Assign) and bool(self.models & bound_paths(above, whole=True))

    def is_beside(self, call: cst.Call) -> bool:
        """Whether a forward pass of the same model for evaluation stands in the same function as `call`."""
        function, text = self._script.function_of(call), dotted(call.func)
        return text is not None and any(
            isinstance(other, cst.Call) and dotted(other.func) == text and self._script.function_of(other) is function
            for way in self.found.evaluations
            for other in way[-1:]
        )

    def is_unseen_step(self, call: cst.Call) -> bool:
        """Whether `call` is an optimizer step that interpretation did not reach, such as behind a constant."""
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "step" or call.args or call in self.found.steps:
            return False
        path = dotted(func.value)
        bound = (one for one in self._script.of_kind(cst.Assign) if path is not None)
        values = [func.value, *(value for one in bound for value in given_to(one, path or ""))]
        held = [dotted(one.value) or "" for one in values if isinstance(one, cst.Subscript)]
        if any(SPEAKS_OF_OPTIMIZER.search(one.rpartition(".")[2]) and not SCHEDULER.search(one) for one in held):
            return True
        return dotted(func.value) in self._optimizers

    def is_unseen_backward(self, call: cst.Call) -> bool:
        """Whether `call` is a backward pass behind a constant, in a function with one that interpretation reached."""
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "backward" or call in self.found.backwards:
            return False
        plain = isinstance(func.value, cst.Name) and all(one.keyword is not None for one in call.args)
        function = self._script.function_of(call)
        return plain and any(self._script.function_of(one) is function for one in self.found.backwards)

    def is_seeded(self, call: cst.Call) -> bool:
        """Whether `call` is a backward pass from a given gradient, which emits no event."""
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "backward" or len(call.args) != 1:
            return False
        seed, owner = call.args[0], dotted(func.value)
        known = owner is None or owner in ("self", "ctx", "torch.autograd", "autograd") or self._is_model(func.value)
        return not known and not seed.star and (seed.keyword is None or seed.keyword.value == "gradient")

    def sets_up(self, call: cst.Call) -> bool:
        """Whether `call` is `forward()` of nothing, of an object that is used as no model: it makes constants."""
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "forward" or call.args:
            return False
        return not self._is_model(func.value)

    def uses_model(self, call: cst.Call) -> bool:
        """Whether `call` runs a model, by its name."""
        if self._is_model(call.func):
            above = self.source.parent(call)
            return not (isinstance(above, cst.Assign) and dotted(call.func) in bound_paths(above, whole=True))
        owner, method = (call.func.value, call.func.attr.value) if isinstance(call.func, cst.Attribute) else (None, "")
        if called_name(call) == "data_parallel" and call.args:
            return self._is_model(call.args[0].value)
        if method == "forward" and owner is not None:
            return dotted(owner) not in (None, "self") and called_name(owner) != "super"
        about = ABOUT_MODELS.search(method) and not SPEAKS_OF_LOSS.search(method)
        about = about or (not call.args and method.startswith(("is_", "has_")))
        if owner is None or about or method[:1].isupper():
            return False
        if not self._is_model(owner):
            return self._runs_part(dotted(owner), method)
        written = self._methods.get(method)
        if written:
            return dotted(owner) != "self" and any(map(_computes, written))
        plain = [not any(every(one.body, cst.Call)) for one in self._methods_elsewhere.get(method, ())]
        return not isinstance(self.source.parent(call), cst.Expr) and not (plain and all(plain))

    def _runs_part(self, owner: str | None, method: str) -> bool:
        """Whether `method`, of an object of another file, calls one of the models that the file knows in `owner`."""
        ways = (path.rpartition(".") for path in self.models)
        parts = {f"self.{last}" for holder, _, last in ways if holder == owner != "self"}
        written = self._methods_elsewhere.get(method, ()) if parts else ()
        return any(dotted(call.func) in parts for one in written for call in every(one, cst.Call))

    def _is_model(self, node: cst.BaseExpression) -> bool:
        """Whether `node` names a model, or an element of a collection whose elements under that key are models."""
        path = (dotted(_collection(node)) or "").removesuffix(".module")
        if path in self.models or not isinstance(node, cst.Subscript):
            return path in self.models
        keys = self._keys.get(path, set())
        return not keys.isdisjoint((_key(node), "")) or (bool(keys) and not _key(node))


def _methods_of(chunks: Iterable[Chunk]) -> dict[str, list[cst.FunctionDef]]:
    found: dict[str, list[cst.FunctionDef]] = {}
    for chunk in chunks:
        for function in every(chunk.module, cst.FunctionDef) if chunk.is_class else ():
            found.setdefault(function.name.value, []).append(function)
    return found


def _chooses_optimizer(value: cst.BaseExpression) -> bool:
    """Whether `value` constructs a class of `torch.optim` by its name: `torch.optim.__dict__[name](...)`."""
    if not isinstance(value, cst.Call):
        return False
    func = value.func
    if isinstance(func, cst.Subscript):
        return (dotted(func.value) or "").endswith("optim.__dict__")
    given = func.args[:1] if isinstance(func, cst.Call) and called_name(func) == "getattr" else ()
    return any((dotted(one.value) or "").rpartition(".")[2] == "optim" for one in given)


def _computes(method: cst.FunctionDef) -> bool:
    """Whether a method of a model runs layers or operations of PyTorch, and not only accesses parameters."""
    for node in walk(method.body):
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
            return True
        if isinstance(node, cst.Call) and node.args:
            owner, _, last = (dotted(_collection(node.func)) or "").rpartition(".")
            changes = last.endswith("_") or ABOUT_MODELS.search(last)
            if owner.partition(".")[0] in ("self", "torch", "F") and not changes:
                return True
    return False


def _made_of_modules(script: Script, program: Program) -> Iterator[str]:
    """The variables and attributes to which the file assigns an instance of a class with a forward pass."""
    for assign in script.of_kind(cst.Assign):
        value = assign.value
        name = dotted(value.func) if isinstance(value, cst.Call) else None
        target = program.resolve(script.source, name) if name is not None else None
        if isinstance(target, Chunk) and target.is_class and "def forward(" in target.text:
            yield from bound_paths(assign, whole=True)


def _elements_that_are_models(script: Script) -> Iterator[tuple[str, str]]:
    """Collections and the keys of models in them: `nets`, `"encoder"` for `nets["encoder"].parameters()`."""
    for call in script.calls:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("parameters", "train", "eval"):
            owner = call.func.value
            path = dotted(_collection(owner)) if isinstance(owner, cst.Subscript) else None
            if path is not None and isinstance(owner, cst.Subscript):
                yield path, _key(owner)


def _key(node: cst.Subscript) -> str:
    """The literal string key of an element; empty for all else."""
    index = node.slice[0].slice
    return index.value.value if isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString) else ""


def _collection(node: cst.BaseExpression) -> cst.BaseExpression:
    while isinstance(node, cst.Subscript):
        node = node.value
    return node


def framework(text: str) -> tuple[int, str] | None:
    """Row and name of an import of a framework with its own mixed precision."""
    imports = _FRAMEWORKS.finditer(text)
    found = next((one for one in imports if one.group(1) not in _SCALING or _SCALING[one.group(1)].search(text)), None)
    return (text.count("\n", 0, found.start(1)) + 1, found.group(1)) if found else None
