"""What a float32 script does, as far as its conversion to mixed precision is concerned."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import field

from amplint.codemods.amp.uses import gradient_uses
from amplint.codemods.calls import Calls
from amplint.codemods.interpretation import Interpretation
from amplint.codemods.refusal import Refusal
from amplint.codemods.script import Script
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
from amplint.semantics.reading.scopes import MODEL, dotted, kinds
from amplint.semantics.words import ABOUT_MODELS
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import walk
from amplint.torchlib.frameworks import TITLES

_KINDS = (
    AutocastCreated, Backward, Forward, ManagedBackward, OptimizerStep, ScalerCreated, ScalerStep,
    Unscale,
)  # fmt: skip
_AT_HOME = sys.stdlib_module_names | {"torch", "torchvision", "torchaudio", "numpy", "tqdm", "timm", ""}
_FRAMEWORKS = re.compile(
    r"^[ \t]*(?:from|import)[ \t]+(accelerate|apex|composer|deepspeed|fastai|ignite|keras|lightning|lightning_fabric"
    r"|mmcv|mmengine|pytorch_lightning|colossalai|torch_xla|tensorflow|jax|flax"
    r"|torch\.distributed\.(?:fsdp|_composable|_?tensor)|fairscale)\b",
    re.MULTILINE,
)


@dataclass
class Observed:
    """The calls that matter, all of them in the file itself.

    `calls` tells which functions they run. `forwards` holds the calls that run a model's forward pass, and those that
    lead to one; training is known to take those in `shared`. `evaluations` tells how evaluation comes to its forward
    passes. `steps` maps each `optimizer.step()` to the expression of the optimizer, `uses` is where gradients are
    clipped, measured or changed, `mixed` tells that there is mixed precision already, and `foreign` are names imported
    from libraries that are not PyTorch's, with what they stand for.
    """

    calls: Calls
    backwards: list[cst.Call] = field(default_factory=list)
    steps: dict[cst.Call, cst.BaseExpression] = field(default_factory=dict)
    uses: list[cst.CSTNode] = field(default_factory=list)
    forwards: set[cst.CSTNode] = field(default_factory=set)
    shared: set[cst.CSTNode] = field(default_factory=set)
    evaluations: dict[tuple[cst.CSTNode, ...], None] = field(default_factory=dict)
    mixed: bool = False
    foreign: dict[str, str] = field(default_factory=dict)


def observe(script: Script, *, scales: bool) -> Observed:
    """Follow what the file does; where nothing `scales` losses, it does not matter who steps.

    Raises Refusal where part of it is out of reach, and SourceError.
    """
    interpretation = Interpretation(script)
    watch = _Watch(script, interpretation, scales)
    interpretation.follow(watch, *_KINDS)
    watch.found.uses += gradient_uses(script, interpretation.calls, scaled=scales)
    named = watch.found.forwards - watch.found.shared
    evaluating = (call for call in script.calls if call in named and _only_looks(script.source, call))
    watch.found.evaluations |= {(call,): None for call in evaluating}
    for name in script.source.imports:
        target = interpretation.program.resolve(script.source, name)
        if isinstance(target, str) and target.partition(".")[0] not in _AT_HOME:
            watch.found.foreign[name] = target
    return watch.found


def records_nothing(function: cst.CSTNode) -> bool:
    """Whether a function is decorated so that what it runs is not recorded for gradients."""
    decorators = function.decorators if isinstance(function, cst.FunctionDef) else ()
    return any(_switches_off(one.decorator) for one in decorators)


def _only_looks(source: Source, node: cst.CSTNode) -> bool:
    """Whether nothing is recorded for gradients where `node` stands."""
    for above in source.ancestors(node):
        if isinstance(above, cst.With) and any(_switches_off(item.item) for item in above.items):
            return True
        if isinstance(above, cst.FunctionDef):
            return records_nothing(above)
    return False


def _switches_off(context: cst.BaseExpression) -> bool:
    name = dotted(context.func if isinstance(context, cst.Call) else context) or ""
    return name.rpartition(".")[2] in ("no_grad", "inference_mode")


class _Watch:
    def __init__(self, script: Script, interpretation: Interpretation, scales: bool) -> None:
        self.source = source = script.source
        self._program = interpretation.program
        self.scales = scales
        self.found = Observed(interpretation.calls)
        self._models = {path for chunk in source.chunks for path, kind in kinds(chunk.module).items() if kind == MODEL}
        self._models.update(_collections_of_models(script))
        self._methods: dict[str, list[cst.FunctionDef]] = {}
        for function in script.functions.values():
            if script.method_owner(function) is not None:
                self._methods.setdefault(function.name.value, []).append(function)
        self.found.forwards.update(call for call in script.calls if self._uses_model(call))

    def __call__(self, event: Event) -> None:
        """Take note of what happens."""
        if isinstance(event, (AutocastCreated, ScalerCreated, ScalerStep, Unscale)):
            self.found.mixed |= not (isinstance(event, AutocastCreated) and self._evaluates_elsewhere(event.node))
        elif isinstance(event, ManagedBackward):
            why = (
                f"{TITLES.get(event.manager.kind, 'the framework')} scales the loss itself; ask it for mixed precision"
            )
            raise Refusal(self._here(event), why)
        elif isinstance(event, Forward):
            self._forward(event)
        elif isinstance(event, (Backward, OptimizerStep)):
            self._protocol(event)

    def _evaluates_elsewhere(self, node: cst.CSTNode) -> bool:
        """Whether `node` stands in another file, where nothing is recorded for gradients."""
        home = self._program.source_of(node)
        return home is not None and home is not self.source and _only_looks(home, node)

    def _protocol(self, event: Backward | OptimizerStep) -> None:
        if not self.source.owns(event.node):
            if isinstance(event, OptimizerStep) and not self.scales:
                return
            what = "a loss is differentiated" if isinstance(event, Backward) else "an optimizer steps"
            raise Refusal(self._here(event), f"{what} in another file")
        if isinstance(event, OptimizerStep):
            if event.closure or event.call.args:
                raise Refusal(event.node, "the optimizer runs a closure, which a gradient scaler cannot step")
            self.found.steps[event.call] = event.optimizer_node
        elif not isinstance(event.node, cst.Call):
            raise Refusal(event.node, "this backward pass is not a plain call")
        elif event.node not in self.found.backwards:
            self.found.backwards.append(event.node)

    def _forward(self, event: Forward) -> None:
        calls = tuple(call for _, call in event.way if self.source.owns(call))
        if event.gradients is not False:
            self.found.forwards.update(calls)
        if event.purpose is not Purpose.EVALUATION:
            self.found.shared.update(calls if event.gradients is not False else ())
        elif event.autocast is Recipe.OFF and calls and self.source.owns(event.node):
            self.found.evaluations[calls] = None

    def _uses_model(self, call: cst.Call) -> bool:
        path = dotted(_collection(call.func)) or ""
        owner, _, method = path.rpartition(".")
        if path in self._models or owner not in self._models or ABOUT_MODELS.search(method):
            return path in self._models
        written = self._methods.get(method)
        return any(map(_computes, written)) if written else not isinstance(self.source.parent(call), cst.Expr)

    def _here(self, event: Event) -> cst.CSTNode:
        if self.source.owns(event.node):
            return event.node
        return event.entered_from or self.source.chunks[0].module


def _computes(method: cst.FunctionDef) -> bool:
    """Whether a method of a model runs layers, or operations of PyTorch, and not only changes or counts parameters."""
    for node in walk(method.body):
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
            return True
        if isinstance(node, cst.Call) and node.args:
            owner, _, last = (dotted(_collection(node.func)) or "").rpartition(".")
            changes = last.endswith("_") or ABOUT_MODELS.search(last)
            if owner.partition(".")[0] in ("self", "torch", "F") and not changes:
                return True
    return False


def _collections_of_models(script: Script) -> Iterator[str]:
    """The variables and attributes whose elements are used as models: `nets` for `nets["encoder"].parameters()`."""
    for call in script.calls:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("parameters", "train", "eval"):
            owner = call.func.value
            path = dotted(_collection(owner)) if isinstance(owner, cst.Subscript) else None
            if path is not None:
                yield path


def _collection(node: cst.BaseExpression) -> cst.BaseExpression:
    while isinstance(node, cst.Subscript):
        node = node.value
    return node


def framework(text: str) -> tuple[int, str] | None:
    """Row and name of an import of a framework that brings mixed precision of its own."""
    found = _FRAMEWORKS.search(text)
    return (text.count("\n", 0, found.start(1)) + 1, found.group(1)) if found else None
