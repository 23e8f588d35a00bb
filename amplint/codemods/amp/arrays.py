"""Model outputs converted to NumPy arrays: by `numpy()` in the file, or in a function of another one.

NumPy has no bfloat16, accumulates float16 sums in that dtype, and its linear algebra refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from amplint.codemods.bindings import bound_paths, called_name, paths
from amplint.codemods.script import Script
from amplint.codemods.training.observed import Observed
from amplint.findings import Edit
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import SPEAKS_OF_LOSS
from amplint.source import syntax as cst
from amplint.source.tree import every, walk

_KEEPING = frozenset(
    {"cpu", "detach", "data", "squeeze", "unsqueeze", "view", "reshape", "permute", "transpose", "contiguous"}
    | {"clone", "flatten", "mean", "sum", "clamp", "to"}
)
"""Methods and attributes that keep the dtype of a tensor."""
_JOINING = frozenset({"cat", "stack", "concat"})


class Arrays:
    """The `edits` that cast to float32 what is certainly floating-point and half when converted to an array.

    That is the output, in statements of `regions`, of a model that has only one in those of `training`, which
    differentiate a result of it. `doubts` are the conversions of values that may be half.
    """

    def __init__(
        self, script: Script, observed: Observed, training: Iterable[cst.CSTNode], regions: Iterable[cst.CSTNode]
    ) -> None:
        self.edits: list[Edit] = []
        self.doubts: list[cst.Call] = []
        statements = list(training)
        calls = [call for one in statements for call in every(one, cst.Call) if call in observed.forwards]
        several = {one.value for each in statements for one in every(each, cst.Assign) if len(bound_paths(one)) > 1}
        models = {dotted(call.func) for call in calls} - {dotted(call.func) for call in calls if call in several}
        inside = {node for statement in regions for node in every(statement, cst.Call)} & observed.forwards
        for home in (None, *observed.calls.functions):
            function = _Function(script, observed, inside, models - {None})
            for call, value in function.given(home):
                if function.is_half(value):
                    self.edits.append(script.rewrite.add_float(value))
                else:
                    self.doubts.append(call)


class _Function:
    """Follows the outputs of calls `inside` regions through one function."""

    def __init__(self, script: Script, observed: Observed, inside: Set[cst.CSTNode], models: Set[str | None]) -> None:
        self._script = script
        self._calls = observed.calls
        self._inside = inside
        self._models = models
        self._half: set[str] = set()
        self._perhaps: set[str] = set()

    def given(self, home: cst.FunctionDef | None) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
        """The calls in a function, or at the top level, that convert a possibly half value to an array, with the
        value.
        """
        for node in walk(home.body) if home is not None else self._script.nodes:
            if isinstance(node, cst.SimpleStatementLine) and self._script.function_of(node) is home:
                for call in every(node, cst.Call):
                    yield from ((call, value) for value in self._converted(call) if self._may_be_half(value))
                for assign in every(node, cst.Assign):
                    bound, perhaps = bound_paths(assign), self._may_be_half(assign.value)
                    certain = len(bound) == 1 and self.is_half(assign.value)
                    self._half = self._half | bound if certain else self._half - bound
                    branches = any(isinstance(above, cst.If) for above in self._script.source.ancestors(node))
                    self._perhaps |= bound if perhaps else set()
                    self._perhaps -= set() if perhaps or branches else bound

    def _converted(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """The values that `call` converts to an array, or passes to a function that does."""
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value == "numpy":
            yield func.value
        for function in self._calls.runs(call) | self._calls.targets(call):
            parameters = function.params.params if isinstance(function, cst.FunctionDef) else ()
            own = bool(parameters) and parameters[0].name.value == "self"
            for place, parameter in enumerate(parameters[own:]):
                argument = self._script.rewrite.find_argument(call, parameter.name.value, place)
                if argument is not None and _converts(function, parameter):
                    yield argument.value

    def _may_be_half(self, node: cst.BaseExpression) -> bool:
        """Whether `node` is a model output, or a part of one, with its dtype."""
        base: cst.CSTNode = node
        if self.is_half(node):
            return True
        while isinstance(base, (cst.Call, cst.Attribute, cst.Subscript)):
            if base in self._inside:
                return True
            if isinstance(base, cst.Attribute):
                if dotted(base) in self._perhaps:
                    return True
                above = self._script.source.parent(base)
                if isinstance(above, cst.Call) and above.func is base and base.attr.value not in _KEEPING:
                    return False
            base = base.func if isinstance(base, cst.Call) else base.value
        return isinstance(base, cst.Name) and base.value in self._perhaps and not SPEAKS_OF_LOSS.search(base.value)

    def is_half(self, node: cst.BaseExpression) -> bool:
        """Whether `node` certainly is half: a model output, or computed from one by operations that keep its dtype."""
        if isinstance(node, cst.BinaryOperation):
            return self.is_half(node.left) or self.is_half(node.right)
        if isinstance(node, cst.Subscript):
            return self.is_half(node.value)
        if isinstance(node, cst.Attribute):
            return self.is_half(node.value) if node.attr.value in _KEEPING else dotted(node) in self._half
        if not isinstance(node, cst.Call):
            return dotted(node) in self._half
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in _KEEPING:
            return self.is_half(node.func.value)
        joins = called_name(node) in _JOINING
        one = node in self._inside and dotted(node.func) in self._models
        return one or (joins and any(paths(argument.value) & self._half for argument in node.args[:1]))


def _converts(function: cst.CSTNode, parameter: cst.Param) -> bool:
    """Whether `function` converts its parameter to an array without a cast."""
    for call in every(function, cst.Call):
        node: cst.CSTNode = call.func
        if isinstance(node, cst.Attribute) and node.attr.value == "numpy":
            node = node.value
            while isinstance(node, (cst.Call, cst.Attribute, cst.Subscript)):
                if isinstance(node, cst.Attribute) and node.attr.value not in _KEEPING:
                    break
                node = node.func if isinstance(node, cst.Call) else node.value
            if isinstance(node, cst.Name) and node.value == parameter.name.value:
                return True
    return False
