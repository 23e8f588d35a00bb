"""Which statements and names matter: most of a training script prepares, logs and saves, and need not be interpreted.

A statement matters when it, or something inside it, is a call the protocol or a numeric rule knows, calls a function of
the file in which something matters, leaves a loop or function, or computes what such a statement uses. A name decides
when it stands in a condition around such a statement or switches a region or scaler, or is used to compute one that
does: two paths that differ in nothing that decides go on as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field

import libcst as cst

from amplint.semantics.scopes import MICRO_BATCHES, TRIGGERS, is_extreme
from amplint.source.tree import children, walk
from amplint.torchlib.names import DTYPES, is_precision

AMBIGUOUS_METHODS = frozenset({"update", "step", "scale", "full", "half", "grad"})
SWITCHED = frozenset({"autocast", "GradScaler", "ShardedGradScaler", "nullcontext", "set_grad_enabled"})
EXITS = (cst.Return, cst.Break, cst.Continue)


@dataclass
class Part:
    """What one statement uses, binds and contains.

    `decisive` are the words whose value can show in the outcome: those handed to a call out of sight are not among
    them.
    """

    words: set[str] = field(default_factory=set)
    decisive: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    called: set[str] = field(default_factory=set)
    triggered: bool = False
    hands_scaler: bool = False
    leaves: bool = False
    skips: bool = False

    def add(self, other: Part) -> None:
        """Include what `other` contains."""
        self.words |= other.words
        self.decisive |= other.decisive
        self.bound |= other.bound
        self.called |= other.called
        self.triggered = self.triggered or other.triggered
        self.hands_scaler = self.hands_scaler or other.hands_scaler
        self.leaves = self.leaves or other.leaves
        self.skips = self.skips or other.skips


class Slice:
    """The statements and names of a file that matter."""

    def __init__(
        self,
        trees: Iterable[cst.Module],
        names: Set[str] = frozenset(),
        calls: Set[str] = frozenset(),
        watched: Set[str] = frozenset(),
    ) -> None:
        """What holds one of `names` matters as a call of the protocol does; one of `watched` only has to be seen."""
        self._triggers = names
        self._calls = calls
        self._watched = watched
        self._parts: dict[cst.CSTNode, Part] = {}
        self._headers: dict[cst.CSTNode, Part] = {}
        self._simple: list[Part] = []
        self._functions: dict[str, Part] = {}
        for tree in trees:
            for statement in tree.body:
                self._scan(statement)
        self._calling = self._functions_that_matter(names) | calls
        self._seeing = self._functions_that_matter(names | watched) if watched else self._calling
        waiting = [part for part in [*self._simple, *self._headers.values()] if part.bound]
        self.deciding = _closure(self._conditions(), [(part.bound, self._shown(part)) for part in waiting])
        self._used = _closure(self._uses() | self.deciding, [(part.bound, part.words) for part in waiting])
        scaling = {"scale", *(name for name, part in self._functions.items() if "scale" in part.called)}
        read = [part for part in self._simple if part.called & scaling or any(map(MICRO_BATCHES.search, part.words))]
        lost = {name for part in read for name in part.bound}
        self._read = _closure(lost, [(part.words, part.bound) for part in waiting])

    def matters(self, statement: cst.CSTNode) -> bool:
        """Whether a compound statement has to be interpreted."""
        part = self._parts.get(statement)
        if part is None or part.leaves or self._seen(part) or part.bound & self._used:
            return True
        return bool(part.words & self._read)

    def bound(self, statement: cst.CSTNode) -> set[str]:
        """The variables that `statement` or something inside it may bind."""
        return self._parts[statement].bound

    def ties(self, options: Set[str]) -> bool:
        """Whether it matters which of these dtypes or strings is chosen: a scaler may have to agree with the choice."""
        return "GradScaler" in self.deciding and all(option in DTYPES or is_precision(option) for option in options)

    def mentions(self, statement: cst.CSTNode, words: Set[str]) -> bool:
        """Whether one of `words` occurs in a compound statement."""
        return not self._parts[statement].words.isdisjoint(words)

    def _active(self, part: Part) -> bool:
        return part.triggered or bool(part.called & self._calling or part.words & self._triggers)

    def _seen(self, part: Part) -> bool:
        return self._active(part) or bool(
            self._watched and (part.hands_scaler or part.called & self._seeing or part.words & self._watched)
        )

    def _functions_that_matter(self, triggers: Set[str]) -> set[str]:
        found = {
            name
            for name, part in self._functions.items()
            if part.triggered or part.words & triggers or part.called & self._calls
        }
        while True:
            more = {name for name, part in self._functions.items() if name not in found and part.called & found}
            if not more:
                return found
            found |= more

    def _shown(self, part: Part) -> set[str]:
        return part.words if self._active(part) or part.words & SWITCHED else part.decisive

    def _conditions(self) -> set[str]:
        names: set[str] = set()
        for part in [*self._simple, *self._headers.values()]:
            if part.words & SWITCHED:
                names |= part.words
        for statement, header in self._headers.items():
            whole = self._parts[statement]
            if isinstance(statement, (cst.If, cst.While)) and (self._active(whole) or whole.skips):
                names |= header.decisive
        return names

    def _uses(self) -> set[str]:
        names: set[str] = set()
        for part in [*self._simple, *self._headers.values()]:
            if self._active(part):
                names |= part.words
        return names

    def _scan(self, statement: cst.BaseStatement | cst.BaseSmallStatement) -> Part:
        if isinstance(statement, cst.SimpleStatementLine):
            whole = Part()
            for small in statement.body:
                part = _small(small)
                self._simple.append(part)
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
        whole.add(header)
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            name = statement.name.value
            self._functions.setdefault(name, Part()).add(whole)
            whole.leaves = whole.skips = False
            whole.bound = {name}
            whole.triggered = isinstance(statement, cst.ClassDef) or whole.triggered
        if isinstance(statement, (cst.For, cst.While)):
            whole.skips = False
        self._parts[statement], self._headers[statement] = whole, header
        return whole

    def _scan_block(self, block: cst.IndentedBlock | cst.SimpleStatementSuite, whole: Part) -> None:
        if isinstance(block, cst.IndentedBlock):
            for statement in block.body:
                whole.add(self._scan(statement))
        else:
            for small in block.body:
                part = _small(small)
                self._simple.append(part)
                whole.add(part)


def _closure(names: Set[str], flows: list[tuple[set[str], set[str]]]) -> frozenset[str]:
    """`names` and, by the flows from used to bound names, every name one of them is computed from."""
    found = set(names)
    while True:
        reached = [used for bound, used in flows if bound & found and not used <= found]
        if not reached:
            return frozenset(found)
        found.update(*reached)


def _as_names(statement: cst.With) -> list[cst.CSTNode]:
    return [item.asname.name for item in statement.items if item.asname is not None]


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
    return part


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


def _decisive(tree: cst.CSTNode) -> Iterator[str]:
    """The words of an expression outside the arguments of calls, `bool(...)` and `getattr(...)` excepted."""
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, cst.Name):
            yield node.value
        elif isinstance(node, cst.Call) and not (
            isinstance(node.func, cst.Name) and node.func.value in ("bool", "getattr")
        ):
            continue
        todo.extend(children(node))


def _words(tree: cst.CSTNode, part: Part) -> None:
    part.decisive.update(_decisive(tree))
    for node in walk(tree):
        if isinstance(node, cst.Name):
            part.words.add(node.value)
            if node.value in TRIGGERS and node.value not in AMBIGUOUS_METHODS:
                part.triggered = True
        elif isinstance(node, cst.Attribute):
            if node.attr.value == "grad":
                part.triggered = True
        elif isinstance(node, cst.Call):
            _called(node, part)
        elif isinstance(node, cst.Float):
            part.triggered = part.triggered or is_extreme(node.evaluated_value)
        elif isinstance(node, cst.NamedExpr):
            _bind(node.target, part)


def _called(node: cst.Call, part: Part) -> None:
    names = (arg.value.attr if isinstance(arg.value, cst.Attribute) else arg.value for arg in node.args)
    part.hands_scaler = part.hands_scaler or any(
        isinstance(name, cst.Name) and "scaler" in name.value.lower() for name in names
    )
    if any(argument.keyword is not None and argument.keyword.value == "out" for argument in node.args):
        part.triggered = True
    if isinstance(node.func, cst.Attribute):
        name = node.func.attr.value
        part.called.add(name)
        if name in ("step", "scale", "full", "half") or (name == "update" and not node.args):
            part.triggered = True
    elif isinstance(node.func, cst.Name):
        part.called.add(node.func.value)
    else:
        part.called |= {inner.value for inner in walk(node.func) if isinstance(inner, cst.Name)}
