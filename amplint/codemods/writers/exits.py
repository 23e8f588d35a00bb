"""Regions that end with their forward passes, whose outputs leave them in float32."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from amplint.findings import Edit, Position, Span
from amplint.source import syntax as cst
from amplint.source.tree import children, every, walk
from amplint.torchlib.catalogue import OPERATIONS
from amplint.torchlib.names import TO_FLOAT32
from amplint.torchlib.policy import FLOAT32, LOWER
from amplint.training.bindings import called_name
from amplint.training.flow import Flow
from amplint.training.observed import Observed
from amplint.training.script import Script
from amplint.training.staying import Staying

_HELPER = '''def {name}(value):
    """Half tensors as float32, also those in lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value
    if isinstance(value, dict):
        return type(value)({{key: {name}(one) for key, one in value.items()}})
    if isinstance(value, (list, tuple)):
        parts = [{name}(one) for one in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value
'''
_GAP = 2
_DEPTH = 3
"""The limit of functions of the file through which a region follows the models that it runs."""
_Statements = list[cst.CSTNode]


class Exits:
    """Decides for regions which outputs become float32, and ends those regions with their forward passes.

    `casts` are the calls whose results become float32.
    """

    def __init__(self, script: Script, observed: Observed, flow: Flow, parts: Callable[[cst.CSTNode], bool]) -> None:
        self._script = script
        self._staying = Staying(script, observed, flow)
        self._parts = parts
        self.casts: dict[cst.Call, None] = {}
        self._seen = set[cst.CSTNode]()
        self._name = script.fresh(TO_FLOAT32)

    def narrowed(self, statements: _Statements) -> list[_Statements] | None:
        """The regions that the forward passes in a region need by themselves; None if its outputs may stay half.

        A region without any, behind one that has become narrower, is none.
        """
        simple = list(self._passes(statements, _DEPTH))
        if not simple and self._script.function_of(statements[0]) in map(self._script.function_of, self.casts):
            return []
        calls = [call for one in simple for call in self._staying.outermost(one)]
        if all(self._staying.stays_half(call, statements) for call in calls):
            return None
        wide = [call for call in calls if not self._staying.stays_half(call, simple)]
        self.casts |= dict.fromkeys(wide)
        fresh = [one for one in simple if one not in self._seen]
        self._seen.update(fresh)
        return list(self._runs(fresh))

    def edits(self) -> Iterator[Edit]:
        """The casts, and the function that makes some of them."""
        helped = [call for call in self.casts if not self._staying.is_tensor(call)]
        for call in self.casts:
            span = self._script.source.span(call)
            if call in helped:
                yield Edit(Span(span.start, span.start), f"{self._name}(")
                yield Edit(Span(span.end, span.end), ")")
            else:
                yield self._script.rewrite.add_float(call)
        if helped:
            first = min(helped, key=self._script.row)
            top = next(one for one in self._script.source.ancestors(first) if one in self._script.top)
            row = self._script.lines.commented(self._script.rewrite.start(top).row)
            lines, place = self._script.lines, Position(row, 1)
            above = sum(row > one and lines.blank(row - one) for one in (1, 2))
            code = "\n" * (2 - above) * (row > 1) + _HELPER.format(name=self._name) + "\n\n"
            code = code.replace("    ", self._script.source.chunk_of(top).default_indent)
            yield Edit(Span(place, place), code.replace("\n", self._script.source.newline))

    def _passes(self, statements: Iterable[cst.CSTNode], depth: int) -> Iterator[cst.CSTNode]:
        """The innermost statements that run models, also in functions of the file that `statements` call."""
        for one in statements:
            if any(map(self._staying.runs_model, walk(one))):
                own = [each for call in self._staying.outermost(one) for each in self._staying.functions(call) if depth]
                inner = [each for block in _blocks(one) for each in block]
                deeper = [each for function in dict.fromkeys(own) for each in function.body.body]
                yield from list(self._passes(inner, depth)) or list(self._passes(deeper, depth - 1)) or [one]

    def _runs(self, statements: _Statements) -> Iterator[_Statements]:
        """`statements` in groups of near ones of a block, with what stands between them, if that computes little."""
        run = list[cst.CSTNode]()
        for one in statements:
            block = list(self._script.block_of(one))
            if run and run[-1] in block:
                between = block[block.index(run[-1]) + 1 : block.index(one)]
                if len(between) <= _GAP and not any(map(self._parts, between)) and all(map(_is_plain, between)):
                    run += [*between, one]
                    continue
            if run:
                yield run
            run = [one]
        if run:
            yield run


def _is_plain(statement: cst.CSTNode) -> bool:
    """Whether a statement calls nothing but operations that autocast leaves alone."""
    calls = list(every(statement, cst.Call))
    return isinstance(statement, cst.SimpleStatementLine) and all(
        called_name(call) in OPERATIONS.keys() - LOWER - FLOAT32 for call in calls
    )


def _blocks(statement: cst.CSTNode) -> Iterator[list[cst.CSTNode]]:
    """The blocks of a compound statement, those of its other clauses included."""
    for child in children(statement):
        if isinstance(child, cst.IndentedBlock):
            yield [*child.body]
        elif not isinstance(child, (cst.BaseExpression, cst.BaseSmallStatement)):
            yield from _blocks(child)
