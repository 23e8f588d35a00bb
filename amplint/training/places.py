"""Positions of nodes in a text: functions, loops, blocks and statements."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from amplint.source import syntax as cst
from amplint.source.rewrite import Rewriter
from amplint.source.source import Source
from amplint.source.tree import Kind, walk
from amplint.training.bindings import bound_paths, positional
from amplint.training.refusal import SHARED, Refusal

Block = Sequence[cst.CSTNode]
Loop = cst.For | cst.While
_LOOPS = (cst.For, cst.While)


def clauses(condition: cst.If) -> Iterator[cst.If | cst.Else]:
    """An `if` and its other clauses: each `elif`, and the `else`."""
    clause: cst.If | cst.Else | None = condition
    while clause is not None:
        yield clause
        clause = clause.orelse if isinstance(clause, cst.If) else None


class Places:
    """Structural queries on the nodes of one file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.rewrite = Rewriter(source)

    @functools.cached_property
    def top(self) -> list[cst.CSTNode]:
        """The statements of the top level."""
        return [statement for chunk in self.source.chunks for statement in chunk.module.body]

    @functools.cached_property
    def nodes(self) -> list[cst.CSTNode]:
        """Every node, in the order of the text."""
        return [node for chunk in self.source.chunks for node in walk(chunk.module)]

    def of_kind(self, *kinds: type[Kind]) -> Iterator[Kind]:
        """The nodes of these kinds."""
        return (node for node in self.nodes if isinstance(node, kinds))

    @functools.cached_property
    def calls(self) -> list[cst.Call]:
        """Every call."""
        return list(self.of_kind(cst.Call))

    @functools.cached_property
    def words(self) -> frozenset[str]:
        """Every name in the file."""
        return frozenset(node.value for node in self.of_kind(cst.Name))

    def row(self, node: cst.CSTNode) -> int:
        """The row in which `node` begins."""
        return self.source.span(node).start.row

    def rows(self, node: cst.CSTNode) -> tuple[int, int]:
        """The first and the last row of a node."""
        span = self.source.span(node)
        return span.start.row, span.end.row

    def text_of(self, node: cst.CSTNode) -> str:
        """The text of `node`."""
        return self.rewrite.text(node)

    def function_of(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The function whose body contains `node`; None at the top level."""
        return self._homes.get(node)

    @functools.cached_property
    def _homes(self) -> dict[cst.CSTNode, cst.FunctionDef | None]:
        homes: dict[cst.CSTNode, cst.FunctionDef | None] = {}
        for node in self.nodes:
            above = self.source.parent(node)
            inherited = homes.get(above) if above is not None else None
            homes[node] = above if isinstance(above, cst.FunctionDef) else inherited
        return homes

    def method_owner(self, function: cst.FunctionDef | None) -> cst.ClassDef | None:
        """The class of which `function` is a method."""
        if function is None:
            return None
        around = self.source.parent(self.source.parent(function) or function)
        return around if isinstance(around, cst.ClassDef) else None

    def nodes_of(self, function: cst.FunctionDef | None) -> Iterator[cst.CSTNode]:
        """The nodes in the body of `function` (the top level for None), without those of functions in it."""
        every = walk(function.body) if function is not None else self.nodes
        return (node for node in every if self.function_of(node) is function)

    def returns(self, function: cst.FunctionDef) -> list[cst.Return]:
        """The `return` statements of `function` itself."""
        return [node for node in self.nodes_of(function) if isinstance(node, cst.Return)]

    def is_main(self, node: cst.CSTNode) -> bool:
        """Whether `node` is an `if __name__ == "__main__"`."""
        return isinstance(node, cst.If) and "__name__" in self.text_of(node.test)

    def is_elif(self, node: cst.CSTNode) -> bool:
        """Whether `node` is an `elif`."""
        above = self.source.parent(node)
        return isinstance(above, cst.If) and above.orelse is node

    def loop_of(self, node: cst.CSTNode) -> Loop | None:
        """The innermost loop of the same function whose body contains `node`."""
        for above in self.source.ancestors(node):
            if isinstance(above, cst.FunctionDef):
                return None
            if isinstance(above, _LOOPS):
                return above
        return None

    def loops_around(self, node: cst.CSTNode) -> list[Loop]:
        """The loops of the same function whose bodies contain `node`, the innermost first."""
        found: list[Loop] = []
        while (loop := self.loop_of(found[-1] if found else node)) is not None:
            found.append(loop)
        return found

    def parameter(self, function: cst.FunctionDef, name: str) -> tuple[int, cst.Param] | None:
        """The index and node of a positional parameter."""
        every = enumerate(positional(function))
        return next(((index, param) for index, param in every if param.name.value == name), None)

    def assignments(self, function: cst.FunctionDef | None, path: str) -> list[cst.CSTNode]:
        """The assignments and loops of `function` itself (the top level for None) that bind `path`."""
        return [*self._assignments.get((function, path), ())]

    @functools.cached_property
    def _assignments(self) -> dict[tuple[cst.FunctionDef | None, str], list[cst.CSTNode]]:
        found: dict[tuple[cst.FunctionDef | None, str], list[cst.CSTNode]] = {}
        for node in self.of_kind(cst.Assign, cst.AnnAssign, cst.For, cst.With, cst.NamedExpr):
            for path in bound_paths(node, whole=True):
                found.setdefault((self.function_of(node), path), []).append(node)
        return found

    def statement_of(self, node: cst.CSTNode) -> cst.SimpleStatementLine | cst.BaseCompoundStatement | None:
        """The statement on lines of its own that contains `node`."""
        return self.rewrite.statement_of(node)

    def statement(self, node: cst.CSTNode) -> cst.SimpleStatementLine | cst.BaseCompoundStatement:
        """The statement that contains `node` and shares its rows with no other. Raises Refusal."""
        found = self.statement_of(node)
        if found is None or (isinstance(found, cst.SimpleStatementLine) and len(found.body) > 1):
            raise Refusal(self.row(node), SHARED)
        return found

    def block_of(self, statement: cst.CSTNode) -> Block:
        """The statements of the block that directly contains `statement`."""
        holder = self.source.parent(statement)
        if isinstance(holder, cst.IndentedBlock):
            return holder.body
        return self.top

    def enclosing_statements(self, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, Block]]:
        """The statement that contains `node` with its block, then the compound statement around it with its own, ...

        Begins with the compound statement if `node` stands in its row. Ends with the body of the function, or the top
        level.
        """
        statement: cst.CSTNode | None = self.statement_of(node) or self._around(node)
        while statement is not None:
            yield statement, self.block_of(statement)
            statement = self._around(statement)

    def _around(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The innermost compound statement in a block of its own around `node`, within the same function."""
        around = next(
            (
                above
                for above in self.source.ancestors(node)
                if isinstance(above, cst.BaseCompoundStatement)
                and isinstance(self.source.parent(above), (cst.IndentedBlock, cst.Module))
            ),
            None,
        )
        return None if isinstance(around, (cst.FunctionDef, cst.ClassDef)) else around

    def inside(self, statement: cst.CSTNode, node: cst.CSTNode) -> bool:
        """Whether `statement` is or contains `node`."""
        return node is statement or statement in self.source.ancestors(node)

    def exclude(self, one: cst.CSTNode, other: cst.CSTNode) -> bool:
        """Whether two nodes stand in different branches of an `if`, so that only one of them runs."""
        for around in self.source.ancestors(one):
            if isinstance(around, cst.If):
                blocks = [clause.body for clause in clauses(around)]
                homes = [next((each for each in blocks if self.inside(each, node)), None) for node in (one, other)]
                if None not in homes and homes[0] is not homes[1]:
                    return True
        return False

    def common(self, nodes: Sequence[cst.CSTNode]) -> tuple[Block, list[cst.CSTNode]] | None:
        """The innermost block that contains all `nodes`, and for each the statement of that block that contains it."""
        chains = [list(self.enclosing_statements(node)) for node in nodes]
        if not all(chains):
            return None
        for _, block in chains[0]:
            found = [next((s for s, b in chain if b is block), None) for chain in chains]
            if all(one is not None for one in found):
                return block, [one for one in found if one is not None]
        return None
