"""Reductions of losses: mean over the batch, or sum."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import SPEAKS_OF_LOSS
from amplint.source import syntax as cst
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.methods import SAME_NUMBERS
from amplint.training.bindings import constructor
from amplint.training.calls import Calls
from amplint.training.definitions import value_of, values_of
from amplint.training.script import Script

_DEEP = 12
_KEEPS = SAME_NUMBERS | {"abs", "neg", "scale"}
_LOSSES = operations_with("loss")


class Reduction(enum.Enum):
    """The reduction of the losses of the samples of a batch."""

    NONE = enum.auto()
    MEAN = enum.auto()
    SUM = enum.auto()
    UNKNOWN = enum.auto()


class Reductions:
    """Follows losses back to their reduction."""

    def __init__(self, script: Script, calls: Calls) -> None:
        self._script = script
        self._calls = calls

    def of(self, node: cst.BaseExpression, deep: int = _DEEP) -> Reduction:
        """The reduction of the loss that `node` evaluates to."""
        if deep == 0:
            return Reduction.UNKNOWN
        if isinstance(node, cst.Call):
            return self._call(node, deep)
        if isinstance(node, cst.BinaryOperation):
            return self._operation(node, deep)
        if isinstance(node, (cst.Name, cst.Attribute)):
            path = dotted(node)
            values = self._values(node, path) if path is not None else []
            return _together([self.of(one, deep - 1) if one is not None else Reduction.UNKNOWN for one in values])
        if isinstance(node, cst.UnaryOperation):
            return self.of(node.expression, deep - 1)
        if isinstance(node, cst.IfExp):
            return _together([self.of(node.body, deep - 1), self.of(node.orelse, deep - 1)])
        return Reduction.UNKNOWN

    def _operation(self, node: cst.BinaryOperation, deep: int) -> Reduction:
        left, right = self.of(node.left, deep - 1), self.of(node.right, deep - 1)
        if isinstance(node.operator, (cst.Add, cst.Subtract)):
            return _together([left, right])
        if isinstance(node.operator, cst.Divide):
            constant = isinstance(node.right, (cst.Integer, cst.Float))
            return Reduction.MEAN if left is Reduction.SUM and not constant else left
        if isinstance(node.operator, cst.Multiply):
            known = [one for one in (left, right) if one is not Reduction.UNKNOWN]
            return known[0] if len(known) == 1 else Reduction.UNKNOWN
        return Reduction.UNKNOWN

    def _call(self, call: cst.Call, deep: int) -> Reduction:
        name = dotted(call.func) or ""
        last = call.func.attr.value if isinstance(call.func, cst.Attribute) else name
        given = self._script.rewrite.find_argument(call, "reduction")
        averages = self._script.rewrite.find_argument(call, "size_average")
        if given is not None or averages is not None:
            text = self._script.rewrite.text((given or averages).value).strip("'\"")  # type: ignore[union-attr]
            return _SAID.get(text, Reduction.UNKNOWN)
        if last in _LOSSES:
            return Reduction.MEAN
        if isinstance(call.func, cst.Attribute) and last in ("mean", "sum"):
            over_all = len(call.args) == (name in ("torch.mean", "torch.sum"))
            of_one = over_all or len(call.args) == 0
            inner = call.args[0].value if name in ("torch.mean", "torch.sum") and call.args else call.func.value
            return self._reduced(inner, last, deep) if of_one else Reduction.UNKNOWN
        if isinstance(call.func, cst.Attribute) and last in _KEEPS:
            inner = call.args[0].value if last == "scale" and call.args else call.func.value
            return self.of(inner, deep - 1)
        return self._called(call, deep)

    def _reduced(self, inner: cst.BaseExpression, by: str, deep: int) -> Reduction:
        """The reduction of the mean or sum of `inner`, which may be a reduced loss already."""
        before = self.of(inner, deep - 1)
        if before in (Reduction.MEAN, Reduction.SUM):
            return before
        if by == "mean":
            return Reduction.MEAN
        spelled = self._script.text_of(inner)
        return Reduction.SUM if before is Reduction.NONE or not SPEAKS_OF_LOSS.search(spelled) else Reduction.UNKNOWN

    def _called(self, call: cst.Call, deep: int) -> Reduction:
        returned = self._returned(call)
        if returned:
            return _together([self.of(value, deep - 1) for value in returned])
        return self._criterion(call.func, deep)

    def _returned(self, call: cst.Call) -> list[cst.BaseExpression]:
        """The values returned by the functions of this file that `call` runs."""
        functions = [one for one in self._calls.targets(call) if isinstance(one, cst.FunctionDef)]
        returns = (one for function in functions for one in self._script.returns(function))
        return [one.value for one in returns if one.value is not None]

    def _criterion(self, node: cst.BaseExpression | None, deep: int) -> Reduction:
        """The reduction by the function or module that `node` evaluates to."""
        if isinstance(node, cst.Call) and deep:
            returned = self._returned(node)
            return _together([self._criterion(one, deep - 1) for one in returned]) if returned else self._made(node)
        path = dotted(node) if node is not None and deep else None
        values = self._values(node, path) if node is not None and path is not None else []
        return _together([self._criterion(one, deep - 1) for one in values])

    def _made(self, made: cst.Call) -> Reduction:
        inner = constructor(made)
        assert isinstance(inner, cst.Call)
        own = any(isinstance(one, cst.ClassDef) and one.name.value == dotted(inner.func) for one in self._script.top)
        for keyword in ("reduction", "size_average"):
            given = self._script.rewrite.find_argument(inner, keyword)
            if given is not None:
                return _SAID.get(self._script.rewrite.text(given.value).strip("'\""), Reduction.UNKNOWN)
        library = (dotted(inner.func) or "").endswith("Loss") and not own
        return (
            Reduction.MEAN
            if library and (dotted(inner.func) or "").startswith(("nn.", "torch.nn."))
            else Reduction.UNKNOWN
        )

    def _values(self, node: cst.CSTNode, path: str) -> list[cst.BaseExpression | None]:
        """The values bound to `path` at `node`, without the initial numbers of sums."""
        function = self._script.function_of(node)
        own = self._since(self._script.assignments(function, path), node)
        added = list(self._added(function, path, own, node))
        found = [*(value_of(binding, path) for binding in own), *added]
        if not found:
            found = values_of(self._script, self._calls, node, path)
        return [value for value in found if not isinstance(value, (cst.Integer, cst.Float))]

    def _since(self, bindings: list[cst.CSTNode], use: cst.CSTNode) -> list[cst.CSTNode]:
        """The last of `bindings` that certainly runs before `use`, and those after it."""
        row = self._script.row(use)
        earlier = [one for one in bindings if self._script.row(one) < row]
        around = [block for _, block in self._script.enclosing_statements(use)]
        sure = [
            one
            for one in earlier
            for statement in [self._script.statement_of(one)]
            if statement is not None and any(self._script.block_of(statement) is block for block in around)
        ]
        if not sure:
            return bindings
        return [one for one in earlier if self._script.row(one) >= self._script.row(sure[-1])]

    def _added(
        self, function: cst.FunctionDef | None, path: str, bindings: list[cst.CSTNode], use: cst.CSTNode
    ) -> Iterator[cst.BaseExpression | None]:
        """The values added to `path` in place between the first of `bindings` and `use`; None for other updates."""
        first = min((self._script.row(one) for one in bindings), default=0)
        for node in self._script.of_kind(cst.AugAssign):
            here = dotted(node.target) == path and self._script.function_of(node) is function
            if here and first <= self._script.row(node) < self._script.row(use):
                known = isinstance(node.operator, (cst.AddAssign, cst.MultiplyAssign))
                yield node.value if known or isinstance(node.value, (cst.Integer, cst.Float)) else None


_SAID = {
    "none": Reduction.NONE,
    "mean": Reduction.MEAN,
    "batchmean": Reduction.MEAN,
    "True": Reduction.MEAN,
    "sum": Reduction.SUM,
    "False": Reduction.SUM,
}


def _together(found: list[Reduction]) -> Reduction:
    kinds = set(found)
    return kinds.pop() if len(kinds) == 1 else Reduction.UNKNOWN
