"""Attributes that an object does not have, so that reading them raises an exception."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING

from amplint.engine.reachability.before import bound_in, latest
from amplint.engine.reachability.callers import calls_of, given, parameter_of
from amplint.regex import regex
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Chunk, Source
from amplint.source.tree import every
from amplint.torchlib.wrappers import MODULE, WRAPPED

if TYPE_CHECKING:
    from amplint.semantics.reading.program import Program

_DEPTH = 3
"""The number of callers, and of bases of a class, that are followed."""
_WRAPPERS = frozenset(name.rpartition(".")[2] for name in WRAPPED)
_OPEN = regex(
    r"__getattr|__slots__|__dict__|\b(?:setattr|exec|eval|globals|locals|vars)\(|dataclass|metaclass|\bBunch\b"
)
"""What gives objects attributes that a text does not show."""
_PLAIN = {"object": frozenset[str](), "torch.nn.Module": MODULE, "torch.nn.modules.module.Module": MODULE}
"""Library classes whose attributes are known, and their public ones."""
_PARSED = regex(r"\b(\w+)[ \t]*=[ \t]*(\w+)\.parse_args\(")
_OPEN_OPTIONS = regex(
    r"parse_known_args|\bparents[ \t]*=|set_defaults|Namespace|\bnamespace[ \t]*=|_arguments\(|_args\((?!\))"
)
"""What gives the result of a parser attributes that the calls of `add_argument` do not show."""


class Lacking:
    """Answers for one program whether an object lacks an attribute.

    The objects are wrappers of models, `self` in a class of which all bases are known, modules of the project, and the
    result of an `ArgumentParser`, each as far as nothing can give it an attribute unseen.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._wraps = any(one in source.text for source in program.sources for one in _WRAPPERS)

    def is_lacking(self, source: Source, node: cst.Attribute) -> bool:
        """Whether the object of an attribute that is read has none of this name."""
        if node.attr.value.startswith("_"):
            return False
        if self._wraps and self._is_lacking_in_wrapper(source, node):
            return True
        if not isinstance(node.value, cst.Name):
            return False
        if node.value.value == "self":
            return self._is_lacking_in_class(source, node)
        return self._is_lacking_in_module(source, node) or self._is_lacking_in_options(source, node)

    def _is_lacking_in_wrapper(self, source: Source, node: cst.Attribute) -> bool:
        name, owner = node.attr.value, dotted(node.value)
        if owner is None or name in MODULE or all(name in there for there in WRAPPED.values()):
            return False
        if re.search(rf"\bsetattr\(|\.{re.escape(name)}[ \t]*=(?!=)", source.text):
            return False
        there = self._wrapper(source, node.value, _DEPTH)
        return there is not None and name not in there

    def _wrapper(self, source: Source, value: cst.BaseExpression, depth: int) -> Set[str] | None:
        """The attributes of the wrapper of a model that an expression certainly is, None for any other object."""
        if isinstance(value, cst.Call):
            called = dotted(value.func)
            return WRAPPED.get(qualified(source, called)) if called is not None else None
        if isinstance(value, cst.Attribute):
            made = _made_in_constructor(source, value)
            return self._wrapper(source, made, 0) if isinstance(made, cst.Call) else None
        if not isinstance(value, cst.Name):
            return None
        made = latest(source, value, value.value)
        function = source.function_around(value)
        if made is not None or function is None:
            return self._wrapper(source, made, 0) if isinstance(made, cst.Call) else None
        param = parameter_of(function, value.value)
        if depth == 0 or param is None or value.value in bound_in(function.body):
            return None
        calls = calls_of(self._program, source, function.name.value) if not function.decorators else None
        found = [self._passed(home, call, param, depth) for home, call in calls or ()]
        known = [one for one in found if one is not None]
        return frozenset[str]().union(*known) if known and len(known) == len(found) else None

    def _passed(self, source: Source, call: cst.Call, param: tuple[int, cst.Param], depth: int) -> Set[str] | None:
        passed = given(call, *param)
        return self._wrapper(source, passed, depth - 1) if passed is not None else None

    def _is_lacking_in_class(self, source: Source, node: cst.Attribute) -> bool:
        """Whether no class of an object binds the attribute: each mention of its name in the file reads it of `self`.

        Elsewhere its name does not occur.
        """
        name = node.attr.value
        cls = next((one for one in source.ancestors(node) if isinstance(one, cst.ClassDef)), None)
        if cls is None or source is not self._program.main or not source.path or _OPEN.search(source.text):
            return False
        mentions = re.findall(rf"(?<!\w){re.escape(name)}(?!\w)", source.text)
        reads = re.findall(
            rf"\bself\.{re.escape(name)}(?!\w)(?![ \t]*(?:[-+*/|&]?=(?!=)|:[ \t]*\w|,[^()\n]*=))", source.text
        )
        if len(mentions) != len(reads) or self._program.is_mentioned_elsewhere(name):
            return False
        inherited = self._inherited(source, cls, _DEPTH)
        return inherited is not None and name not in inherited

    def _inherited(self, source: Source, cls: cst.ClassDef, depth: int) -> Set[str] | None:
        """The attributes of the library classes that a class derives from, None if one of them is not known."""
        if depth == 0 or cls.keywords or cls.decorators:
            return None
        found = set[str]()
        for base in cls.bases:
            name = dotted(base.value)
            target = self._program.resolve(source, name) if name is not None else None
            above = _class(target) if isinstance(target, Chunk) else None
            if above is not None and isinstance(target, Chunk):
                more = self._inherited(target.source, above, depth - 1) if not _OPEN.search(target.text) else None
            else:
                more = _PLAIN.get(qualified(source, name)) if name is not None else None
            if more is None:
                return None
            found |= more
        return found

    def _is_lacking_in_module(self, source: Source, node: cst.Attribute) -> bool:
        """Whether a module of the project does not mention the name of an attribute, and nothing else can bind it."""
        name, owner = node.attr.value, dotted(node.value) or ""
        module = self._program.resolve(source, owner) if owner in source.imports else None
        if isinstance(module, Chunk) or module is None or isinstance(module, str):
            return False
        if not module.path or module.path.endswith("__init__.py") or module.star_imports or _OPEN.search(module.text):
            return False
        binds = re.compile(rf"\.{re.escape(name)}[ \t]*(?:[-+*/]?=(?!=)|:)")
        if any(binds.search(one.text) for one in self._program.sources):
            return False
        if latest(source, node, owner) is not None or owner in _bound_by_functions(source, node):
            return False
        return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", module.text) is None

    def _is_lacking_in_options(self, source: Source, node: cst.Attribute) -> bool:
        """Whether a parser of the file declares no option of this name, which nothing else mentions."""
        name, owner = node.attr.value, dotted(node.value) or ""
        parsers = {parser for target, parser in _parsed(source) if target == owner}
        if not parsers or source is not self._program.main or not source.path:
            return False
        if _OPEN.search(source.text) or _OPEN_OPTIONS.search(source.text):
            return False
        bound = rf"(?m)^[ \t]*{owner}[ \t]*=(?!=)(?!.*\.parse_args\()|\b(?:as|for) {owner}\b|\bimport\b.*\b{owner}\b"
        made = all(re.search(rf"\b{one}[ \t]*=[ \t]*(?:argparse\.)?ArgumentParser\(", source.text) for one in parsers)
        passed = any(re.search(rf"[(,][ \t]*{one}[ \t]*[,)]", source.text) for one in parsers)
        if not made or passed or re.search(bound, source.text):
            return False
        function = source.function_around(node)
        if function is not None and parameter_of(function, owner) is not None:
            chunk = source.chunk_of(function).name
            if chunk is None or self._program.is_used_elsewhere(chunk):
                return False
        mentions = re.findall(
            rf"(?<!\w){re.escape(name)}(?!\w)|--{re.escape(name.replace('_', '-'))}(?![\w-])", source.text
        )
        reads = re.findall(rf"\b{owner}\.{re.escape(name)}(?!\w)(?![ \t]*(?:[-+*/|&]?=(?!=)|,[^()\n]*=))", source.text)
        others = (one.text for one in self._program.sources if one is not source)
        return len(mentions) == len(reads) and not any(re.search(rf"\b{re.escape(name)}\b", one) for one in others)


@cached_per_file
def _parsed(source: Source) -> list[tuple[str, str]]:
    """The variables of a file that hold the result of a parser, each with that parser."""
    return _PARSED.findall(source.text)


def qualified(source: Source, name: str) -> str:
    """The full name of what a file imports under a dotted name."""
    root, dot, rest = name.partition(".")
    one = source.imports.get(root)
    return f"{one.module}{'.' if one.name else ''}{one.name}{dot}{rest}" if one is not None else name


def _class(chunk: Chunk) -> cst.ClassDef | None:
    return next((one for one in chunk.module.body if isinstance(one, cst.ClassDef)), None)


def _bound_by_functions(source: Source, node: cst.CSTNode) -> Iterator[str]:
    """The names that the function around a place binds: its parameters and variables."""
    function = source.function_around(node)
    if function is not None:
        yield from (one.name.value for one in every(function.params, cst.Param))
        yield from bound_in(function.body)


def _made_in_constructor(source: Source, value: cst.Attribute) -> cst.BaseExpression | None:
    """What the constructor assigns to an attribute of `self` last and in any case, None if something else binds it."""
    cls = next((one for one in source.ancestors(value) if isinstance(one, cst.ClassDef)), None)
    path = dotted(value) or ""
    if cls is None or not path.startswith("self.") or path.count(".") > 1:
        return None
    return _constructed(cls).get(path)


@cached_per_file
def _constructed(cls: cst.ClassDef) -> Mapping[str, cst.BaseExpression]:
    """The values that the constructor of a class assigns last and in any case, by what only it assigns to."""
    found: dict[str, cst.BaseExpression] = {}
    elsewhere = set[str]()
    for method in (one for one in cls.body.body if isinstance(one, cst.FunctionDef)):
        always = {one for line in _lines(method) for one in line.body} if method.name.value == "__init__" else set()
        for assign in every(method, cst.Assign):
            for path in filter(None, (dotted(one.target) for one in assign.targets)):
                if assign in always:
                    found[path] = assign.value
                else:
                    elsewhere.add(path)
    return {path: value for path, value in found.items() if path not in elsewhere}


def _lines(function: cst.FunctionDef) -> Iterator[cst.SimpleStatementLine]:
    body = function.body.body if isinstance(function.body, cst.IndentedBlock) else ()
    return (one for one in body if isinstance(one, cst.SimpleStatementLine))
