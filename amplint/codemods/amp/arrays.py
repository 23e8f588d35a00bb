"""What models give to NumPy, which has no bfloat16: by `numpy()` in the file, or in a function of another one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from amplint.codemods.amp.observed import Observed
from amplint.codemods.bindings import bound_paths, paths
from amplint.codemods.script import Script
from amplint.findings import Edit
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.tree import every, walk

_KEEPING = frozenset(
    {"cpu", "detach", "data", "squeeze", "unsqueeze", "view", "reshape", "permute", "transpose", "contiguous"}
    | {"clone", "flatten", "mean", "sum", "clamp", "to"}
)
"""What is done to a tensor and leaves its dtype."""
_JOINING = frozenset({"cat", "stack", "concat"})


def widened(
    script: Script, observed: Observed, training: Iterable[cst.CSTNode], regions: Iterable[cst.CSTNode]
) -> Iterator[Edit]:
    """Convert to float32 what certainly is floating point and half where NumPy gets it.

    That is the output, in statements of `regions`, of a model that has but one in those of `training`, which
    differentiate what comes of it.
    """
    statements = list(training)
    calls = [call for one in statements for call in every(one, cst.Call) if call in observed.forwards]
    several = {one.value for each in statements for one in every(each, cst.Assign) if len(bound_paths(one)) > 1}
    models = {dotted(call.func) for call in calls} - {dotted(call.func) for call in calls if call in several} - {None}
    inside = {node for statement in regions for node in every(statement, cst.Call)}
    half = {call for call in observed.forwards & inside if isinstance(call, cst.Call) and dotted(call.func) in models}
    for home in (None, *observed.calls.functions):
        yield from _Arrays(script, observed, half).in_function(home)


class _Arrays:
    """Follows what the `calls` of models give through one function."""

    def __init__(self, script: Script, observed: Observed, calls: Set[cst.CSTNode]) -> None:
        self._script = script
        self._observed = observed
        self._calls = calls
        self._half: set[str] = set()

    def in_function(self, home: cst.FunctionDef | None) -> Iterator[Edit]:
        """The conversions in a function, or at the top level."""
        for node in walk(home.body) if home is not None else self._script.nodes:
            if isinstance(node, cst.SimpleStatementLine) and self._script.function_of(node) is home:
                for call in every(node, cst.Call):
                    yield from (self._script.rewrite.add_float(value) for value in self._given(call))
                for assign in every(node, cst.Assign):
                    bound = bound_paths(assign)
                    self._half = (
                        self._half | bound if len(bound) == 1 and self._is_half(assign.value) else self._half - bound
                    )

    def _given(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """What `call` converts to an array, or hands to a function of another file that does."""
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value == "numpy" and self._is_half(func.value):
            yield func.value
        for function in self._observed.calls.runs(call):
            if isinstance(function, cst.FunctionDef) and not self._script.source.owns(function):
                for place, parameter in enumerate(function.params.params):
                    argument = self._script.rewrite.find_argument(call, parameter.name.value, place)
                    if argument is not None and _converts(function, parameter) and self._is_half(argument.value):
                        yield argument.value

    def _is_half(self, node: cst.BaseExpression) -> bool:
        """Whether `node` is what a model has given, or computed from that by what leaves its dtype."""
        if isinstance(node, cst.BinaryOperation):
            return self._is_half(node.left) or self._is_half(node.right)
        if isinstance(node, cst.Subscript):
            return self._is_half(node.value)
        if isinstance(node, cst.Attribute):
            return self._is_half(node.value) if node.attr.value in _KEEPING else dotted(node) in self._half
        if not isinstance(node, cst.Call):
            return dotted(node) in self._half
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in _KEEPING:
            return self._is_half(node.func.value)
        joins = (dotted(node.func) or "").rpartition(".")[2] in _JOINING
        return node in self._calls or (joins and bool(paths(node.args[0].value) & self._half))


def _converts(function: cst.FunctionDef, parameter: cst.Param) -> bool:
    """Whether `function` makes an array of its parameter as it is."""
    for call in every(function.body, cst.Call):
        node: cst.CSTNode = call.func
        if isinstance(node, cst.Attribute) and node.attr.value == "numpy":
            node = node.value
            while isinstance(node, (cst.Call, cst.Attribute)):
                if isinstance(node, cst.Attribute) and node.attr.value not in _KEEPING:
                    break
                node = node.func if isinstance(node, cst.Call) else node.value
            if isinstance(node, cst.Name) and node.value == parameter.name.value:
                return True
    return False
