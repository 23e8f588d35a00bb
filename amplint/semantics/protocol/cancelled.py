"""Norms of scaled gradients that only divide gradients, as in sharpness-aware training, or are divided by the scale."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.scopes import last_name
from amplint.source import syntax as cst
from amplint.source.tree import every
from amplint.torchlib.policy import words

FINITENESS_TESTS = frozenset({"isnan", "isinf", "isfinite"})
"""Functions and methods whose results are the same with and without a scale."""
_KEEPS = words(
    "norm vector_norm abs pow square sqrt sum mean amax amin stack cat flatten to detach clone item float cpu cuda"
)
"""Functions and methods whose results carry the scale of their argument, or a power of it."""
_BOUNDS = frozenset({"max", "maximum", "clamp", "clamp_min", "add"})
"""Those that do so but for an epsilon."""
_AROUND = (cst.Arg, cst.Attribute, cst.Element, cst.GeneratorExp, cst.Index, cst.List, cst.ListComp, cst.Subscript)
_DEPTH = 4
"""Names and callers through which a norm is followed."""


def cancels(machine: Machine, measured: cst.CSTNode) -> bool:
    """Whether the norm at `measured` is only divided by the scale, divides gradients, or is tested for zero."""
    return _Uses(machine).all_cancel(measured, inverse=False, depth=_DEPTH)


class _Uses:
    """The uses of values that carry the loss scale, or, `inverse`, that have been divided by such a one."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def all_cancel(self, node: cst.CSTNode, inverse: bool, depth: int) -> bool:
        """Whether the scale cancels in whatever the value of `node` is used for."""
        source = self._machine.program.source_of(node)
        if source is None or depth == 0:
            return False
        inner = node
        for above in source.ancestors(node):
            if isinstance(above, cst.BinaryOperation):
                divides = isinstance(above.operator, cst.Divide) and above.right is inner
                verdict = self._cancels_in(above, inner, inverse, divides)
                if verdict is not None:
                    return verdict
                inverse = inverse or divides
            elif isinstance(above, cst.Call):
                name = last_name(above.func)
                if name in FINITENESS_TESTS:
                    return True
                if name not in _KEEPS and (inverse or name not in _BOUNDS):
                    return False
            elif isinstance(above, cst.Comparison):
                compared = (above.left, *(target.comparator for target in above.comparisons))
                return all(_is_zero(one) for one in compared if one is not inner)
            elif isinstance(above, cst.Assign):
                names = [target.target for target in above.targets]
                return all(isinstance(one, cst.Name) and self._loads_cancel(one, inverse, depth - 1) for one in names)
            elif isinstance(above, cst.Return):
                return self._callers_cancel(above, inverse, depth - 1)
            elif not isinstance(above, (*_AROUND, cst.ComparisonTarget)):
                return False
            inner = above
        return False

    def _cancels_in(
        self, operation: cst.BinaryOperation, operand: cst.CSTNode, inverse: bool, divides: bool
    ) -> bool | None:
        """Whether the scale cancels in an operation on `operand`, which it divides or not; None if it is kept."""
        other = operation.left if operation.right is operand else operation.right
        if isinstance(operation.operator, cst.Power):
            return None if operation.left is operand else False
        multiplies = isinstance(operation.operator, cst.Multiply)
        if not multiplies and not isinstance(operation.operator, cst.Divide):
            return None if not inverse and isinstance(operation.operator, cst.Add) else False
        if not inverse and not divides and self._is_of_scale(other, inverse=multiplies):
            return True
        against = divides != inverse or not (multiplies or inverse)
        if against and self._is_of_gradients(other):
            return not self._replaces_gradients(operation)
        return False if divides and inverse else None

    def _replaces_gradients(self, quotient: cst.CSTNode) -> bool:
        """Whether the quotient becomes the gradient, which the scaler divides once more."""
        source = self._machine.program.source_of(quotient)
        for above in source.ancestors(quotient) if source is not None else ():
            if isinstance(above, cst.Assign):
                return any(_mentions_gradient(target.target) for target in above.targets)
            if isinstance(above, cst.Call) and last_name(above.func).endswith("_") and _mentions_gradient(above.func):
                return True
        return False

    def _loads_cancel(self, target: cst.Name, inverse: bool, depth: int) -> bool:
        function = self._function_of(target)
        loads = [one for one in _loads(function, target.value) if one is not target] if function is not None else []
        return bool(loads) and all(self.all_cancel(one, inverse, depth) for one in loads)

    def _callers_cancel(self, statement: cst.Return, inverse: bool, depth: int) -> bool:
        function = self._function_of(statement)
        if not isinstance(function, cst.FunctionDef):
            return False
        calls = [
            call
            for chunk in self._machine.program.chunks
            if function.name.value in chunk.words
            for call in every(chunk.module, cst.Call)
            if last_name(call.func) == function.name.value
        ]
        return bool(calls) and all(self.all_cancel(call, inverse, depth) for call in calls)

    def _function_of(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        source = self._machine.program.source_of(node)
        return source.function_around(node) if source is not None else None

    def _is_of_scale(self, node: cst.BaseExpression, inverse: bool) -> bool:
        """Whether `node` is what `get_scale()` returned, or its `inverse`, or a name that is bound to that."""
        if isinstance(node, cst.Name):
            function = self._function_of(node)
            values = [
                bound.value
                for bound in (every(function, cst.Assign) if function is not None else ())
                for target in bound.targets
                if isinstance(target.target, cst.Name) and target.target.value == node.value
            ]
            return len(values) == 1 and not isinstance(values[0], cst.Name) and self._is_of_scale(values[0], inverse)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide) and inverse:
            return self._is_of_scale(node.right, inverse=False)
        return isinstance(node, cst.Call) and last_name(node.func) == "get_scale" and not inverse

    def _is_of_gradients(self, node: cst.BaseExpression) -> bool:
        """Whether gradients are a factor of `node`, by their attribute or by a name that is bound to them."""
        if _mentions_gradient(node):
            return True
        function = self._function_of(node)
        names = {name.value for name in every(node, cst.Name)}
        return function is not None and any(
            isinstance(target.target, cst.Name) and target.target.value in names and _mentions_gradient(bound.value)
            for bound in every(function, cst.Assign)
            for target in bound.targets
        )


def _mentions_gradient(node: cst.CSTNode) -> bool:
    return any(one.attr.value == "grad" for one in every(node, cst.Attribute))


def _loads(function: cst.FunctionDef, name: str) -> Iterator[cst.Name]:
    targets = {id(target.target) for bound in every(function, cst.Assign) for target in bound.targets}
    fields = {id(one.attr) for one in every(function, cst.Attribute)}
    keywords = {id(one.keyword) for one in every(function, cst.Arg) if one.keyword is not None}
    outside = targets | fields | keywords
    return (one for one in every(function, cst.Name) if one.value == name and id(one) not in outside)


def _is_zero(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.Integer, cst.Float)) and node.evaluated_value == 0
