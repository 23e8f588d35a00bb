"""Uses, bindings and contents of each statement: its words, its calls, and whether it is relevant by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

from amplint.records import dataclass
from amplint.semantics.reading.scopes import is_extreme
from amplint.semantics.words import SCALER
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk, cached_per_tree
from amplint.source.source import Chunk
from amplint.source.tree import children, walk

AMBIGUOUS_METHODS = frozenset({"update", "step", "scale", "full", "half", "grad"})
"""Trigger words that occur in other APIs too: a statement is relevant only if it uses them as a method or attribute."""
EXITS = (cst.Return, cst.Break, cst.Continue)
_NAMED = (cst.Name, cst.Attribute)
_VIEWS = frozenset({"items", "values"})
_TELLING = frozenset({cst.Attribute, cst.Call, cst.Float, cst.NamedExpr})


@dataclass
class Part:
    """The uses, bindings and contents of one statement.

    `decisive` are the words whose values can affect the outcome: arguments of unseen calls are not among them.
    `filled` are variables whose attributes `setattr` sets, by names that are computed. `renamed` are the names that
    assignments, loops and keywords give to others or to what holds or wraps them, each with the other; `given` are
    names as arguments without keywords, each with the callee's name and its position.
    `triggered` says that it is relevant whatever the triggers are: by an ambiguous method, `out` or a number.
    """

    words: set[str] = field(default_factory=set)
    decisive: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    called: set[str] = field(default_factory=set)
    filled: set[str] = field(default_factory=set)
    renamed: set[tuple[str, str]] = field(default_factory=set)
    given: set[tuple[str, int, str]] = field(default_factory=set)
    triggered: bool = False
    hands_scaler: bool = False
    leaves: bool = False
    skips: bool = False

    def add(self, other: Part) -> None:
        """Merge `other` into this part."""
        self.words |= other.words
        self.decisive |= other.decisive
        self.bound |= other.bound
        self.called |= other.called
        self.filled |= other.filled
        self.renamed |= other.renamed
        self.given |= other.given
        self.triggered = self.triggered or other.triggered
        self.hands_scaler = self.hands_scaler or other.hands_scaler
        self.leaves = self.leaves or other.leaves
        self.skips = self.skips or other.skips


class Parts:
    """The parts of one tree: of its compound statements and their headers, its simple statements, its functions.

    `parameters` are those of each function by position, without the object of a method.
    """

    def __init__(self, tree: cst.Module) -> None:
        self.whole: dict[cst.CSTNode, Part] = {}
        self.headers: dict[cst.CSTNode, Part] = {}
        self.simple: list[Part] = []
        self.functions: dict[str, Part] = {}
        self.parameters: dict[str, list[str]] = {}
        for statement in tree.body:
            self._scan(statement)

    def _scan(self, statement: cst.BaseStatement | cst.BaseSmallStatement) -> Part:
        if isinstance(statement, cst.SimpleStatementLine):
            whole = Part()
            for small in statement.body:
                part = _small(small)
                self.simple.append(part)
                whole.add(part)
            return whole
        header, whole = Part(), Part()
        for child in children(statement):
            if isinstance(child, (cst.IndentedBlock, cst.SimpleStatementSuite)):
                self._scan_block(child, whole)
            elif isinstance(
                child, (cst.If, cst.Else, cst.ExceptHandler, cst.Finally, cst.MatchCase, cst.ExceptStarHandler)
            ):
                whole.add(self._scan(child))  # type: ignore[arg-type]
            else:
                _words(child, header)
        if isinstance(statement, (cst.For, cst.With)):
            for target in [statement.target] if isinstance(statement, cst.For) else _as_names(statement):
                header.bound |= {node.value for node in walk(target) if isinstance(node, cst.Name)}
        if isinstance(statement, cst.For):
            _rename(header, _carried(statement.iter))
        if isinstance(statement, cst.With):
            header.decisive |= _makers(statement)
        whole.add(header)
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            name = statement.name.value
            if isinstance(statement, cst.FunctionDef):
                params = (param.name.value for param in statement.params.params)
                self.parameters[name] = [param for param in params if param not in ("self", "cls")]
            self.functions.setdefault(name, Part()).add(whole)
            whole.leaves = whole.skips = False
            whole.bound = {name}
            whole.triggered = isinstance(statement, cst.ClassDef) or whole.triggered
        if isinstance(statement, (cst.For, cst.While)):
            whole.skips = False
        if isinstance(statement, cst.If) and _restricts_values(statement):
            whole.leaves = True
        self.whole[statement], self.headers[statement] = whole, header
        return whole

    def _scan_block(self, block: cst.IndentedBlock | cst.SimpleStatementSuite, whole: Part) -> None:
        if isinstance(block, cst.IndentedBlock):
            for statement in block.body:
                whole.add(self._scan(statement))
        else:
            for small in block.body:
                part = _small(small)
                self.simple.append(part)
                whole.add(part)


def _restricts_values(statement: cst.If) -> bool:
    """Whether the code after `if value not in (...): raise ...` runs for some values only."""
    test, block = statement.test, statement.body
    if not (isinstance(test, cst.Comparison) and isinstance(test.comparisons[0].operator, cst.NotIn)):
        return False
    first = block.body[0] if isinstance(block, cst.IndentedBlock) else None
    return isinstance(first, cst.SimpleStatementLine) and isinstance(first.body[-1], cst.Raise)


@cached_per_tree
def parts_of(chunk: Chunk) -> Parts:
    """The parts of a chunk. Raises SourceError."""
    return Parts(chunk.module)


@cached_per_chunk
def kept_contexts(chunk: Chunk) -> frozenset[str]:
    """The variables and attributes assigned autocast contexts or their constructors in a chunk. Raises SourceError."""
    if "autocast" not in chunk.words:
        return frozenset()
    kept = (part.bound for part in parts_of(chunk).simple if "autocast" in part.words - part.bound)
    return frozenset().union(*kept)


def _as_names(statement: cst.With) -> list[cst.CSTNode]:
    return [item.asname.name for item in statement.items if item.asname is not None]


def _makers(statement: cst.With) -> set[str]:
    """The names of what `with` calls for its contexts: `region` for `with self.region():`."""
    called = (item.item.func for item in statement.items if isinstance(item.item, cst.Call))
    names = (callee.attr if isinstance(callee, cst.Attribute) else callee for callee in called)
    return {name.value for name in names if isinstance(name, cst.Name)}


def _small(node: cst.BaseSmallStatement) -> Part:
    part = Part(leaves=isinstance(node, EXITS), skips=isinstance(node, (cst.Break, cst.Continue)))
    _words(node, part)
    targets: list[cst.CSTNode] = []
    if isinstance(node, cst.Assign):
        targets = [target.target for target in node.targets]
    elif isinstance(node, (cst.AnnAssign, cst.AugAssign)):
        targets = [node.target]
    elif isinstance(node, (cst.Import, cst.ImportFrom)):
        part.bound |= part.words
    for target in targets:
        _bind(target, part)
    if isinstance(node, cst.Assign):
        _rename(part, _carried(node.value))
    return part


def _rename(part: Part, names: Iterable[str]) -> None:
    for name in names:
        part.renamed.update((bound, name) for bound in part.bound if bound != name)


def _carried(value: cst.CSTNode) -> Iterator[str]:
    """The names of which a value may be one, hold one, or wrap one, so that calling it calls what has the name."""
    if type(value) is cst.Name:
        yield value.value
    elif type(value) is cst.Attribute:
        yield value.attr.value
    elif type(value) is cst.IfExp:
        yield from _carried(value.body)
        yield from _carried(value.orelse)
    elif type(value) is cst.Subscript:
        yield from _carried(value.value)
    elif isinstance(value, (cst.List, cst.Tuple, cst.Dict)):
        for element in value.elements:
            if isinstance(element, (cst.Element, cst.DictElement)) and type(element.value) in _NAMED:
                yield from _carried(element.value)
    elif type(value) is cst.Call:
        if type(value.func) is cst.Attribute and value.func.attr.value in _VIEWS and not value.args:
            yield from _carried(value.func.value)
        for argument in value.args[:1]:
            if type(argument.value) in _NAMED:
                yield from _carried(argument.value)


def _bind(target: cst.CSTNode, part: Part) -> None:
    if isinstance(target, cst.Name):
        part.bound.add(target.value)
    elif isinstance(target, cst.Attribute):
        part.bound.add(target.attr.value)
    elif isinstance(target, (cst.Subscript, cst.StarredElement)):
        _bind(target.value, part)
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            _bind(element.value, part)


def _words(tree: cst.CSTNode, part: Part) -> None:
    """Add the words of an expression; of calls, only the arguments of `bool(...)` and `getattr(...)` are decisive."""
    deciding, others = [tree], list[cst.CSTNode]()
    for todo, names in ((deciding, part.decisive), (others, part.words)):
        while todo:
            node = todo.pop()
            kind = type(node)
            if kind is cst.Name:
                names.add(node.value)  # type: ignore[attr-defined]
                continue
            below = todo
            if kind in _TELLING:
                if isinstance(node, cst.Attribute):
                    part.triggered = part.triggered or node.attr.value == "grad"
                elif isinstance(node, cst.Call):
                    _called(node, part)
                    if not (isinstance(node.func, cst.Name) and node.func.value in ("bool", "getattr")):
                        below = others
                elif isinstance(node, cst.Float):
                    part.triggered = part.triggered or is_extreme(node.evaluated_value)
                elif isinstance(node, cst.NamedExpr):
                    _bind(node.target, part)
            for name in node.below:
                value = getattr(node, name)
                if type(value) is list:
                    below += value
                elif value is not None:
                    below.append(value)
    part.words |= part.decisive


def _called(node: cst.Call, part: Part) -> None:
    callee = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    for position, argument in enumerate(node.args):
        name = argument.value.attr if isinstance(argument.value, cst.Attribute) else argument.value
        if type(name) is cst.Name and SCALER.search(name.value):
            part.hands_scaler = True
        if argument.keyword is not None:
            part.triggered = part.triggered or argument.keyword.value == "out"
            if type(name) is cst.Name and name.value != argument.keyword.value:
                part.renamed.add((argument.keyword.value, name.value))
        elif type(name) is cst.Name and type(callee) is cst.Name:
            part.given.add((callee.value, position, name.value))
    if isinstance(node.func, cst.Attribute):
        method = node.func.attr.value
        part.called.add(method)
        if method in ("step", "scale", "full", "half") or (method == "update" and not node.args):
            part.triggered = True
    elif isinstance(node.func, cst.Name):
        part.called.add(node.func.value)
        if node.func.value == "setattr" and len(node.args) == 3:
            _set_by_name(node.args[0].value, node.args[1].value, part)
    else:
        part.called |= {inner.value for inner in walk(node.func) if isinstance(inner, cst.Name)}


def _set_by_name(owner: cst.BaseExpression, name: cst.BaseExpression, part: Part) -> None:
    if isinstance(name, cst.SimpleString):
        part.bound.add(name.raw_value)
    elif isinstance(owner, cst.Name):
        part.filled.add(owner.value)
