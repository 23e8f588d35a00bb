"""Conversion of binary cross-entropy from probabilities to logits, with the sigmoid removed from the model.

Autocast refuses the former. For every other use of the model's output the sigmoid is applied there, in float32: half
has no numbers between 0.9995 and 1.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

from amplint.codemods.conversion import Change, Remark
from amplint.codemods.editing import edited, without
from amplint.codemods.rows import changed_edits, row_after, tidied
from amplint.edits.repairs import HOME, WITH_LOGITS
from amplint.findings import Applicability, Edit, Fix
from amplint.source import syntax as cst
from amplint.source.tree import every
from amplint.torchlib.catalogue import operations_with
from amplint.training import names
from amplint.training.bindings import paths
from amplint.training.calls import Calls
from amplint.training.definitions import Given
from amplint.training.interpretation import interpreted
from amplint.training.models import Models, Unclear
from amplint.training.script import Script, parsed
from amplint.training.surroundings import conversion_scope
from amplint.training.variables import Held, Variables

_SIGMOIDS = ("torch.sigmoid", "torch.nn.functional.sigmoid", "torch.special.expit")
_CLASS = "torch.nn.BCELoss"
_SUCCESSORS = {f"{HOME[name]}.{name}": better for name, better in WITH_LOGITS.items()}
_SHAPING = operations_with("reshapes") | {"contiguous", "to", "cuda", "t"}
_ABOUT_SHAPE = frozenset({"size", "shape", "dim", "numel", "device", "ndim"})
_THE_TENSOR_ITSELF = frozenset({"grad", "grad_fn", "retain_grad", "register_hook", "backward"})

Part = tuple[cst.FunctionDef, int | None]
"""A function and the position in the tuple it returns, None for the whole result."""


def to_logits(script: Script, calls: Calls) -> Change | None:
    """The change that computes every binary cross-entropy from logits; None if there is none, or it is not certain."""
    if "BCELoss" not in script.words and "binary_cross_entropy" not in script.words:
        return None
    try:
        moved = _Logits(script, calls)
        new = tidied(script.text, edited(script, moved.edits()).text)
    except Unclear:
        return None
    rows = sorted(script.row(use.node) for use in moved.losses)
    done = tuple(Remark(row, "compute binary cross-entropy of logits") for row in rows)
    edits = changed_edits(script.text, new)
    fix = Fix("Compute binary cross-entropy of logits", edits, imports=("import torch",))
    return Change(fix, done, tuple(_for_others(script, new, moved))) if done else None


@functools.lru_cache(maxsize=4)
def fix(text: str, path: str) -> Fix | None:
    """`to_logits` as the fix of a finding, safe where no other file has to know of logits."""
    with conversion_scope(path, None):
        script = parsed(text, path)
        change = to_logits(script, interpreted(script).calls)
    if change is None:
        return None
    safe = not change.left
    return replace(change.fix, applicability=Applicability.SAFE if safe else Applicability.UNSAFE)


def _for_others(script: Script, new: str, moved: _Logits) -> Iterator[Remark]:
    """Remarks for files that import this one; a script with a main block is assumed to have none."""
    if "__main__" in script.text or moved.at_top:
        return
    for function in moved.functions:
        owner = script.method_owner(function)
        name = f"{owner.name.value}.{function.name.value}" if owner is not None else function.name.value
        row = row_after(script.text, new, script.row(function))
        yield Remark(row, f"{name}() returns logits now; what other files do with them has to apply torch.sigmoid()")


class _Logits:
    """Follows the arguments of losses back to sigmoids, then every value on the way forward to its other uses."""

    def __init__(self, script: Script, calls: Calls) -> None:
        self._script = script
        self._calls = calls
        self._variables = Variables(script, calls)
        self._names = {use.node: use for use in names.library_uses(script, "torch")}
        self._models = Models(script, calls, self._variables, self._names)
        self.losses: dict[names.Use, list[cst.Call]] = {}
        self._sigmoids: dict[cst.Call, cst.BaseExpression] = {}
        self._layers: dict[cst.Call, None] = {}
        self._held: dict[Held, None] = {}
        self._parts: dict[Part, None] = {}
        self._wrapped: dict[cst.BaseExpression, None] = {}
        self._find_losses()
        self._consumed = list(self._inputs())
        for argument in self._consumed:
            self._follow(Given(argument.value))
        self._follow_on()

    @property
    def functions(self) -> list[cst.FunctionDef]:
        """The functions that now return logits."""
        return list(dict.fromkeys(function for function, _ in self._parts))

    @property
    def at_top(self) -> bool:
        """Whether a loss is computed at the top level, as in a script that is not imported."""
        return any(self._script.function_of(argument) is None for argument in self._consumed)

    def edits(self) -> Iterator[Edit]:
        """The edits of losses, sigmoids and other uses of probabilities."""
        for use in self.losses:
            inner = self._script.text_of(use.node.value) if isinstance(use.node, cst.Attribute) else ""
            prefix = inner or use.name.rpartition(".")[0]
            yield self._script.rewrite.replace(use.node, f"{prefix}.{_SUCCESSORS[use.name]}")
        renamed = dict(self._renamed())
        yield from (
            self._script.rewrite.replace(node, text) for node, text in renamed.items() if node not in self._wrapped
        )
        for call, operand in self._sigmoids.items():
            yield self._without_sigmoid(call, operand)
        for layer in self._layers:
            yield from self._without_layer(layer)
        for holder in self._models.idle(self._sigmoids):
            yield self._removed(holder)
        for node in self._wrapped:
            probabilities = f"torch.sigmoid({renamed.get(node) or self._script.text_of(node)}.float())"
            yield self._script.rewrite.replace(node, probabilities)

    # Backwards from the losses.

    def _find_losses(self) -> None:
        """Find the losses that are called, with these calls."""
        every = [use for use in self._names.values() if use.name in _SUCCESSORS]
        made = [use.call for use in every if use.name == _CLASS and use.call is not None]
        for use in every:
            if use.call is None:
                raise Unclear
            calls = list(self._models.calls_of_loss(use.call, made)) if use.name == _CLASS else [use.call]
            if calls:
                self.losses[use] = calls

    def _inputs(self) -> Iterator[cst.Arg]:
        """The arguments of losses that are probabilities."""
        for call in (call for calls in self.losses.values() for call in calls):
            found = self._script.rewrite.find_argument(call, "input", 0)
            if found is None:
                raise Unclear
            yield found

    def _follow(self, given: Given) -> None:
        """Follow `given` back to the sigmoids that it comes from. Raises Unclear."""
        value, index = given.value, given.index
        if isinstance(value, (cst.Name, cst.Attribute)):
            held = self._variables.held(value)
            if held is None or index is not None:
                raise Unclear
            self._follow_held(held)
        elif isinstance(value, cst.Tuple) and index is not None and index < len(value.elements):
            self._follow(Given(value.elements[index].value))
        elif isinstance(value, cst.Call):
            self._follow_call(value, index)
        else:
            raise Unclear

    def _follow_held(self, held: Held) -> None:
        if held in self._held:
            return
        self._held[held] = None
        values = self._variables.assigned_values(held)
        if not values:
            raise Unclear
        for given in values:
            self._follow(given)

    def _follow_call(self, call: cst.Call, index: int | None) -> None:
        func = call.func
        operand = self._operand(call)
        if operand is not None and index is None:
            self._sigmoids[call] = operand
            return
        if isinstance(func, cst.Attribute) and func.attr.value in _SHAPING and index is None:
            self._follow(Given(func.value))
            return
        layers = self._models.last_layers(call)
        if layers is not None and index is None:
            if not all(self._is_named(layer.func, "torch.nn.Sigmoid") and not layer.args for layer in layers):
                raise Unclear
            self._layers.update(dict.fromkeys(layers))
            return
        forward = self._models.forward_of(call)
        targets = {forward} if forward is not None else self._calls.targets(call)
        if len(targets) != 1:
            raise Unclear
        (function,) = targets
        if not isinstance(function, cst.FunctionDef) or not self._script.source.owns(function):
            raise Unclear
        self._follow_function(function, index)

    def _follow_function(self, function: cst.FunctionDef, index: int | None) -> None:
        if (function, index) in self._parts:
            return
        self._parts[function, index] = None
        returns = self._script.returns(function)
        if not returns or function.asynchronous is not None or function.decorators:
            raise Unclear
        for one in returns:
            if one.value is None:
                raise Unclear
            self._follow(Given(one.value, index))

    def _operand(self, call: cst.Call) -> cst.BaseExpression | None:
        """The operand of a sigmoid; None for other calls."""
        func = call.func
        if any(self._is_named(func, name) for name in _SIGMOIDS) or self._models.is_layer(func, "torch.nn.Sigmoid"):
            return call.args[0].value if len(call.args) == 1 and not call.args[0].star else None
        if isinstance(func, cst.Attribute) and func.attr.value == "sigmoid" and not call.args:
            return func.value
        return None

    def _is_named(self, node: cst.BaseExpression, name: str) -> bool:
        return node in self._names and self._names[node].name == name

    # Forwards to the other uses.

    def _follow_on(self) -> None:
        """Insert the sigmoid at other uses of the followed values. Raises Unclear."""
        for layer in self._layers:
            for call in self._models.calls_of_last(layer):
                self._follow_use(call, None)
        held: set[Held] = set()
        parts: set[Part] = set()
        while held != self._held.keys() or parts != self._parts.keys():
            for one in self._held.keys() - held:
                held.add(one)
                for node in self._variables.reached_reads(one):
                    if self._variables.held(node) != one:
                        self._follow_held(Held(one.variable))
                    self._follow_use(node, None)
            for function, index in self._parts.keys() - parts:
                parts.add((function, index))
                for call in self._models.calls_of_function(function):
                    self._follow_use(call, index)

    def _follow_use(self, start: cst.BaseExpression, index: int | None) -> None:
        node: cst.CSTNode = start
        above = self._script.source.parent(node)
        while isinstance(above, cst.Attribute) and above.value is node and index is None:
            call = self._script.source.parent(above)
            if above.attr.value in _ABOUT_SHAPE:
                return
            if above.attr.value.endswith("_") or above.attr.value in _THE_TENSOR_ITSELF:
                raise Unclear
            if above.attr.value not in _SHAPING or not isinstance(call, cst.Call) or call.func is not above:
                break
            node, above = call, self._script.source.parent(call)
        if not self._stays(node, above, index):
            if index is not None or isinstance(above, cst.Del):
                raise Unclear
            self._wrapped[start] = None

    def _stays(self, node: cst.CSTNode, above: cst.CSTNode | None, index: int | None) -> bool:
        """Whether the value of `node` is used where logits are expected, or bound to a variable that is followed."""
        if isinstance(above, cst.Arg):
            return index is None and (above in self._consumed or self._is_parameter(above))
        if isinstance(above, cst.Assign) and above.value is node:
            return self._is_assigned(above, index)
        within: int | None = index
        if isinstance(above, cst.Element) and index is None:
            display = self._script.source.parent(above)
            if not isinstance(display, cst.Tuple):
                return False
            within = next(place for place, element in enumerate(display.elements) if element is above)
            above = self._script.source.parent(display)
            if isinstance(above, cst.Assign):
                raise Unclear
        if isinstance(above, cst.Return):
            function = self._script.function_of(above)
            return function is not None and (function, within) in self._parts
        return False

    def _is_assigned(self, assign: cst.Assign, index: int | None) -> bool:
        targets = [one.target for one in assign.targets]
        if len(targets) != 1:
            raise Unclear
        target: cst.BaseExpression = targets[0]
        if index is not None:
            if not isinstance(target, (cst.Tuple, cst.List)) or index >= len(target.elements):
                raise Unclear
            target = target.elements[index].value
            if any(isinstance(element, cst.StarredElement) for element in targets[0].elements):  # type: ignore[attr-defined]
                raise Unclear
        variable = self._variables.of(target)
        if variable is None:
            raise Unclear
        held = self._variables.value_after(variable, assign)
        if index is not None:
            self._follow_held(held)
        return held in self._held or Held(variable) in self._held

    def _is_parameter(self, argument: cst.Arg) -> bool:
        """Whether an argument is passed for a parameter that is followed."""
        call = self._script.source.parent(argument)
        for function in self._calls.targets(call) if isinstance(call, cst.Call) else ():
            for held in self._held:
                given = self._variables.assigned_values(held) if held.variable.home is function else None
                if any(one.value is argument.value for one in given or ()):
                    return True
        return False

    # Edits.

    def _renamed(self) -> Iterator[tuple[cst.BaseExpression, str]]:
        """The reads of variables that would only be another name of the logits, each with that of the logits."""
        for call, operand in self._sigmoids.items():
            target = self._alias(call, operand)
            variable = self._models.variable(target) if target is not None else None
            for node in self._variables.reads(variable) if variable is not None else ():
                yield node, self._script.text_of(operand)

    def _alias(self, call: cst.Call, operand: cst.BaseExpression) -> cst.Name | None:
        """The local variable that only the sigmoid of the variable `operand` is assigned to, before that changes."""
        above, function = self._script.source.parent(call), self._script.function_of(call)
        target = above.targets[0].target if isinstance(above, cst.Assign) and len(above.targets) == 1 else None
        if not isinstance(target, cst.Name) or not isinstance(operand, cst.Name) or function is None:
            return None
        names, row = {target.value, operand.value}, self._script.row(call)
        shared = {name.value for one in every(function, cst.Global, cst.Nonlocal) for name in every(one, cst.Name)}
        if len(names) == 1 or names & shared:
            return None
        changed = [one for one in every(function, cst.AugAssign, cst.Del) if paths(one) & names]
        later = [one for one in self._script.assignments(function, operand.value) if self._script.row(one) > row]
        once = len(self._script.assignments(function, target.value)) == 1
        return target if once and not changed and not later else None

    def _without_sigmoid(self, call: cst.Call, operand: cst.BaseExpression) -> Edit:
        above = self._script.source.parent(call)
        text = self._script.text_of(operand)
        if above is not None and self._alias(call, operand) is not None:
            return self._removed(above)
        targets = above.targets if isinstance(above, cst.Assign) else ()
        if above is not None and [self._script.text_of(one.target) for one in targets] == [text]:
            return self._removed(above)
        chained = isinstance(above, cst.Attribute) or ("\n" in text and not self._script.rewrite.parentheses(operand))
        return self._script.rewrite.replace(call, self._script.rewrite.operand(operand) if chained else text)

    def _without_layer(self, layer: cst.Call) -> Iterator[Edit]:
        argument = self._script.source.parent(layer)
        container = self._script.source.parent(argument) if argument is not None else None
        if not isinstance(container, cst.Call):
            raise Unclear
        spans = [self._script.source.span(one) for one in container.args]
        yield from without(self._script, spans, [len(spans) - 1])

    def _removed(self, node: cst.CSTNode) -> Edit:
        edit = self._script.rewrite.remove_statement(node)
        if edit is None:
            raise Unclear
        return edit
