"""What becomes of the half outputs of models: found by running a conversion with these, repaired in float32."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from amplint.codemods.conversion import Remark
from amplint.codemods.repairs import all_rules
from amplint.codemods.surroundings import look_at_the_clock, modules
from amplint.engine.dispatch import Dispatcher
from amplint.engine.modules import Lookups
from amplint.engine.screen import words_of
from amplint.findings import Edit, Finding, Fix, Span
from amplint.fixes.apply import apply_round
from amplint.semantics import interpret
from amplint.semantics.events import Event, Operation, OutputInHalf
from amplint.semantics.reading.program import Program
from amplint.source import syntax as cst
from amplint.source.rewrite import Rewriter
from amplint.source.source import Source
from amplint.source.tree import every
from amplint.torchlib.names import HALF_DTYPES

_RULES = (
    "constant-overflows-half",
    "constant-vanishes-in-half",
    "infinity-in-half",
    "square-overflows-half",
    "integers-in-half",
    "accumulation-in-half",
    "loss-in-half",
    "bfloat16-to-numpy",
    "dtype-mismatch-after-autocast",
    "unsupported-half-op",
    "inplace-or-out-under-autocast",
)
"""The rules about what goes wrong in half."""
_LARGEST = 6
"""How many outputs are tried one by one."""


class Found(NamedTuple):
    """The findings where outputs are half, and the places of those outputs that certainly are tensors.

    `wide` are the files and rows of operations that nevertheless run on float32 each time, by paths.
    """

    findings: tuple[Finding, ...]
    tensors: frozenset[Span]
    wide: frozenset[tuple[str, int]]


class Lift(NamedTuple):
    """The edit that converts an output to float32, and its row."""

    row: int
    edit: Edit


class _Watch:
    """Which outputs are worked on as tensors are, and which operations run on float32, by their nodes."""

    def __init__(self) -> None:
        self._given: dict[int, OutputInHalf] = {}
        self.tensors: set[cst.CSTNode] = set()
        self.wide: dict[cst.CSTNode, bool] = {}

    def __call__(self, event: Event) -> None:
        """Take note of an event."""
        if isinstance(event, OutputInHalf):
            self._given[event.output] = event
        elif isinstance(event, Operation):
            for operand in event.operands:
                output = self._given.get(getattr(operand.value, "symbol", -1))
                if output is not None and event.op not in ("index", "part"):
                    self.tensors.add(output.target or output.node)
            dtypes = {operand.dtype for operand in event.operands}
            wide = event.raises is None and "float32" in dtypes and dtypes.isdisjoint(HALF_DTYPES)
            self.wide[event.node] = wide and self.wide.get(event.node, True)


@functools.lru_cache(maxsize=8)
def found(text: str, path: str) -> Found:
    """What goes wrong in `text` if the models of its regions give half tensors, also in the files that it imports."""
    look_at_the_clock()
    rules = [rule for rule in all_rules() if rule.name in _RULES]
    assuming = [rule for rule in rules if rule.assumed]
    source = Source(path or "<text>", text, path)
    lookups = Lookups(modules(), source)
    program = Program(source, lookups, whole=True, around=lookups)
    dispatcher = Dispatcher(program, rules, {rule.code for rule in assuming}, whole=True)
    watch = _Watch()

    def tell(event: Event) -> None:
        watch(event)
        dispatcher.emit(event)

    kinds = dispatcher.kinds | {Operation.kind, OutputInHalf.kind}
    interpret(program, tell, kinds, words_of(assuming), halves=True)
    tensors = frozenset(source.span(node) for node in watch.tensors if source.owns(node))
    homes = ((node, program.source_of(node)) for node, wide in watch.wide.items() if wide)
    wide = frozenset((home.path, home.span(node).start.row) for node, home in homes if home is not None)
    narrow = ((node, program.source_of(node)) for node, wide in watch.wide.items() if not wide)
    wide -= {(home.path, home.span(node).start.row) for node, home in narrow if home is not None}
    return Found(tuple(dispatcher.findings()), tensors, wide)


def in_float32(text: str, path: str, dtype: str) -> tuple[str, list[Remark]]:
    """`text` with those outputs in float32 without which less goes wrong, with remarks by the rows of `text`."""
    before = _number(text, path, dtype)
    lifts = list(_lifts(text, path)) if before else []
    chosen, fewest = lifts, _number(_lifted(text, lifts), path, dtype) if lifts else before
    if fewest >= before:
        return text, []
    for lift in lifts if 1 < len(lifts) <= _LARGEST else ():
        fewer = [one for one in chosen if one is not lift]
        if _number(_lifted(text, fewer), path, dtype) <= fewest:
            chosen = fewer
    done = [Remark(lift.row, "convert what the model gives to float32") for lift in chosen]
    return _lifted(text, chosen), done


def _number(text: str, path: str, dtype: str) -> int:
    return len([one for one in found(text, path).findings if can_happen(one, dtype)])


def can_happen(finding: Finding, dtype: str) -> bool:
    """Whether a finding is about `dtype`, as far as it names one."""
    named = {one for one in ("float16", "bfloat16") if re.search(rf"\b{one}\b", finding.message)}
    return not named or dtype in named


def _lifts(text: str, path: str) -> Iterator[Lift]:
    """The outputs that training and evaluation are given, and the edits that make each float32."""
    tensors, source = found(text, path).tensors, Source(path or "<text>", text, path)
    rewrite = Rewriter(source)
    for chunk in source.chunks:
        for node in every(chunk.module, cst.Call, cst.Name, cst.Attribute):
            span, above = source.span(node), source.parent(node)
            if span not in tensors or _is_within_a_model(source, node):
                continue
            if isinstance(node, cst.Call):
                if not (isinstance(above, cst.Attribute) and above.attr.value == "float"):
                    yield Lift(span.start.row, rewrite.add_float(node))
            elif isinstance(above, cst.Element):
                name = source.code(node)
                edit = rewrite.insert_after(node, f"{name} = {name}.float()")
                if edit is not None:
                    yield Lift(span.start.row, edit)


def _is_within_a_model(source: Source, node: cst.CSTNode) -> bool:
    return any(isinstance(one, cst.FunctionDef) and one.name.value == "forward" for one in source.ancestors(node))


def _lifted(text: str, lifts: Sequence[Lift]) -> str:
    new, _ = apply_round(text, [Fix("Convert the output to float32", (lift.edit,)) for lift in lifts])
    return new
