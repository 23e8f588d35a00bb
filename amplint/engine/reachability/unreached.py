"""Places that an exception in front of them keeps a program from reaching."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Iterator, Set
from typing import TYPE_CHECKING

from amplint.engine.reachability.accepted import repeats_keyword, takes
from amplint.engine.reachability.before import SCOPES, before, latest
from amplint.engine.reachability.lacking import Lacking
from amplint.engine.reachability.symbols import Table, bound_names, table_of, top_table
from amplint.engine.reachability.unbound import is_unbound
from amplint.regex import regex
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import children, every

if TYPE_CHECKING:
    from amplint.semantics.events import Event
    from amplint.semantics.reading.program import Program

_DEPTH = 3
"""The number of calls within calls, and of bases of a class, that are followed."""
_MOVES = frozenset({"to", "cuda", "cpu", "float", "half", "bfloat16", "train", "eval", "requires_grad_"})
"""Methods of a model that return it."""
_LEAVING = (cst.Return, cst.Raise, cst.Continue, cst.Break)
_LATER = (*SCOPES, cst.GeneratorExp, cst.ListComp, cst.SetComp, cst.DictComp)
"""What is not evaluated where it stands, or perhaps never."""
_LEAVES = (cst.Return, cst.Raise, cst.Continue, cst.Break, cst.Yield, cst.Await)
_OPEN = regex(
    r"(?<![.\w])(?:globals\(\)|(?:locals|vars)\(\)[.\[]|setattr\(|exec\(|eval\()"
    r"|__builtins__|\bbuiltins\b|# <ipython"
)
"""What binds names that a text does not show."""
_ALWAYS_THERE = frozenset(
    {*dir(builtins), "__file__", "__path__", "__annotations__", "exit", "quit", "WindowsError"}
    | {"get_ipython", "display", "profile", "reveal_type"}
)
"""Built-in names, with those of other systems, IPython, profilers and type checkers."""
GUARD = regex(r"(?m)^if[ (]+__name__[ ]*==[ ]*[\"']__main__[\"']")
"""What starts a script by itself."""


class Unreached:
    """Answers for one program whether what is in front of an event always raises an exception.

    What runs before a place whenever it is reached are the statements above it in the blocks around it, in its function
    and in those that lead to it. A call raises if a function or class of the project lacks a parameter for what it is
    given, or is not given what it requires, and so does a call of a function that always makes such a call. So does a
    name that nothing binds, in a file that is no excerpt, a variable that nothing has bound yet, and an attribute that
    an object lacks. Behind a block that leaves where a function has returned None nothing runs if that is all that the
    function can return.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._behind: dict[cst.CSTNode, bool] = {}
        self._bodies: dict[tuple[cst.FunctionDef, int], bool] = {}
        self._names: dict[Source, _Names | None] = {}
        self._lacking = Lacking(program)

    def is_unreached(self, event: Event) -> bool:
        """Whether an exception precedes the node of `event`, or a call that leads to it.

        A call counts that leads to a function that no other file of the project calls.
        """
        if self._is_behind_exception(event.node):
            return True
        return any(
            site is not None and self._is_behind_exception(site) and not self._is_used_elsewhere(function)
            for function, site in zip(event.calls, event.sites, strict=True)
        )

    def never_runs(self, place: cst.CSTNode) -> bool:
        """Whether an exception comes before a place, or from the small statement around it, without what that calls."""
        source = self._program.source_of(place)
        inner = place
        for above in source.ancestors(place) if source is not None else ():
            if source is not None and isinstance(above, cst.SimpleStatementLine):
                return self._evaluation_raises(source, inner, 0) or self._is_behind_exception(place)
            inner = above
        return self._is_behind_exception(place)

    def _is_used_elsewhere(self, function: cst.CSTNode) -> bool:
        source = self._program.source_of(function)
        name = source.chunk_of(function).name if source is not None else None
        return name is not None and self._program.is_mentioned_elsewhere(name)

    def _is_behind_exception(self, place: cst.CSTNode) -> bool:
        if place not in self._behind:
            source = self._program.source_of(place)
            self._behind[place] = False
            self._behind[place] = source is not None and any(
                self._raises(source, earlier, _DEPTH) or self._leaves(source, earlier)
                for earlier in before(source, place)
            )
        return self._behind[place]

    def _leaves(self, source: Source, statement: cst.CSTNode) -> bool:
        """Whether a statement leaves its block where a function has returned None, and that function always does."""
        if not isinstance(statement, cst.If) or statement.orelse is not None:
            return False
        name = _tested_for_none(statement.test)
        last = [one for one in getattr(statement.body, "body", ())[-1:] if isinstance(one, cst.SimpleStatementLine)]
        if name is None or not any(isinstance(one, _LEAVING) for line in last for one in line.body):
            return False
        value = latest(source, statement, name)
        called = dotted(value.func) if isinstance(value, cst.Call) else None
        target = self._program.resolve(source, called) if called is not None else None
        return isinstance(target, Chunk) and self._returns_none(target)

    def _returns_none(self, chunk: Chunk) -> bool:
        """Whether every value that a function returns is behind an exception, which it handles."""
        function = _definition(chunk)
        if not isinstance(function, cst.FunctionDef) or function.asynchronous is not None:
            return False
        found = [*every(function.body, cst.Return, cst.Yield)]
        valued = [one for one in found if not (isinstance(one, cst.Return) and _is_none(one.value))]
        return bool(valued) and all(map(self._is_behind_exception, valued))

    def _raises(self, source: Source, statement: cst.CSTNode, depth: int) -> bool:
        """Whether a statement always raises an exception, in each of its branches."""
        if any(self._evaluation_raises(source, one, depth) for one in _heads(statement)):
            return True
        if not isinstance(statement, cst.If) or statement.orelse is None:
            return False
        other = statement.orelse
        last = other.body if isinstance(other, cst.Else) else None
        return self._block_raises(source, statement.body, depth) and (
            self._block_raises(source, last, depth) if last is not None else self._raises(source, other, depth)
        )

    def _block_raises(self, source: Source, block: cst.BaseSuite, depth: int) -> bool:
        """Whether a block always raises an exception before it can leave."""
        return any(self._raises(source, one, depth) for one in _always_run(block))

    def _evaluation_raises(self, source: Source, node: cst.CSTNode, depth: int) -> bool:
        """Whether an expression or a small statement always raises an exception."""
        names = self._names_of(source)
        function = next((one for one in source.ancestors(node) if isinstance(one, SCOPES)), None)
        table = names.table(function) if names is not None else None
        if names is None or table is None:
            return False
        for one in _evaluated(node):
            if isinstance(one, cst.Call):
                raises = self._call_raises(source, names, table, one, depth) or self._run_raises(source, one, depth)
            elif isinstance(one, cst.Attribute):
                raises = self._lacking.is_lacking(source, one)
            else:
                raises = isinstance(one, cst.Name) and (names.lacks(table, one.value) or is_unbound(source, one))
            if raises:
                return True
        return False

    def _call_raises(self, source: Source, names: _Names, table: Table, call: cst.Call, depth: int) -> bool:
        if repeats_keyword(call):
            return True
        name = dotted(call.func)
        root = name.partition(".")[0] if name is not None else ""
        target = self._program.resolve(source, name) if name is not None and names.is_global(table, root) else None
        definition = _definition(target) if isinstance(target, Chunk) else None
        if definition is None or not isinstance(target, Chunk):
            return False
        if isinstance(definition, cst.ClassDef):
            found = self._constructor(target, definition)
            raises = found is not None and not takes(found.params, call, bound=1)
        else:
            raises = not takes(definition.params, call, bound=0) or self._body_raises(target, definition, depth - 1)
        other = self._names_of(target.source) if raises else None
        return other is not None and names.binds_once(root) and other.binds_once(definition.name.value)

    def _run_raises(self, source: Source, call: cst.Call, depth: int) -> bool:
        """Whether a call of an object of the project, or of a method of one, always raises an exception."""
        found = self._method(source, call.func)
        if found is None or depth <= 0:
            return False
        chunk, method = found
        return not takes(method.params, call, bound=1) or self._body_raises(chunk, method, depth - 1)

    def _method(self, source: Source, called: cst.BaseExpression) -> tuple[Chunk, cst.FunctionDef] | None:
        """The method that a call runs: of an object that one assignment makes here, or of `self` without subclasses."""
        owner, name = (called.value, called.attr.value) if isinstance(called, cst.Attribute) else (called, "forward")
        if not isinstance(owner, cst.Name) or name.startswith("_"):
            return None
        if owner.value == "self":
            cls = next((one for one in source.ancestors(called) if isinstance(one, cst.ClassDef)), None)
            derived = cls is not None and any(_derives(one, cls.name.value) for one in self._program.sources)
            home = source.chunk_of(called)
            if cls is None or derived or name == "forward" or _definition(home) is not cls:
                return None
            if source is not self._program.main or self._program.is_mentioned_elsewhere(name):
                return None
            methods = [one for one in cls.body.body if isinstance(one, cst.FunctionDef) and one.name.value == name]
            bound = re.search(rf"\bself\.{re.escape(name)}[ \t]*=(?!=)|setattr\(", home.text) is not None
            return (home, methods[0]) if len(methods) == 1 and not methods[0].decorators and not bound else None
        made = latest(source, called, owner.value)
        while isinstance(made, cst.Call) and isinstance(made.func, cst.Attribute) and made.func.attr.value in _MOVES:
            made = made.func.value
        made_by = dotted(made.func) if isinstance(made, cst.Call) else None
        target = self._program.resolve(source, made_by) if made_by is not None else None
        definition = _definition(target) if isinstance(target, Chunk) else None
        if not isinstance(target, Chunk) or not isinstance(definition, cst.ClassDef):
            return None
        methods = [one for one in definition.body.body if isinstance(one, cst.FunctionDef) and one.name.value == name]
        alone = len(methods) == 1 and not methods[0].decorators and not definition.keywords
        is_model = any((dotted(one.value) or "").endswith("Module") for one in definition.bases)
        return (target, methods[0]) if alone and (called is not owner or is_model) else None

    def _constructor(self, chunk: Chunk, cls: cst.ClassDef, depth: int = _DEPTH) -> cst.FunctionDef | None:
        """The constructor of a class, its own or that of its only base in the project."""
        if cls.keywords or depth == 0:
            return None
        methods = {one.name.value: one for one in cls.body.body if isinstance(one, cst.FunctionDef)}
        if "__new__" in methods or "__init__" in methods:
            found = methods.get("__init__") if "__new__" not in methods else None
            return found if found is not None and not found.decorators else None
        base = dotted(cls.bases[0].value) if len(cls.bases) == 1 else None
        target = self._program.resolve(chunk.source, base) if base is not None else None
        above = _definition(target) if isinstance(target, Chunk) else None
        if not isinstance(above, cst.ClassDef) or not isinstance(target, Chunk):
            return None
        return self._constructor(target, above, depth - 1)

    def _body_raises(self, chunk: Chunk, function: cst.FunctionDef, depth: int) -> bool:
        """Whether each call of a function that takes its arguments raises an exception."""
        if depth < 0 or function.asynchronous is not None:
            return False
        if (function, depth) not in self._bodies:
            self._bodies[function, depth] = False
            makes_generator = any(every(function.body, cst.Yield))
            self._bodies[function, depth] = not makes_generator and self._block_raises(
                chunk.source, function.body, depth
            )
        return self._bodies[function, depth]

    def _names_of(self, source: Source) -> _Names | None:
        if source not in self._names:
            top = top_table(source)
            starred = None if top is None or self._may_lack_names(source) else self._starred(source)
            self._names[source] = _Names(source, top, starred) if top is not None else None
        return self._names[source]

    def _starred(self, source: Source) -> Set[str] | None:
        """The names of the modules of which a file takes all names, None if that may not be all that it gets."""
        found = set[str]()
        todo, seen = [source], {source}
        while todo:
            one = todo.pop()
            modules = self._program.starred(one)
            if modules is None or top_table(one) is None or _OPEN.search(one.text):
                return None
            beside = (name.lstrip(".").partition(".")[0] for name in _relative(one))
            found.update(bound_names(one), beside)
            todo += (module for module in modules if module not in seen)
            seen.update(modules)
        return found

    def _may_lack_names(self, source: Source) -> bool:
        """Whether a file gets names from elsewhere: a notebook, or an excerpt.

        An excerpt imports nothing of its project, and does not start by itself.
        """
        is_whole = GUARD.search(source.text) is not None or self._program.imports_project(source)
        return source.filename.endswith(".ipynb") or not is_whole


class _Names:
    """The names of a file by its symbol tables, with those `starred` that it takes from other modules.

    Without these, which an excerpt can lack as well, any name can be bound.
    """

    def __init__(self, source: Source, top: Table, starred: Set[str] | None) -> None:
        self._source = source
        self._top = top
        self._starred = starred
        self._bound = bound_names(source)

    def table(self, function: cst.CSTNode | None) -> Table | None:
        """The names of a function, of the top level for None; None for a class or a function without a name."""
        if function is None:
            return self._top
        return table_of(self._source, function) if isinstance(function, cst.FunctionDef) else None

    def is_global(self, table: Table, name: str) -> bool:
        """Whether a name that is read in `table` belongs to the file."""
        return name in self._bound and self._is_of_file(table, name)

    def lacks(self, table: Table, name: str) -> bool:
        """Whether nothing binds a name that is read in `table`."""
        if self._starred is None or name in self._starred or name in self._bound or name in _ALWAYS_THERE:
            return False
        return self._is_of_file(table, name)

    def binds_once(self, name: str) -> bool:
        """Whether no more than one place of the file can bind a name at its top level, by the look of its text."""
        one = re.escape(name)
        bound = (
            rf"(?m)^[ \t]*(?:(?:async )?def|class)[ \t]+{one}\b|^[ \t]*{one}[ \t]*(?:=(?!=)|,)|\bimport\b.*\b{one}\b"
        )
        return len(re.findall(bound, self._source.text)) < 2

    def _is_of_file(self, table: Table, name: str) -> bool:
        try:
            return table is self._top or table.lookup(name).is_global()
        except KeyError:
            return False


def _relative(source: Source) -> Iterator[str]:
    """The relative modules that a file imports, which become names of its package."""
    modules = (*(one.module for one in source.imports.values()), *source.star_imports)
    return (module for module in modules if module.startswith("."))


def _definition(chunk: Chunk) -> cst.FunctionDef | cst.ClassDef | None:
    """The function or class that a chunk defines, None if its decorators can replace it."""
    found = next((one for one in chunk.module.body if isinstance(one, (cst.FunctionDef, cst.ClassDef))), None)
    return found if found is not None and not found.decorators else None


def _derives(source: Source, name: str) -> bool:
    """Whether a file has a class that derives from one of this name."""
    return re.search(rf"\bclass[ \t]+\w+[ \t]*\([^)]*\b{re.escape(name)}\b", source.text) is not None


def _is_none(value: cst.BaseExpression | None) -> bool:
    return value is None or (isinstance(value, cst.Name) and value.value == "None")


def _tested_for_none(test: cst.BaseExpression) -> str | None:
    """The variable of `x is None` and `not x`."""
    value: cst.BaseExpression | None = None
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        value = test.expression
    elif isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        other = test.comparisons[0]
        value = test.left if isinstance(other.operator, cst.Is) and _is_none(other.comparator) else None
    return value.value if isinstance(value, cst.Name) else None


def _heads(statement: cst.CSTNode) -> Iterable[cst.CSTNode]:
    """What always runs of a statement."""
    if isinstance(statement, cst.SimpleStatementLine):
        return statement.body
    if isinstance(statement, (cst.If, cst.While)):
        return (statement.test,)
    return (statement.iter,) if isinstance(statement, cst.For) else ()


def _always_run(block: cst.BaseSuite) -> Iterator[cst.CSTNode]:
    """The statements of a block that always run, up to the one with which it can leave."""
    for statement in block.body if isinstance(block, cst.IndentedBlock) else ():
        yield statement
        if any(every(statement, *_LEAVES)):
            return


def _evaluated(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The calls that always run where `node` does, and the names and attributes that are read."""
    if isinstance(node, _LATER):
        return
    inner: Iterable[cst.CSTNode] = children(node)
    if isinstance(node, (cst.Call, cst.Name, cst.Attribute)):
        yield node
    if isinstance(node, (cst.Attribute, cst.Arg)):
        inner = (node.value,)
    elif isinstance(node, cst.BooleanOperation):
        inner = (node.left,)
    elif isinstance(node, cst.IfExp):
        inner = (node.test,)
    elif isinstance(node, (cst.Assign, cst.AnnAssign)):
        inner = (node.value,) if node.value is not None else ()
    elif isinstance(node, (cst.Assert, cst.Global, cst.Nonlocal, cst.Import, cst.ImportFrom, cst.Del, cst.AugAssign)):
        inner = ()
    for child in inner:
        yield from _evaluated(child)
