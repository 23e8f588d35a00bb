"""Where things stand in a file: functions, loops, blocks, call sites and the names that are bound."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import libcst as cst

from amplint.semantics.scopes import dotted
from amplint.source.rewrite import Rewriter
from amplint.source.source import Source
from amplint.source.tree import children, walk

Block = Sequence[cst.CSTNode]
Loop = cst.For | cst.While
_LOOPS = (cst.For, cst.While)


class Layout:
    """Answers questions about the places of nodes in one file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.rewrite = Rewriter(source)
        self.top: list[cst.CSTNode] = [statement for chunk in source.chunks for statement in chunk.module.body]

    def row(self, node: cst.CSTNode) -> int:
        """The row that `node` begins in."""
        return self.source.span(node).start.row

    def nodes(self) -> Iterator[cst.CSTNode]:
        """Every node of the file."""
        for statement in self.top:
            yield from walk(statement)

    def function_of(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The function whose body holds `node`, None at the top level."""
        return next((above for above in self.source.ancestors(node) if isinstance(above, cst.FunctionDef)), None)

    def class_of(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """The class whose body holds `node`."""
        return next((above for above in self.source.ancestors(node) if isinstance(above, cst.ClassDef)), None)

    def method_owner(self, function: cst.FunctionDef | None) -> cst.ClassDef | None:
        """The class that `function` is a method of."""
        if function is None:
            return None
        around = self.source.parent(self.source.parent(function) or function)
        return around if isinstance(around, cst.ClassDef) else None

    def loop_of(self, node: cst.CSTNode) -> Loop | None:
        """The innermost loop of the same function whose body holds `node`."""
        for above in self.source.ancestors(node):
            if isinstance(above, cst.FunctionDef):
                return None
            if isinstance(above, _LOOPS):
                return above
        return None

    def statement_of(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The statement with lines of its own that holds `node`."""
        return self.rewrite.statement_of(node)

    def block_of(self, statement: cst.CSTNode) -> Block:
        """The statements of the block that `statement` is directly in."""
        holder = self.source.parent(statement)
        if isinstance(holder, cst.IndentedBlock):
            return holder.body
        return self.top

    def climb(self, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, Block]]:
        """The statement that holds `node` with its block, then the compound statement around it with its own, ...

        Ends with the body of the function, or the top level.
        """
        statement = self.statement_of(node)
        while statement is not None:
            yield statement, self.block_of(statement)
            around = next(
                (
                    above
                    for above in self.source.ancestors(statement)
                    if isinstance(above, cst.BaseCompoundStatement)
                    and isinstance(self.source.parent(above), (cst.IndentedBlock, cst.Module))
                ),
                None,
            )
            statement = None if isinstance(around, (cst.FunctionDef, cst.ClassDef)) else around

    def inside(self, statement: cst.CSTNode, node: cst.CSTNode) -> bool:
        """Whether `statement` is or holds `node`."""
        return node is statement or any(above is statement for above in self.source.ancestors(node))

    def common(self, nodes: Sequence[cst.CSTNode]) -> tuple[Block, list[cst.CSTNode]] | None:
        """The innermost block that holds all `nodes`, and for each the statement of that block that it is in."""
        chains = [list(self.climb(node)) for node in nodes]
        if not all(chains):
            return None
        for statement, block in chains[0]:
            found = [next((s for s, b in chain if b is block), None) for chain in chains]
            if all(one is not None for one in found):
                return block, [one for one in found if one is not None]
            assert statement is not None
        return None

    @functools.cached_property
    def calls(self) -> dict[str, list[cst.Call]]:
        """Last name of the callee -> calls of that name."""
        found: dict[str, list[cst.Call]] = {}
        for node in self.nodes():
            if isinstance(node, cst.Call):
                found.setdefault((dotted(node.func) or "").rpartition(".")[2], []).append(node)
        return found

    @functools.cached_property
    def functions(self) -> dict[str, list[cst.FunctionDef]]:
        """Name -> functions and methods of that name."""
        found: dict[str, list[cst.FunctionDef]] = {}
        for node in self.nodes():
            if isinstance(node, cst.FunctionDef):
                found.setdefault(node.name.value, []).append(node)
        return found

    @functools.cached_property
    def words(self) -> frozenset[str]:
        """Every name in the file."""
        return frozenset(node.value for node in self.nodes() if isinstance(node, cst.Name))

    def callers(self, function: cst.FunctionDef) -> list[cst.Call] | None:
        """The calls of `function` in this file; None where another function has its name, or it is handed on."""
        return None if self.spawns(function) else self._calls_of(function)

    def passed(self, function: cst.FunctionDef, name: str) -> list[cst.BaseExpression] | None:
        """What is passed for a parameter of `function`, by processes that are spawned to run it too.

        None where that is not known of every call.
        """
        place, calls, spawns = self.parameter(function, name), self._calls_of(function), self.spawns(function)
        if place is None or calls is None:
            return None
        offset = 0 if self.method_owner(function) is None else 1
        arguments = [self.rewrite.find_argument(call, name, place[0] - offset) for call in calls]
        values = [argument.value if argument is not None else None for argument in arguments]
        for spawn in spawns:
            given = self.rewrite.find_argument(spawn, "args", 1)
            items = given.value.elements if given is not None and isinstance(given.value, cst.Tuple) else ()
            values.append(items[place[0] - 1].value if 0 < place[0] <= len(items) else None)
        found = [value for value in values if value is not None]
        return found if found and len(found) == len(values) else None

    def spawns(self, function: cst.FunctionDef) -> list[cst.Call]:
        """The calls of `torch.multiprocessing.spawn` that run `function`."""
        name = function.name.value
        return [call for call in self.calls.get("spawn", []) if call.args and dotted(call.args[0].value) == name]

    def _calls_of(self, function: cst.FunctionDef) -> list[cst.Call] | None:
        name = function.name.value
        if len(self.functions[name]) > 1:
            return None
        calls = self.calls.get(name, [])
        owner = self.method_owner(function)
        known = {_last(call.func) for call in calls} | {call.args[0].value for call in self.spawns(function)}
        for node in self.nodes():
            if isinstance(node, cst.Name) and node.value == name and node not in known and node is not function.name:
                above = self.source.parent(node)
                if isinstance(above, (cst.Param, cst.Arg)) and getattr(above, "keyword", None) is node:
                    continue
                if isinstance(above, cst.Attribute) and above.attr is node and owner is None:
                    continue
                around = self.function_of(node)
                if around is not None and self.parameter(around, name) is not None:
                    continue
                return None
        return [call for call in calls if isinstance(call.func, cst.Name) == (owner is None)]

    def parameter(self, function: cst.FunctionDef, name: str) -> tuple[int, cst.Param] | None:
        """Index and node of a plain parameter."""
        every = [*function.params.posonly_params, *function.params.params]
        return next(((index, param) for index, param in enumerate(every) if param.name.value == name), None)

    def bindings(self, function: cst.FunctionDef | None, path: str) -> list[cst.CSTNode]:
        """The assignments and loops of `function` itself (the top level for None) that bind `path`."""
        return [
            node
            for node in (walk(function.body) if function is not None else self.nodes())
            if isinstance(node, (cst.Assign, cst.AnnAssign, cst.For, cst.With, cst.NamedExpr))
            and path in bound_paths(node, whole=True)
            and self.function_of(node) is function
        ]


def _last(func: cst.BaseExpression) -> cst.CSTNode:
    return func.attr if isinstance(func, cst.Attribute) else func


def bound_paths(node: cst.CSTNode, *, whole: bool = False) -> set[str]:
    """The variables and attributes that an assignment, a loop header or a `with` header binds.

    `x` for `x.y = ...`, unless `whole` paths are asked for.
    """
    targets: list[cst.CSTNode] = []
    if isinstance(node, cst.Assign):
        targets = [target.target for target in node.targets]
    elif isinstance(node, (cst.AnnAssign, cst.AugAssign, cst.For, cst.NamedExpr, cst.CompFor)):
        targets = [node.target]
    elif isinstance(node, cst.With):
        targets = [item.asname.name for item in node.items if item.asname is not None]
    found: set[str] = set()
    while targets:
        target = targets.pop()
        if isinstance(target, (cst.Tuple, cst.List)):
            targets += [element.value for element in target.elements]
        elif isinstance(target, cst.Subscript):
            targets.append(target.value)
        elif path := dotted(target):
            found.add(path if whole else _shortened(path))
    return found


def paths(node: cst.CSTNode) -> set[str]:
    """The variables and attributes that `node` mentions, `self.x` for `self.x.y(...)` and `x` for `x.y`."""
    found: set[str] = set()
    todo = [node]
    while todo:
        inner = todo.pop()
        if (path := dotted(inner)) is not None:
            found.add(_shortened(path))
        elif isinstance(inner, cst.Arg):
            todo.append(inner.value)
        else:
            todo += children(inner)
    return found


def _shortened(path: str) -> str:
    parts = path.split(".")
    return ".".join(parts[:2]) if parts[0] == "self" else parts[0]
