"""Discarded results of casts: a tensor's cast returns a new tensor, while a module's works in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.premises import Premise
from amplint.regex import regex
from amplint.semantics.events import ConversionDiscarded
from amplint.semantics.python.tracker import Tracker, Words
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.tensors.provenance import is_constructed_parameter
from amplint.semantics.tensors.supposed import annotated_tensors
from amplint.semantics.tensors.tensors import tensor
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor, Unknown, Value
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk, cached_per_file
from amplint.source.source import Chunk
from amplint.source.tree import every
from amplint.torchlib.methods import CASTS, DISCARDED_CAST
from amplint.torchlib.policy import words

_DISCARDED = regex(DISCARDED_CAST)
_METHODS = frozenset(CASTS) | words("to type type_as")
_TENSOR_ATTRIBUTES = words("shape ndim view reshape permute transpose unsqueeze squeeze flatten contiguous")


class Discards(Tracker):
    """Emits statements that discard the result of a cast."""

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return ConversionDiscarded.kind in self.machine.wanted

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """The cast methods called in statements that discard the result."""
        return Words(calls=frozenset().union(*map(_methods, chunks)))

    def result_discarded(self, state: State, node: cst.BaseExpression, value: Value) -> None:
        """Check an expression statement whose result is `value`."""
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return
        if node.func.attr.value not in _METHODS or not self.machine.calls:
            return
        owner = self.machine.evaluate(state, node.func.value) if dotted(node.func.value) is not None else None
        if isinstance(owner, Unknown) and self._is_used_as_tensor(node.func.value):
            owner, value = tensor(self.machine, owner), tensor(self.machine, value)
        if (
            not isinstance(value, Tensor)
            or not isinstance(owner, Tensor)
            or (owner.dtype is not None and owner.dtype == value.dtype)
        ):
            return
        if any(_is_of(argument.value, node.func.value) for argument in node.args):
            return
        if _names_dtype(node, value) and not any(_probes(above) for above in self._around(node)):
            known = {Premise.OTHER_DTYPE: owner.dtype, Premise.OTHER_WANTED: value.dtype}
            unseen = tuple(premise for premise, dtype in known.items() if dtype is None)
            is_parameter = is_constructed_parameter(self.machine, owner.symbol)
            self.machine.emit(
                state, ConversionDiscarded, node, dtype=value.dtype, is_parameter=is_parameter, premises=unseen
            )

    def _is_used_as_tensor(self, node: cst.BaseExpression) -> bool:
        """Whether the running function uses a variable as only tensors are used, or annotates it as one."""
        function = self.machine.calls[-1]
        if not isinstance(node, cst.Name) or not isinstance(function, cst.FunctionDef):
            return False
        return node.value in _tensor_variables(function) or node.value in annotated_tensors(function)

    def _around(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        source = self.machine.program.source_of(node)
        return iter(source.ancestors(node) if source is not None else ())


def _is_of(dtype: cst.BaseExpression, tensor: cst.BaseExpression) -> bool:
    """Whether an argument is the tensor itself, or its own dtype, `x.dtype`."""
    named = dtype.value if isinstance(dtype, cst.Attribute) and dtype.attr.value == "dtype" else dtype
    return dotted(named) is not None and dotted(named) == dotted(tensor)


def _names_dtype(node: cst.Call, value: Tensor) -> bool:
    """Whether a conversion is a cast, and not only a move to a device."""
    names = (last_name(argument.value) or "" for argument in node.args)
    return value.dtype is not None or last_name(node.func) != "to" or any("dtype" in name for name in names)


def _probes(block: cst.CSTNode) -> bool:
    """Whether a statement in `block` may be there for the exception it raises, or for its running time."""
    if isinstance(block, cst.With):
        return isinstance(block.body, cst.SimpleStatementSuite) or len(block.body.body) == 1
    return isinstance(block, cst.Try)


@cached_per_file
def _tensor_variables(function: cst.FunctionDef) -> frozenset[str]:
    """The variables of a function with an attribute that only tensors have, or in a matrix product."""
    asked = [node.value for node in every(function, cst.Attribute) if node.attr.value in _TENSOR_ATTRIBUTES]
    for node in every(function, cst.BinaryOperation):
        asked += [node.left, node.right] if isinstance(node.operator, cst.MatrixMultiply) else []
    return frozenset(node.value for node in asked if isinstance(node, cst.Name))


@cached_per_chunk
def _methods(chunk: Chunk) -> frozenset[str]:
    return frozenset(method for found in _DISCARDED.findall(chunk.text) for method in found if method)
