"""Events of a training script: forward and backward passes, steps, and uses of gradients."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import field

from amplint.codemods.bindings import bound_paths, called_name
from amplint.codemods.calls import Calls
from amplint.codemods.interpretation import Interpretation
from amplint.codemods.script import Script
from amplint.codemods.surroundings import modules
from amplint.codemods.training.gradients import gradient_uses
from amplint.records import dataclass
from amplint.semantics.events import (
    AutocastCreated,
    Backward,
    Event,
    Forward,
    ManagedBackward,
    OptimizerStep,
    Purpose,
    Recipe,
    ScalerCreated,
    ScalerStep,
    Unscale,
)
from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import MODEL, OPTIMIZERS, dotted, kinds
from amplint.semantics.words import ABOUT_MODELS
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import walk

_KINDS = (
    AutocastCreated, Backward, Forward, ManagedBackward, OptimizerStep, ScalerCreated, ScalerStep,
    Unscale,
)  # fmt: skip
AT_HOME = sys.stdlib_module_names | {"torch", "torchvision", "torchaudio", "numpy", "tqdm", "timm", ""}
_FRAMEWORKS = re.compile(
    r"^[ \t]*(?:from|import)[ \t]+(accelerate|apex|composer|deepspeed|fastai|ignite|keras|lightning|lightning_fabric"
    r"|mmcv|mmengine|pytorch_lightning|colossalai|torch_xla"
    r"|torch\.distributed\.(?:fsdp|_composable|_?tensor)|fairscale)\b",
    re.MULTILINE,
)


@dataclass
class Observed:
    """The relevant calls of the file.

    `calls` maps them to the functions they run. `forwards` holds the calls that run a forward pass, directly or through
    a callee; training runs those in `shared`. `evaluations` are the call chains of evaluation to its forward passes.
    `losses` maps backward passes to the unscaled loss, and `steps` each `optimizer.step()` to the expression of the
    optimizer; `uses` are the clipping, measuring and updates of gradients, and `idle` those in functions that nothing
    in the file names. `modules` are the names of objects with a forward pass, `models` the expressions used as models,
    `mixed` is whether the file uses mixed precision already, and `foreign` maps names imported from libraries other
    than PyTorch to their qualified names.
    """

    calls: Calls
    backwards: list[cst.Call] = field(default_factory=list)
    losses: dict[cst.Call, cst.BaseExpression] = field(default_factory=dict)
    steps: dict[cst.Call, cst.BaseExpression] = field(default_factory=dict)
    uses: list[cst.CSTNode] = field(default_factory=list)
    idle: list[cst.CSTNode] = field(default_factory=list)
    forwards: set[cst.CSTNode] = field(default_factory=set)
    shared: set[cst.CSTNode] = field(default_factory=set)
    evaluations: dict[tuple[cst.CSTNode, ...], None] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    mixed: bool = False
    foreign: dict[str, str] = field(default_factory=dict)


def observe(script: Script, *, scales: bool) -> Observed:
    """Interpret the file; unless it `scales` losses, the callers of steps do not matter.

    Raises Refusal if part of it is unseen, and SourceError.
    """
    interpretation = Interpretation(script)
    watch = _Watch(script, interpretation, scales)
    watch.found.modules.update(_made_of_modules(script, interpretation.program))
    interpretation.follow(watch, *_KINDS)
    watch.found.uses += gradient_uses(script, interpretation.calls, scaled=scales)
    watch.found.steps.update(
        (call, call.func.value)
        for call in script.calls
        if isinstance(call.func, cst.Attribute) and scales and watch.is_unseen_step(call)
    )
    watch.found.backwards += (call for call in script.calls if watch.is_seeded(call))
    idle = [owner for owner in script.of_kind(cst.ClassDef) if _only_steps(script, owner, watch.found)]
    watch.found.steps = {
        step: optimizer
        for step, optimizer in watch.found.steps.items()
        if not any(script.inside(owner, step) for owner in idle)
    }
    watch.found.uses = [use for use in watch.found.uses if not any(script.inside(owner, use) for owner in idle)]
    watch.found.idle = [use for use in watch.found.uses if _is_unused(script, watch.found, script.function_of(use))]
    watch.found.uses = [use for use in watch.found.uses if use not in watch.found.idle]
    watch.found.losses = {
        call: call.func.value for call in watch.found.backwards if isinstance(call.func, cst.Attribute)
    }
    named = watch.found.forwards - watch.found.shared
    evaluating = (call for call in script.calls if call in named and disables_gradients(script.source, call))
    watch.found.evaluations |= {(call,): None for call in evaluating}
    watch.found.evaluations |= {(call,): None for call in script.calls if call in named and watch.is_beside(call)}
    for name in script.source.imports:
        target = interpretation.program.resolve(script.source, name)
        if isinstance(target, str) and target.partition(".")[0] not in AT_HOME and not _is_beside(script, target):
            watch.found.foreign[name] = target
    return watch.found


def _is_unused(script: Script, found: Observed, function: cst.FunctionDef | None) -> bool:
    """Whether nothing in the file names a function, in which nothing trains."""
    work = (*found.backwards, *found.steps)
    if function is None or any(script.inside(function, one) for one in work):
        return False
    return found.calls.callers(function) == []


def _is_beside(script: Script, target: str) -> bool:
    """Whether a module, or a package without `__init__.py`, is in the tree around the file."""
    folder = os.path.join(os.path.dirname(script.path), target.partition(".")[0])
    return bool(script.path) and (modules().place(script.path, target) is not None or bool(modules().scripts(folder)))


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
    def __init__(self, script: Script, interpretation: Interpretation, scales: bool) -> None:
        self._script = script
        self._interpretation = interpretation
        self.source = source = script.source
        self._program = interpretation.program
        self.scales = scales
        self.found = Observed(interpretation.calls)
        self._models = {path for chunk in source.chunks for path, kind in kinds(chunk.module).items() if kind == MODEL}
        self.found.models |= self._models
        self._keys = dict[str, set[str]]()
        for path, key in _elements_that_are_models(script):
            self._keys.setdefault(path, set()).add(key)
        self._optimizers = {
            path for chunk in source.chunks for path, kind in kinds(chunk.module).items() if kind in OPTIMIZERS
        }
        self._methods: dict[str, list[cst.FunctionDef]] = {}
        for function in script.functions.values():
            if script.method_owner(function) is not None:
                self._methods.setdefault(function.name.value, []).append(function)
        self.found.forwards.update(call for call in script.calls if self._uses_model(call))

    def __call__(self, event: Event) -> None:
        """Record an event."""
        if isinstance(event, (AutocastCreated, ScalerCreated, ScalerStep, Unscale)):
            self.found.mixed |= not (isinstance(event, AutocastCreated) and self._evaluates_elsewhere(event.node))
        elif isinstance(event, ManagedBackward):
            self._interpretation.refuse_manager(event, "scales the loss itself; ask it for mixed precision")
        elif isinstance(event, Forward):
            self._forward(event)
        elif isinstance(event, Backward):
            call = self._interpretation.backward(event)
            self.found.backwards += [call] if call not in self.found.backwards else []
        elif isinstance(event, OptimizerStep) and (self.scales or self.source.owns(event.node)):
            self._interpretation.check_step(event, "a gradient scaler cannot step")
            self.found.steps[event.call] = event.optimizer_node

    def _evaluates_elsewhere(self, node: cst.CSTNode) -> bool:
        """Whether `node` stands in another file, with gradients disabled."""
        home = self._program.source_of(node)
        return home is not None and home is not self.source and disables_gradients(home, node)

    def _forward(self, event: Forward) -> None:
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
        return isinstance(above, cst.Assign) and bool(self._models & bound_paths(above, whole=True))

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
        return dotted(func.value) in self._optimizers

    def is_seeded(self, call: cst.Call) -> bool:
        """Whether `call` is a backward pass from a given gradient, which emits no event."""
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "backward" or len(call.args) != 1:
            return False
        seed, owner = call.args[0], dotted(func.value)
        known = owner is None or owner in ("self", "ctx", "torch.autograd", "autograd") or self._is_model(func.value)
        return not known and not seed.star and (seed.keyword is None or seed.keyword.value == "gradient")

    def _uses_model(self, call: cst.Call) -> bool:
        if self._is_model(call.func):
            return True
        owner, method = (call.func.value, call.func.attr.value) if isinstance(call.func, cst.Attribute) else (None, "")
        if method == "forward" and owner is not None:
            return dotted(owner) not in (None, "self") and called_name(owner) != "super"
        if owner is None or not self._is_model(owner) or ABOUT_MODELS.search(method) or method[:1].isupper():
            return False
        written = self._methods.get(method)
        return any(map(_computes, written)) if written else not isinstance(self.source.parent(call), cst.Expr)

    def _is_model(self, node: cst.BaseExpression) -> bool:
        """Whether `node` names a model, or an element of a collection whose elements under that key are models."""
        path = dotted(_collection(node)) or ""
        if path in self._models or not isinstance(node, cst.Subscript):
            return path in self._models
        keys = self._keys.get(path, set())
        return not keys.isdisjoint((_key(node), "")) or (bool(keys) and not _key(node))


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
    found = _FRAMEWORKS.search(text)
    return (text.count("\n", 0, found.start(1)) + 1, found.group(1)) if found else None
