"""Running averages of weights that begin with copies of them, which nothing converts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.premises import Premise
from amplint.regex import regex
from amplint.semantics.events import AverageAlike
from amplint.semantics.python.tracker import Call, Operands, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor, Value
from amplint.semantics.words import AVERAGE
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk, Source
from amplint.source.tree import every, walk

_COMPLEMENT = regex(r"\b1(?:\.0?)? ?- ?((?:self\.)?\w+)\b")
_WIDE = regex(r"(?i)\.float\(\)|float32|\bfp32|\.double\(\)")
_OF_MODELS = "parameters"
_COPIES = frozenset({"detach", "clone", "cpu"})
_UPDATES = frozenset({"add_", "lerp_"})


class AveragesAlike(Tracker):
    """Tracks updates of averages of weights by a share that its complement shows: `(1 - d) * average + d * weight`."""

    methods = _UPDATES

    def is_needed(self) -> bool:
        """Whether dtypes are assumed and a selected rule handles the event."""
        return self.machine.assumes and AverageAlike.kind in self.machine.wanted

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """The shares, and loops over parameters, in code that averages weights in no dtype of its own."""
        shares = frozenset[str]().union(*map(_shares, chunks))
        return Words(names=shares, calls=frozenset({_OF_MODELS}) if shares else frozenset())

    def binary(self, state: State, operands: Operands) -> Value | None:
        """Handle `(1 - d) * average + d * weight`."""
        if operands.kind != "Add":
            return None
        (left, one), (right, other) = operands.left, operands.right
        if _complement(left, right) or _complement(right, left):
            self._emit(state, operands.node, one, other)
        return None

    def method(self, state: State, call: Call) -> Value | None:
        """Handle `average.mul_(d).add_(weight, alpha=1 - d)` and `average.lerp_(weight, 1 - d)`."""
        share = call.arguments.get("alpha" if call.name == "add_" else "weight", 1)
        given = call.arguments.value("other" if call.name == "add_" else "end", 0)
        if share is not None and given is not None and call.owner is not None and _complemented(share.node.value):
            self._emit(state, call.node, call.owner, given)
        return None

    def _emit(self, state: State, node: cst.CSTNode, *averaged: Value) -> None:
        """Emit an update of an average of parameters, in code that says by a name that it averages."""
        if any(isinstance(value, Tensor) and value.dtypes is not None for value in averaged):
            return
        symbols = [symbol_of(self.machine, value) for value in averaged]
        source = self.machine.program.source_of(node)
        if (
            source is None
            or not _shares(source.chunk_of(node))
            or not any(self.machine.symbols.involves(one, _OF_MODELS) for one in symbols)
        ):
            return
        begun = _begun(source, node)
        name = next((name for name in _names_around([node, *source.ancestors(node)]) if AVERAGE.search(name)), None)
        if begun is not None and name is not None:
            self.machine.emit(
                state, AverageAlike, begun, by=node, assumed=True, premises=(Premise.HALF_THERE,),
                guesses=AVERAGE.guesses(name),
            )  # fmt: skip


def _begun(source: Source, node: cst.CSTNode) -> cst.CSTNode | None:
    """The list of copies of parameters with which an average begins: the only one in the class around `node`."""
    around = next((above for above in source.ancestors(node) if isinstance(above, cst.ClassDef)), None)
    found = [made for made in every(around, cst.ListComp) if _copies(made)] if around is not None else []
    return found[0] if len(found) == 1 else None


def _copies(made: cst.ListComp) -> bool:
    """Whether a list holds detached parameters or copies of them, and nothing that converts them."""
    over = made.for_in.iter
    methods = {last_name(call.func) for call in every(made.elt, cst.Call)}
    return isinstance(over, cst.Call) and last_name(over.func) == _OF_MODELS and bool(methods) and methods <= _COPIES


def _complement(one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Whether `one` is a product with `1 - d` and `other` one with `d`."""
    shares = {share for factor in _factors(one) if (share := _complemented(factor)) is not None}
    return bool(shares) and any(dotted(factor) in shares for factor in _factors(other))


def _factors(node: cst.BaseExpression) -> tuple[cst.BaseExpression, ...]:
    """The factors of a product."""
    is_product = isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply)
    return (node.left, node.right) if is_product else ()  # type: ignore[attr-defined]


def _complemented(node: cst.BaseExpression) -> str | None:
    """`d` in `1 - d`."""
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Subtract):
        return None
    whole = isinstance(node.left, (cst.Integer, cst.Float)) and float(node.left.value) == 1
    return dotted(node.right) if whole else None


def _names_around(nodes: Sequence[cst.CSTNode]) -> Iterator[str]:
    """The names in a statement, and of the functions and classes around it."""
    for node in nodes:
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            yield node.name.value
        elif isinstance(node, cst.SimpleStatementLine):
            yield from (inner.value for inner in walk(node) if isinstance(inner, cst.Name))


@cached_per_chunk
def _shares(chunk: Chunk) -> frozenset[str]:
    """The last names of the shares by which a chunk averages weights, unless it speaks of float32."""
    text = chunk.text
    if "parameters()" not in text or AVERAGE.search(text) is None or _WIDE.search(text) is not None:
        return frozenset()
    return frozenset(share.rpartition(".")[2] for share in _COMPLEMENT.findall(text))
