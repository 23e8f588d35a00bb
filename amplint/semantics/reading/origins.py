"""Origins of dtypes in a straight-line function: the names that hold a parameter, or a view of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TypeAlias

from amplint.records import dataclass
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import MINDS_AUTOCAST, TORCH_MODULES
from amplint.source import syntax as cst
from amplint.source.tree import children, walk
from amplint.torchlib.catalogue import in_place, operations_with, operations_with_form
from amplint.torchlib.policy import FOLLOWS_INPUT, words

_PROMOTE = (
    operations_with("promotes") | operations_with("promotes-to-floating") | operations_with("alike")
) - operations_with("limits")
_MIXES = _PROMOTE | in_place(_PROMOTE) | words("gather masked_fill max min")
KEEPS_DTYPE = FOLLOWS_INPUT - _MIXES
"""Functions and methods whose result has the dtype of their only tensor operand."""
_SAME = operations_with("view") & operations_with_form("a")

Product: TypeAlias = "Callable[[cst.BaseExpression, Origins], str | None]"
Seen: TypeAlias = Callable[[cst.CSTNode, bool], None]


@dataclass
class Origins:
    """The names of a function, each with the parameter whose dtype it has, updated statement by statement.

    `context` is the name of `ctx`, `saved` maps its attributes, `tensors` is the content of `saved_tensors`. `special`
    returns the origin of further expressions.
    """

    names: dict[str, str]
    context: str = ""
    saved: dict[str, str] = field(default_factory=dict)
    tensors: Sequence[str | None] = ()
    special: Product | None = None

    def of(self, node: cst.BaseExpression) -> str | None:
        """The parameter whose dtype `node` has."""
        if isinstance(node, cst.Name):
            return self.names.get(node.value)
        if isinstance(node, cst.Attribute):
            path = dotted(node)
            if path is not None and path == f"{self.context}.{node.attr.value}":
                return self.saved.get(node.attr.value)
            return self.of(node.value) if node.attr.value in _SAME else None
        if isinstance(node, cst.Subscript):
            return self.of(node.value)
        if self.special is not None and (found := self.special(node, self)) is not None:
            return found
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in KEEPS_DTYPE:
            if TORCH_MODULES.search(dotted(node.func.value) or ""):
                return self.of(node.args[0].value) if node.args else None
            return self.of(node.func.value)
        return None

    def bind(self, target: cst.BaseExpression, value: cst.BaseExpression) -> None:
        """Process `target = value`."""
        if isinstance(target, (cst.Tuple, cst.List)):
            self._unpack([element.value for element in target.elements], value)
        else:
            self._set(target, self.of(value))

    def _unpack(self, targets: Sequence[cst.BaseExpression], value: cst.BaseExpression) -> None:
        origins: Sequence[str | None] = ()
        if dotted(value) == f"{self.context}.saved_tensors":
            origins = self.tensors
        elif isinstance(value, (cst.Tuple, cst.List)):
            origins = [self.of(element.value) for element in value.elements]
        known = len(origins) == len(targets)
        for index, target in enumerate(targets):
            self._set(target, origins[index] if known else None)

    def _set(self, target: cst.BaseExpression, origin: str | None) -> None:
        if isinstance(target, cst.Name):
            _put(self.names, target.value, origin)
        elif isinstance(target, cst.Attribute) and dotted(target.value) == self.context:
            _put(self.saved, target.attr.value, origin)


def _put(table: dict[str, str], name: str, origin: str | None) -> None:
    table.pop(name, None)
    if origin is not None:
        table[name] = origin


def read(origins: Origins, body: cst.BaseSuite, seen: Seen, inside: bool = False) -> None:
    """Process the statements of `body`; `seen` is called before each, with whether it is in a region."""
    for statement in body.body:
        if isinstance(statement, cst.SimpleStatementLine):
            for small in statement.body:
                _small(origins, small, seen, inside)
        elif isinstance(statement, cst.BaseSmallStatement):
            _small(origins, statement, seen, inside)
        elif not isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            _compound(origins, statement, seen, inside)


def _small(origins: Origins, node: cst.BaseSmallStatement, seen: Seen, inside: bool) -> None:
    seen(node, inside)
    if isinstance(node, cst.Assign):
        for target in node.targets:
            origins.bind(target.target, node.value)
    elif isinstance(node, cst.AnnAssign) and node.value is not None:
        origins.bind(node.target, node.value)


def _compound(origins: Origins, node: cst.CSTNode, seen: Seen, inside: bool) -> None:
    inside = inside or (isinstance(node, cst.With) and _enters_autocast(node))
    before = (dict(origins.names), dict(origins.saved))
    if isinstance(node, cst.For):
        _each(origins, node.target, node.iter)
    blocks: list[cst.BaseSuite] = []
    for child in children(node):
        if isinstance(child, cst.BaseSuite):
            blocks.append(child)
        elif not isinstance(child, (cst.Else, cst.If)):
            seen(child, inside)
    for block in blocks:
        read(origins, block, seen, inside)
    if isinstance(node, (cst.With, cst.Else)):
        return
    after = (origins.names, origins.saved)
    origins.names, origins.saved = before
    other = getattr(node, "orelse", None)
    if other is not None:
        _compound(origins, other, seen, inside)
    origins.names, origins.saved = _common(after[0], origins.names), _common(after[1], origins.saved)


def _each(origins: Origins, target: cst.BaseExpression, over: cst.BaseExpression) -> None:
    """The origin of a list's elements, which is that of the list."""
    name = dotted(over.func) if isinstance(over, cst.Call) else None
    given = [argument.value for argument in over.args] if isinstance(over, cst.Call) else []
    if name == "reversed" and given:
        origins.bind(target, given[0])
    elif name in ("enumerate", "zip") and isinstance(target, cst.Tuple):
        elements = [element.value for element in target.elements]
        for element, value in zip(elements[1:] if name == "enumerate" else elements, given, strict=False):
            origins.bind(element, value)
    else:
        origins.bind(target, over)


def _common(one: dict[str, str], other: dict[str, str]) -> dict[str, str]:
    return {name: origin for name, origin in one.items() if other.get(name) == origin}


def _enters_autocast(node: cst.With) -> bool:
    names = (inner.value for item in node.items for inner in walk(item) if isinstance(inner, cst.Name))
    return any(map(MINDS_AUTOCAST.search, names))
