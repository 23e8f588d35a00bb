"""Gradients of single numbers that kernels add up, in the dtype of other gradients.

The backward pass of a custom autograd function makes a zero for a kernel to add to, and returns it as the gradient of a
number: a sum over all elements, which in half overflows, or stops growing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.regex import regex
from amplint.semantics.events import How, Operand, Sensitive
from amplint.semantics.python.tracker import Tracker, Words
from amplint.semantics.reading.scopes import last_name
from amplint.semantics.tensors.evidence import evidence_of_source
from amplint.semantics.tensors.sensitive import emit_sensitive
from amplint.semantics.tensors.supposed import is_backward
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor, Value
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk, cached_per_file
from amplint.source.source import Chunk
from amplint.source.tree import every
from amplint.torchlib.policy import words

_ZERO = regex(r"\b(?:as_tensor|tensor|zeros|new_zeros|full)\((?:[\[(] ?[01]?,? ?[\])]|[01]\b|0\.)")
"""A call that makes one zero."""
_MAKES = words("as_tensor tensor zeros new_zeros full")


class KernelSums(Tracker):
    """Tracks the gradients that a backward pass makes for kernels to add to."""

    def is_needed(self) -> bool:
        """Whether dtypes are assumed and a selected rule handles the event."""
        return self.machine.assumes and Sensitive.kind in self.machine.wanted

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Calls that make zeros, in a file with a backward pass that makes one."""
        return Words(calls=_MAKES if any(map(_makes_zero, chunks)) else frozenset())

    def assigned(self, state: State, node: cst.Assign, target: cst.BaseExpression, value: Value) -> None:
        """Handle `grad_scale = torch.zeros((), dtype=grad.dtype)`."""
        function = self.machine.calls[-1] if self.machine.calls else None
        if not isinstance(target, cst.Name) or not isinstance(value, Tensor) or value.dtypes is not None:
            return
        if not is_backward(function or node) or target.value not in _returned(function):  # type: ignore[arg-type]
            return
        if any(_makes_one_zero(call) for call in every(node.value, cst.Call)):
            half = evidence_of_source(self.machine, node, value)
            operand = Operand(target, value, half)
            emit_sensitive(self.machine, state, node.value, "sum", operand, How.KERNEL)


def _makes_one_zero(call: cst.Call) -> bool:
    """Whether a call makes a tensor of one zero."""
    if last_name(call.func) not in _MAKES or not call.args:
        return False
    first = call.args[0].value
    inside = [one.value for one in first.elements] if isinstance(first, (cst.Tuple, cst.List)) else [first]
    sizes = [one.value for one in inside if isinstance(one, (cst.Integer, cst.Float))]
    of_content = last_name(call.func) in ("as_tensor", "tensor")
    kept = [float(size) for size in sizes]
    return len(sizes) == len(inside) and (kept == [0.0] if of_content else all(size == 1 for size in kept))


@cached_per_file
def _returned(function: cst.FunctionDef) -> frozenset[str]:
    """The names that a function returns, as they are or within a tuple."""
    return frozenset(name for node in every(function, cst.Return) if node.value is not None for name in _names(node))


def _names(node: cst.Return) -> Iterator[str]:
    assert node.value is not None
    parts = [one.value for one in node.value.elements] if isinstance(node.value, cst.Tuple) else [node.value]
    return (part.value for part in parts if isinstance(part, cst.Name))


@cached_per_chunk
def _makes_zero(chunk: Chunk) -> bool:
    return "backward(ctx" in chunk.text and _ZERO.search(chunk.text) is not None
