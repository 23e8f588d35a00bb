"""Consumers of half results outside of the regions: losses of evaluation, and other libraries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set

from amplint.findings import Edit
from amplint.semantics.models.half_outputs import is_loss
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import CALLED_MODULE
from amplint.source import syntax as cst
from amplint.source.tree import every, walk
from amplint.torchlib.catalogue import OPERATIONS
from amplint.torchlib.policy import FLOAT32, LOWER
from amplint.training.bindings import bound_paths, called_name, callee, paths
from amplint.training.flow import Flow
from amplint.training.halves import Halves
from amplint.training.observed import Observed
from amplint.training.script import Script


class Beside:
    """Finds evaluation statements that compute these losses, given `regions` and the `losses` of training by name.

    The regions that have `ended` give nothing half. `foreign_calls` are the calls of other libraries; a loss that is
    differentiated is float32. `halves` is half then.
    """

    def __init__(
        self,
        script: Script,
        observed: Observed,
        flow: Flow,
        regions: Iterable[cst.CSTNode],
        losses: Set[str],
        ended: Sequence[cst.CSTNode] = (),
    ) -> None:
        self._script = script
        self._ended = ended
        self.foreign_calls: list[cst.Call] = []
        self._foreign = {*observed.foreign, *_made_by(script, observed.foreign.keys())}
        self._differentiated = {path for backward in observed.backwards for path in paths(backward.func)}
        self._flow = flow
        self._forwards = observed.forwards
        self._targets = observed.calls.targets
        self._modules = observed.modules
        self._losses = losses
        statements = list(regions)
        self.halves = Halves(script.source, statements)
        self._half: dict[cst.CSTNode, Set[str]] = {}
        homes = {script.function_of(one) for one in statements}
        for statement, half in self.halves.outside():
            within = any(script.inside(one, statement) for one in ended)
            if within or len(statement.body) > 1 or flow.trains(statement):
                continue
            function = script.function_of(statement)
            at_home, calls = function in homes, list(self._calls(statement, half))
            given = self.halves.given_to(function) if not at_home and function is not None else frozenset[str]()
            runs = any(self._is_module(one) and any(paths(each.value) & given for each in one.args) for one in calls)
            if (at_home or runs) and calls and not any(every(statement, cst.Yield)):
                self._half[statement] = half
            elif at_home:
                strange = every(statement, cst.Call)
                self.foreign_calls += (call for call in strange if self._is_foreign_call(call, half))

    @property
    def statements(self) -> list[cst.CSTNode]:
        """The statements that need a region of their own: whole conditions, if several branches have some."""
        return list(dict.fromkeys(map(self._condition_around, self._half)))

    def _condition_around(self, statement: cst.CSTNode) -> cst.CSTNode:
        chosen = statement
        for above in self._script.source.ancestors(statement):
            if isinstance(above, cst.FunctionDef):
                break
            if isinstance(above, cst.If) and sum(self._script.inside(above, one) for one in self._half) > 1:
                plain = not any(isinstance(inner, (cst.For, cst.While, cst.With)) for inner in walk(above))
                in_block = isinstance(self._script.source.parent(above), cst.IndentedBlock)
                whole = plain and in_block and not self._flow.trains(above)
                whole = whole and not any(self._script.inside(above, one) for one in self._ended)
                chosen = above if whole else chosen
        return chosen

    def widened(self) -> Iterator[Edit]:
        """Cast the half operands of such a loss where a region would be too late."""
        for statement, half in self._half.items():
            for loss in self._calls(statement, half):
                for operation in every(loss, cst.BinaryOperation):
                    for operand in (operation.left, operation.right):
                        if isinstance(operand, cst.Name) and operand.value in half:
                            yield self._script.rewrite.add_float(operand)

    def _is_foreign_call(self, call: cst.Call, half: Set[str]) -> bool:
        """Whether `call` passes a result of a region to another library without a cast."""
        strange = isinstance(call.func, cst.Attribute | cst.Name) and not paths(_owner(call.func)).isdisjoint(
            self._foreign
        )
        if not strange or _reads_tokens(call) or called_name(call) == "open":  # which takes a file
            return False
        given = (one.value for one in call.args if not paths(one) & self._differentiated)
        return any(self.halves.carries(one, half) for one in given)

    def _is_module(self, call: cst.Call) -> bool:
        path = dotted(call.func) or ""
        named = path.startswith("self.") and CALLED_MODULE.search(path.rpartition(".")[2]) and not self._targets(call)
        return call in self._forwards or path in self._modules or bool(named and call.args)

    def _calls(self, statement: cst.CSTNode, half: Set[str]) -> Iterator[cst.Call]:
        """The losses and models in `statement` with an argument in `half`."""
        for call in every(statement, cst.Call):
            name = called_name(call)
            if not self._is_module(call) and isinstance(self._script.source.parent(call), cst.Expr):
                continue
            shapes = name in OPERATIONS and name not in LOWER | FLOAT32
            known = (callee(call) in self._losses and not shapes) or is_loss(name) or self._is_module(call)
            given = call.args if self._is_module(call) and not self._targets(call) else call.args[:1]
            if known and any(self.halves.carries(argument.value, half) for argument in given):
                yield call


def _made_by(script: Script, foreign: Set[str]) -> Iterator[str]:
    """The variables and attributes that hold objects constructed by `foreign` libraries."""
    for node in script.of_kind(cst.Assign):
        if isinstance(node.value, cst.Call) and (dotted(node.value.func) or "").partition(".")[0] in foreign:
            yield from bound_paths(node)


def _owner(func: cst.BaseExpression) -> cst.BaseExpression:
    """`func`, or the collection from which its object is taken by a key."""
    while dotted(func) is None and isinstance(func, (cst.Attribute, cst.Subscript)):
        func = func.value
    return func


def _reads_tokens(call: cst.Call) -> bool:
    """Whether `call` turns token ids, which are whole numbers, into text."""
    name = called_name(call)
    return name == "batch_decode" or (name == "decode" and "tokenizer" in (dotted(call.func) or "").lower())
