"""Half outputs of models: consequences found by linting with them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from amplint.codemods.repairs import all_rules
from amplint.engine.dispatch import Dispatcher
from amplint.engine.screen import words_of
from amplint.findings import Finding, Span
from amplint.semantics import interpret
from amplint.semantics.events import Backward, Because, Event, Operand, Operation, OutputInHalf, ToNumpy
from amplint.semantics.reading.program import Program
from amplint.semantics.values.values import Tensor, Unknown, number
from amplint.semantics.words import TRAINING_STEP
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import every
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.policy import BANNED
from amplint.training.bindings import called_name, paths
from amplint.training.halves import ABOUT_HALF
from amplint.training.outgoing import given_names, names_of
from amplint.training.script import parsed
from amplint.training.surroundings import cached_by_text, check_time, whole_program

_FILLED = frozenset({"empty_like", "new_empty"})
"""Functions that make tensors which are filled piece by piece."""
_ROUNDED = "what is put into a tensor like this one is rounded to half, with its three digits or two"
_WORDS = frozenset({*_FILLED, "histc", "igamma", "igammac", "isclose", "long", "int"})
"""Further callees that matter besides those of these rules."""
_SCALED = "values are scaled to another unit in half, which has three digits in float16 and two in bfloat16"
SATURATED = (
    "if the model ends in a sigmoid, that is exactly 1 in half from a logit of 8.4 on in float16, 6.3 in bfloat16, and"
    " binary cross-entropy of a wrong one has no gradient; let the model give logits, or compute its sigmoid in float32"
)
_HALF_LOSSES = {
    "float16": "the loss that comes of this product is float16 itself, where a scale of 65536 is infinite and its steps"
    " are skipped; compute the product in a region that is off",
    "bfloat16": "the loss that comes of this product is bfloat16 itself, with two digits; compute the product in a"
    " region that is off",
}
_PRODUCTS = operations_with("matrices") - operations_with("weights")
_KEEPING = operations_with("reshapes") | {"clamp", "clip", "contiguous", "detach", "index", "to"}
_UNDONE = "disabled-region-keeps-half"
"""The rule about casts to float32 that autocast undoes, as it does to outputs within a model."""
_UNIT = 8
"""The magnitude from which an addend leaves fewer digits of half than a model's output has."""


class Loss(NamedTuple):
    """A loss of precision at a row of the file at `path`, in `dtypes`, and why.

    `product` is the product of matrices that leaves a loss half.
    """

    path: str
    row: int
    why: str
    dtypes: frozenset[str]
    product: Span | None = None


class Found(NamedTuple):
    """The findings about half outputs, and other losses of precision.

    `assumed` are the findings at tensors of unknown dtype. `wide` are the files and rows, by paths, of operations that
    nevertheless run on float32 each time, `inside` those of operations that run in a region, and never on half,
    nor in a row with a tensor of unknown dtype that becomes an array.
    `decided` are the operations of the file whose dtypes are known each time they run.
    """

    findings: tuple[Finding, ...]
    assumed: tuple[Finding, ...]
    losses: tuple[Loss, ...]
    wide: frozenset[tuple[str, int]]
    inside: frozenset[tuple[str, int]]
    decided: frozenset[Span]


class Half(NamedTuple):
    """The reason why an operation loses precision in half, the dtypes, and the nodes that made its operands half."""

    why: str
    dtypes: frozenset[str]
    origins: set[cst.CSTNode | None]


class _Watch:
    """Records the outputs, the operations on float32, and the losses of precision."""

    def __init__(self) -> None:
        self.outputs: set[cst.CSTNode] = set()
        self.wide: dict[cst.CSTNode, bool] = {}
        self.inside: set[cst.CSTNode] = set()
        self.half: set[cst.CSTNode] = set()
        self.unclear: set[cst.CSTNode] = set()
        self.decided: dict[cst.CSTNode, bool] = {}
        self.losses: dict[cst.CSTNode, Half] = {}
        self.anywhere: dict[cst.CSTNode, Half] = {}
        self.probabilities: dict[cst.CSTNode, cst.CSTNode] = {}
        self._widened: set[int] = set()
        self._of_products: dict[int, cst.CSTNode] = {}
        self._product: cst.CSTNode | None = None
        self._dtypes: dict[int, str | None] = {}
        self._latest: str | None = None

    def __call__(self, event: Event) -> None:
        """Record an event."""
        if isinstance(event, OutputInHalf):
            self.outputs.add(event.target or event.node)
        elif isinstance(event, ToNumpy) and event.assumed:
            self.unclear.add(event.node)
        elif isinstance(event, ToNumpy):
            self._decide(event.node, event.operand)
        elif isinstance(event, Backward):
            self._differentiate(event)
        elif isinstance(event, Operation):
            self._follow(event)
            self.inside.update({event.node} if event.region is not None else ())
            if event.operands and not event.assumed:
                self._decide(event.node, event.operands[0])
            dtypes = {operand.dtype for operand in event.operands}
            if not dtypes.isdisjoint(HALF_DTYPES):
                self.half.add(event.node)
            fails = event.raises is not None or event.node in self.half
            if fails or "float32" in {*dtypes, event.result.dtype}:
                self.wide[event.node] = not fails and self.wide.get(event.node, True)
            lost = _lost(event)
            halves = frozenset().union(*(one.half.dtypes for one in event.operands if one.half is not None))
            if lost is not None:
                self.losses.setdefault(
                    event.node, Half(lost, halves, {one.half.node for one in event.operands if one.half})
                )

    def _follow(self, event: Operation) -> None:
        """Follow half tensors that become float32, up to binary cross-entropy, and half products."""
        first = event.operands[0] if event.operands else None
        if first is None or (event.assumed and event.op not in BANNED):
            return
        symbol, made = _symbol(first.value), event.result.symbol
        self._dtypes[made] = self._latest = event.result.dtype
        shows = first.half is not None and first.half.because is not Because.ASSUMED
        if event.op in BANNED:
            if symbol in self._widened:
                self.anywhere.setdefault(event.node, Half(SATURATED, HALF_DTYPES, set()))
            else:
                self.probabilities[event.node] = first.node
        elif event.result.dtype == "float32" and (
            (event.op == "to" and shows) or (event.op in _KEEPING and symbol in self._widened)
        ):
            self._widened.add(made)
        if event.result.dtype in HALF_DTYPES:
            before = (self._of_products.get(_symbol(one.value)) for one in event.operands)
            product = event.node if event.op in _PRODUCTS else next((one for one in before if one is not None), None)
            if product is not None:
                self._of_products[made] = self._product = product

    def _differentiate(self, event: Backward) -> None:
        """Record a loss that is half, if a product of matrices before it is.

        That of a scaled loss is the result of the latest operation, where no event tells of what made it, such as `-`.
        """
        product, self._product = self._product, None
        loss = event.loss
        dtype = loss.dtype if isinstance(loss, Tensor) else None
        if isinstance(loss, Tensor) and loss.plain is not None:
            dtype = self._dtypes.get(loss.plain, self._latest)
        if product is not None and dtype in HALF_DTYPES:
            assert dtype is not None
            self.anywhere.setdefault(product, Half(_HALF_LOSSES[dtype], frozenset({dtype}), set()))

    def _decide(self, node: cst.CSTNode, operand: Operand) -> None:
        known = operand.dtype is not None or operand.half is not None
        self.decided[node] = known and self.decided.get(node, True)


def _symbol(value: object) -> int:
    """The symbol of a value, -1 if it has none."""
    return getattr(value, "symbol", -1)


def _lost(event: Operation) -> str | None:
    """Why the operation of `event` loses precision in half; None if it does not."""
    first, second = (*event.operands, None, None)[:2]
    if event.op in _FILLED and first is not None and first.half is not None:
        return _ROUNDED if first.half.because is not Because.ASSUMED else None
    if first is None or first.dtype not in HALF_DTYPES:
        return None
    beside = second.dtype if second is not None else None
    if event.op == "to" and (event.result.dtype or "").startswith("int"):
        return "whole numbers come of half, which tells them apart up to 256 in bfloat16 and 2048 in float16"
    if event.op in ("add", "sub") and second is not None and beside is None and _is_product(first.node):
        constant = number(second.value)
        if isinstance(second.value, Unknown) or (constant is not None and abs(constant) >= _UNIT):
            return _SCALED
    return None


def _is_product(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply)


@cached_by_text
def found(text: str, path: str) -> Found:
    """The numerical failures in `text`, and in the files it imports, with half outputs of the models in its regions."""
    check_time()
    rules = [rule for rule in all_rules() if rule.name in (*ABOUT_HALF, _UNDONE)]
    assuming = [rule for rule in rules if rule.assumed]
    script = parsed(text, path)
    source, program = script.source, whole_program(script.source)
    dispatcher = Dispatcher(program, rules, {rule.code for rule in assuming}, whole=True)
    watch, assumed = _Watch(), list[Event]()

    def tell(event: Event) -> None:
        watch(event)
        if event.assumed:
            assumed.append(event)
        else:
            dispatcher.emit(event)

    kinds = dispatcher.kinds | {Backward.kind, Operation.kind, OutputInHalf.kind, ToNumpy.kind}
    interpret(program, tell, kinds, words_of(assuming) | _WORDS, halves=True)
    known = tuple(dispatcher.findings())
    for event in assumed:
        if not isinstance(event, (Operation, ToNumpy)) or not watch.decided.get(event.node, False):
            dispatcher.emit(event)
    perhaps = tuple(one for one in dispatcher.findings() if one not in known)
    wide = _rows(program, (node for node, wide in watch.wide.items() if wide))
    wide -= _rows(program, (node for node, wide in watch.wide.items() if not wide))
    inside = _rows(program, watch.inside) - _rows(program, watch.half | watch.unclear)
    losses = []
    own = {node for node in watch.outputs if source.owns(node) and not _is_within_a_model(source, node)}
    calls = own | {call for node in own if (call := _call_of(source, node)) is not None}
    for node, half in watch.losses.items():
        home = program.source_of(node)
        filled = half.why == _ROUNDED and home is not None and not _is_within_a_model(home, node)
        if home is not None and (filled or not calls.isdisjoint(half.origins)):
            losses.append(Loss(home.path, home.span(node).start.row, half.why, half.dtypes))
    named = names_of(script, own)
    for node, operand in watch.probabilities.items():
        if source.owns(node) and paths(operand) & given_names(script, script.function_of(node), named):
            watch.anywhere.setdefault(node, Half(SATURATED, HALF_DTYPES, set()))
    for node, half in watch.anywhere.items():
        home = program.source_of(node)
        if home is not None:
            span = home.span(node)
            product = span if half.why in _HALF_LOSSES.values() else None
            losses.append(Loss(home.path, span.start.row, half.why, half.dtypes, product))
    decided = frozenset(source.span(node) for node, known in watch.decided.items() if known and source.owns(node))
    return Found(known, perhaps, tuple(losses), wide, inside, decided)


def _rows(program: Program, nodes: Iterable[cst.CSTNode]) -> frozenset[tuple[str, int]]:
    """The files, by paths, and rows of `nodes`."""
    homes = ((node, program.source_of(node)) for node in nodes)
    return frozenset((home.path, home.span(node).start.row) for node, home in homes if home is not None)


def is_refuted(finding: Finding, run: Found) -> bool:
    """Whether a finding assumes a dtype although `run` knows it."""
    if finding.name not in ABOUT_HALF or finding.elsewhere is not None or finding.span not in run.decided:
        return False
    return not any(one.code == finding.code and one.span == finding.span for one in (*run.findings, *run.assumed))


def can_happen(finding: Finding, dtype: str) -> bool:
    """Whether a finding is about `dtype`, as far as it names one."""
    named = {one for one in ("float16", "bfloat16") if re.search(rf"\b{one}\b", finding.message)}
    return not named or dtype in named


def _call_of(source: Source, target: cst.CSTNode) -> cst.CSTNode | None:
    """The call whose result is unpacked to `target`; None if `target` is a call itself."""
    if isinstance(target, cst.Call):
        return None
    above = next((one for one in source.ancestors(target) if isinstance(one, cst.Assign)), None)
    return above.value if above is not None else None


def _is_within_a_model(source: Source, node: cst.CSTNode) -> bool:
    """Whether `node` stands in a forward pass, or in another method of a class with one that does not train itself."""
    for one in source.ancestors(node):
        if isinstance(one, cst.FunctionDef) and one.name.value == "forward":
            return True
        if isinstance(one, cst.ClassDef):
            methods = {each.name.value for each in every(one, cst.FunctionDef)}
            trains = any(called_name(call) == "backward" for call in every(one, cst.Call))
            return "forward" in methods and not trains and not any(map(TRAINING_STEP.search, methods))
    return False
