"""What the linter claims about the values a program shows, and how that differs from what PyTorch made of them."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from unittest import mock

from amplint.engine.dispatch import Dispatcher
from amplint.rule import Registry
from amplint.semantics.events import Event, Operand, Operation
from amplint.semantics.python import interpreter
from amplint.semantics.python.expressions import evaluate
from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.program import Program
from amplint.semantics.trackers import TRACKERS
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Tensor, Value
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import children, every, walk
from amplint.torchlib.names import DTYPES
from amplint.torchlib.promotion import SOME_DIMENSIONS
from tests.dtypes.oracle import Outcome, observe

KINDS = Dispatcher(Program(Source("nothing.py", "")), Registry().load().rules.values()).kinds | {Operation.kind}
NOT_CONVERTED = frozenset({"float64", "bool", "uint8", "int8", "int16", "int32", "int64"})
"""Dtypes that autocast does not convert."""
DTYPE_NAMES = frozenset(DTYPES.values())


@dataclass
class Claims:
    """What the linter says of a program, on all its paths.

    Line of `see` -> the value's dtype, None where it is not known; the dtype it supposes, certain only that the
    value has no other that autocast would convert; how many dimensions it has, None where that is not known; the
    lines it says can raise, those it says always do for certain, and those where it does not know the dtype of an
    operand, or only supposes it, so that it leaves open whether they raise.
    """

    dtypes: dict[int, set[str | None]] = field(default_factory=lambda: defaultdict(set))
    supposed: dict[int, set[str | None]] = field(default_factory=lambda: defaultdict(set))
    ranks: dict[int, set[int | None]] = field(default_factory=lambda: defaultdict(set))
    raises: set[int] = field(default_factory=set)
    always: set[int] = field(default_factory=set)
    unsure: set[int] = field(default_factory=set)


def claims(text: str) -> Claims:
    """What the linter says of a program."""
    source = Source("program.py", text)
    found = Claims()
    raises, passes = set[cst.CSTNode](), set[cst.CSTNode]()
    shown = {node for chunk in source.chunks for node in _shown(chunk.module)}
    chosen = {node for chunk in source.chunks for node in _chosen(chunk.module)}
    rows = _rows(source)

    def watching(machine: Machine, state: State, node: cst.CSTNode) -> Value:
        value = evaluate(machine, state, node)
        if node in shown and not machine.muted and machine.wanted is KINDS:
            row = rows[node]
            dtype = value.dtype if isinstance(value, Tensor) and value.dtype in DTYPE_NAMES else None
            found.supposed[row].add(dtype)
            found.ranks[row].add(value.rank if isinstance(value, Tensor) else None)
            found.dtypes[row].add(dtype if isinstance(value, Tensor) and not value.supposed else None)
        return value

    def told(event: Event) -> None:
        if not isinstance(event, Operation):
            return
        line = rows[event.node]
        certain = event.raises is not None and not any(map(_is_supposed, event.operands)) and event.node not in chosen
        (raises if certain else passes).add(event.node)
        if event.raises is not None:
            found.raises.add(line)
        if any(operand.dtype is None or _is_supposed(operand) for operand in _tensors(event)):
            found.unsure.add(line)

    with (
        mock.patch.object(interpreter, "evaluate", watching),
        mock.patch.object(interpreter, "renamed_triggers", return_value=frozenset({"see"})),
    ):
        interpreter.interpret(Program(source), told, KINDS, TRACKERS)
    found.always = {rows[node] for node in raises - passes}
    return found


def _rows(source: Source) -> dict[cst.CSTNode, int]:
    """The row of every node of a program each of whose statements is one line; to ask for each node costs more."""
    known = _in_order(ast.parse(source.text))
    found: dict[cst.CSTNode, int] = {}

    def note(node: cst.CSTNode, row: int) -> None:
        if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            row = next(known)
        found[node] = row
        for child in children(node):
            note(child, row)

    for chunk in source.chunks:
        note(chunk.module, 0)
    return found


def _in_order(tree: ast.AST) -> Iterator[int]:
    """The rows of the statements, each before those inside it."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.stmt):
            yield child.lineno
        yield from _in_order(child)


def _tensors(event: Operation) -> Iterator[Operand]:
    return (operand for operand in event.operands if not isinstance(operand.value, Const))


def _is_supposed(operand: Operand) -> bool:
    """Whether it is not certain which dtype an operand has."""
    value = operand.value
    if isinstance(value, Tensor):
        return value.supposed or value.dtypes is None
    return not isinstance(value, Const)


def _shown(tree: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for node in walk(tree):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "see":
            yield node.args[1].value


def _chosen(tree: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What a conditional expression may leave out: that it raises does not say that its line does."""
    for node in every(tree, cst.IfExp):
        yield from (*walk(node.body), *walk(node.orelse))


@dataclass
class Comparison:
    """How a program's values compare: those shown and those claimed, and what is wrong, by line."""

    values: int = 0
    claimed: int = 0
    wrong: dict[int, str] = field(default_factory=dict)
    unclaimed: list[int] = field(default_factory=list)


def compare(source: str, device: str) -> Comparison:
    """Claims beside what PyTorch does."""
    return compared(claims(source), observe(source, device))


def compared(said: Claims, outcome: Outcome) -> Comparison:
    """A claim is what the linter says of a value on every path; it is right if PyTorch makes no other dtype."""
    found = Comparison()
    for line, dtypes in outcome.shown.items():
        claimed = said.dtypes.get(line, {None})
        found.values += 1
        supposed = said.supposed.get(line, {None})
        if None not in supposed and not dtypes <= supposed | NOT_CONVERTED:
            found.wrong[line] = f"supposes {_text(supposed)}, is {_text(dtypes)}"
        if None not in claimed and not dtypes <= claimed:
            found.wrong[line] = f"claims {_text(claimed)}, is {_text(dtypes)}"
        ranks = said.ranks.get(line, {None})
        if None not in ranks and not all(_fits(ranks, rank) for rank in outcome.ranks[line]):
            found.wrong[line] = (
                f"claims {_text(map(str, ranks))} dimensions, has {_text(map(str, outcome.ranks[line]))}"
            )
        if claimed == dtypes:
            found.claimed += 1
        else:
            found.unclaimed.append(line)
    if outcome.raised is not None and outcome.raised not in said.raises | said.unsure:
        after = said.dtypes.get(outcome.raised + 1, set()) - outcome.shown.get(outcome.raised + 1, set())
        if after and None not in after:
            found.wrong[outcome.raised] = f"claims {_text(after)}, raises: {outcome.message}"
    for line in said.always - {outcome.raised}:
        if line + 1 in outcome.shown:
            found.wrong[line] = "claims that it raises, which it does not"
    return found


def _fits(claimed: set[int | None], rank: int) -> bool:
    return rank in claimed or (rank > 0 and SOME_DIMENSIONS in claimed)


def _text(dtypes: Iterable[str | None]) -> str:
    return " or ".join(sorted(str(dtype) for dtype in dtypes))


def described(source: str, found: Comparison) -> str:
    """The program with what the linter got wrong beside its lines."""
    lines = source.splitlines()
    for line, what in found.wrong.items():
        lines[line - 1] += f"  # {what}"
    return "\n".join(lines)
