"""Half outputs of models: consequences found by linting with them, and repairs in float32."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from amplint.codemods.conversion import Remark
from amplint.codemods.repairs import all_rules
from amplint.edits.casting import used_as_tensor
from amplint.engine.dispatch import Dispatcher
from amplint.engine.screen import words_of
from amplint.findings import Edit, Finding, Fix, Severity, Span
from amplint.fixes.apply import apply_round
from amplint.semantics import interpret
from amplint.semantics.events import Backward, Because, Event, Operand, Operation, OutputInHalf, ToNumpy
from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.values import Tensor, Unknown, number
from amplint.semantics.words import INDICES, TRAINING_STEP, WHOLE_NUMBERS
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import every
from amplint.torchlib.catalogue import OPERATIONS, operations_with
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.policy import BANNED
from amplint.training.bindings import bound_paths, called_name, paths
from amplint.training.elements import listed_outputs, optional_outputs
from amplint.training.halves import ABOUT_HALF, halves_of
from amplint.training.outgoing import given_names, leaving, names_of, unscaling, unseen
from amplint.training.script import parsed
from amplint.training.surroundings import cached_by_text, check_time, is_long, whole_program

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
_WIDENING = frozenset({"float", "double", "numpy", "item", "tolist", "int", "long"})
_KEEPING = operations_with("reshapes") | {"clamp", "clip", "contiguous", "detach", "index", "to"}
_UNDONE = "disabled-region-keeps-half"
"""The rule about casts to float32 that autocast undoes, as it does to outputs within a model."""
_UNIT = 8
"""The magnitude from which an addend leaves fewer digits of half than a model's output has."""
_TRIES = 12
"""The limit of interpretations that tell which of the casts are needed."""
_LONG = 100_000
"""The number of characters of reachable code from which none are tried: each try interprets all of it."""


class Loss(NamedTuple):
    """A loss of precision at a row of the file at `path`, in `dtypes`; `why` is empty if it is only possible.

    `product` is the product of matrices that leaves a loss half.
    """

    path: str
    row: int
    why: str
    dtypes: frozenset[str]
    product: Span | None = None


class Found(NamedTuple):
    """The findings about half outputs, other losses of precision, the outputs, and those that certainly are tensors.

    `assumed` are the findings at tensors of unknown dtype. `wide` are the files and rows, by paths, of operations that
    nevertheless run on float32 each time, `inside` those of operations that run in a region, and never on half,
    nor in a row with a tensor of unknown dtype that becomes an array.
    `decided` are the operations of the file whose dtypes are known each time they run. `arrays` are the outputs, and
    what regions compute of them, that the file converts to NumPy arrays. `size` is the number of characters of the
    reachable code.
    """

    findings: tuple[Finding, ...]
    assumed: tuple[Finding, ...]
    losses: tuple[Loss, ...]
    outputs: frozenset[Span]
    tensors: frozenset[Span]
    wide: frozenset[tuple[str, int]]
    inside: frozenset[tuple[str, int]]
    decided: frozenset[Span]
    arrays: frozenset[Span]
    size: int


class Lift(NamedTuple):
    """The edit that casts an output to float32, the row of the call that returns it, its code, and its variable."""

    row: int
    edit: Edit
    code: str = ""
    name: str | None = None


class Half(NamedTuple):
    """The reason why an operation loses precision in half, the dtypes, and the nodes that made its operands half."""

    why: str
    dtypes: frozenset[str]
    origins: set[cst.CSTNode | None]


class _Watch:
    """Records the outputs used as tensors, the operations on float32, and the losses of precision."""

    def __init__(self) -> None:
        self._given: dict[int, OutputInHalf] = {}
        self.outputs: set[cst.CSTNode] = set()
        self.tensors: set[cst.CSTNode] = set()
        self.wide: dict[cst.CSTNode, bool] = {}
        self.inside: set[cst.CSTNode] = set()
        self.half: set[cst.CSTNode] = set()
        self.unclear: set[cst.CSTNode] = set()
        self.decided: dict[cst.CSTNode, bool] = {}
        self.losses: dict[cst.CSTNode, Half] = {}
        self.anywhere: dict[cst.CSTNode, Half] = {}
        self.arrays: set[cst.CSTNode] = set()
        self.probabilities: dict[cst.CSTNode, cst.CSTNode] = {}
        self._widened: set[int] = set()
        self._of_products: dict[int, cst.CSTNode] = {}
        self._product: cst.CSTNode | None = None
        self._dtypes: dict[int, str | None] = {}
        self._latest: str | None = None

    def __call__(self, event: Event) -> None:
        """Record an event."""
        if isinstance(event, OutputInHalf):
            self._given[event.output] = event
            self.outputs.add(event.target or event.node)
            self.tensors.update({event.target or event.node} if event.is_tensor else ())
        elif isinstance(event, ToNumpy) and event.assumed:
            self.unclear.add(event.node)
        elif isinstance(event, ToNumpy):
            self._decide(event.node, event.operand)
            half = event.operand.half
            if half is not None and (half.node in self.outputs or half.because is Because.REGION):
                self.arrays.add(event.operand.node)
                self.losses.setdefault(event.node, Half("", frozenset({"float16"} & half.dtypes), {half.node}))
        elif isinstance(event, Backward):
            self._differentiate(event)
        elif isinstance(event, Operation):
            self._follow(event)
            self.inside.update({event.node} if event.region is not None else ())
            if event.operands and not event.assumed:
                self._decide(event.node, event.operands[0])
            for operand in event.operands:
                output = self._given.get(getattr(operand.value, "symbol", -1))
                if output is not None:
                    self.tensors.add(output.target or output.node)
                elif operand.half is not None and operand.half.node is not None and _has_dimensions(operand.node):
                    self.tensors.add(operand.half.node)
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
            elif called_name(first.node) == "float":
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
    """Why the operation of `event` loses precision in half; empty if it only may, None if it does not."""
    first, second = (*event.operands, None, None)[:2]
    if event.op in _FILLED and first is not None and first.half is not None:
        return _ROUNDED if first.half.because is not Because.ASSUMED else None
    if first is None or first.dtype not in HALF_DTYPES:
        return None
    beside = second.dtype if second is not None else None
    if event.op == "to" and (event.result.dtype or "").startswith("int"):
        return "whole numbers come of half, which tells them apart up to 256 in bfloat16 and 2048 in float16"
    if event.op == "isclose" or (event.op == "index_put" and beside == "float32"):
        return ""
    if event.op == "mul" and beside == "float16" == first.dtype:
        return ""
    if event.op in ("add", "sub") and second is not None and beside is None and _is_product(first.node):
        constant = number(second.value)
        if isinstance(second.value, Unknown) or (constant is not None and abs(constant) >= _UNIT):
            return _SCALED
    return None


def _has_dimensions(node: cst.CSTNode) -> bool:
    """Whether `node` has an index of several dimensions, as only a tensor can."""
    return isinstance(node, cst.Subscript) and len(node.slice) > 1


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
    tensors = frozenset(source.span(node) for node in watch.tensors if source.owns(node))
    wide = _rows(program, (node for node, wide in watch.wide.items() if wide))
    wide -= _rows(program, (node for node, wide in watch.wide.items() if not wide))
    inside = _rows(program, watch.inside) - _rows(program, watch.half | watch.unclear)
    losses = []
    own = {node for node in watch.outputs if source.owns(node) and not _is_within_a_model(source, node)}
    given = frozenset(source.span(node) for node in own)
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
    losses += (
        Loss(source.path, source.span(call).start.row, _SCALED, HALF_DTYPES) for call in unscaling(script, named)
    )
    losses += (Loss(source.path, source.span(one).start.row, "", HALF_DTYPES) for one in leaving(script, own))
    losses += (Loss(source.path, row, "", frozenset({"bfloat16"})) for row in unseen(script, program))
    size = sum(len(chunk.text) for chunk in program.chunks)
    decided = frozenset(source.span(node) for node, known in watch.decided.items() if known and source.owns(node))
    arrays = frozenset(source.span(node) for node in watch.arrays if source.owns(node))
    return Found(known, perhaps, tuple(losses), given, tensors, wide, inside, decided, arrays, size)


def _rows(program: Program, nodes: Iterable[cst.CSTNode]) -> frozenset[tuple[str, int]]:
    """The files, by paths, and rows of `nodes`."""
    homes = ((node, program.source_of(node)) for node in nodes)
    return frozenset((home.path, home.span(node).start.row) for node, home in homes if home is not None)


def in_float32(text: str, path: str, dtype: str) -> tuple[str, list[Remark]]:
    """`text` with those outputs cast to float32 whose cast reduces such failures, and remarks by the rows of `text`.

    What NumPy gets is cast where it does.
    """
    given, text = text, _arrays_cast(text, path, dtype)
    before = _number(text, path, dtype)
    lifts = list(_lifts(text, path)) if any(before) else []
    if not lifts or _number(_lifted(text, lifts), path, dtype) >= before:
        return text, []
    needed = {(lift.row, lift.code) for lift in _needed(text, path, dtype, lifts)}
    chosen = [lift for lift in _lifts(given, path) if (lift.row, lift.code) in needed]
    done = [Remark(row, "convert what the model gives to float32") for row in sorted({lift.row for lift in chosen})]
    return _arrays_cast(_lifted(given, chosen), path, dtype), done


def _needed(text: str, path: str, dtype: str, lifts: list[Lift]) -> list[Lift]:
    """Those of `lifts` without which more fails than with all of them."""
    chosen, fewest = lifts, _number(_lifted(text, lifts), path, dtype)
    near, known = list[Lift](), -1
    while known < len(near) < len(lifts):  # one failure may hide the next
        known = len(near)
        near = [one for one in lifts if one in near or _is_named_in_failures(one, _lifted(text, near), path)]
    if known < len(lifts) and _number(_lifted(text, near), path, dtype) <= fewest:
        chosen = near
    groups = deque(_halved(chosen))
    for _ in range(_TRIES if found(text, path).size <= _LONG else 0):
        group = groups.popleft() if groups and not is_long() else []
        fewer = [one for one in chosen if one not in group]
        if group and _number(_lifted(text, fewer), path, dtype) <= fewest:
            chosen = fewer
        else:
            groups += _halved(group)
    return chosen


def _is_named_in_failures(lift: Lift, text: str, path: str) -> bool:
    """Whether `lift` is of a variable in a line of `text` with a failure."""
    run, lines = found(text, path), text.split("\n")
    rows = {row for one in (*run.findings, *run.assumed) for row in range(one.span.start.row, one.span.end.row + 1)}
    rows |= {one.row for one in run.losses if one.path == path}
    code = " ".join(lines[row - 1] for row in rows if row <= len(lines))
    return lift.name is not None and re.search(rf"\b{re.escape(lift.name)}\b", code) is not None


def _halved(lifts: list[Lift]) -> list[list[Lift]]:
    """Both halves of several lifts."""
    middle = len(lifts) // 2
    return [lifts[:middle], lifts[middle:]] if middle else []


def _arrays_cast(text: str, path: str, dtype: str) -> str:
    """`text` with outputs cast to float32 where NumPy gets them."""
    text = _lifted(text, list(_array_casts(text, path)))
    return _lifted(text, list(_element_casts(text, path))) if dtype == "bfloat16" else text


def _number(text: str, path: str, dtype: str) -> tuple[int, int]:
    """The number of errors and warnings, which refuse a conversion, and that of all failures in `text`."""
    run = found(text, path)
    halves = halves_of(text, path)
    failures = [one for one in (*run.findings, *run.assumed) if can_happen(one, dtype) and halves.concern(one)]
    refusing = sum(one.severity > Severity.INFO for one in failures)
    return refusing, len(failures) + sum(dtype in one.dtypes for one in run.losses)


def is_refuted(finding: Finding, run: Found) -> bool:
    """Whether a finding assumes a dtype although `run` knows it."""
    if finding.name not in ABOUT_HALF or finding.elsewhere is not None or finding.span not in run.decided:
        return False
    return not any(one.code == finding.code and one.span == finding.span for one in (*run.findings, *run.assumed))


def can_happen(finding: Finding, dtype: str) -> bool:
    """Whether a finding is about `dtype`, as far as it names one."""
    named = {one for one in ("float16", "bfloat16") if re.search(rf"\b{one}\b", finding.message)}
    return not named or dtype in named


def _lifts(text: str, path: str) -> Iterator[Lift]:
    """The outputs that reach training and evaluation code, and the edits that cast each to float32."""
    run, script = found(text, path), parsed(text, path)
    source, rewrite, optional = script.source, script.rewrite, optional_outputs(script.source)
    lists = listed_outputs(source)
    for node in script.of_kind(cst.Call, cst.Name, cst.Attribute):
        span, above = source.span(node), source.parent(node)
        if span not in run.outputs:
            continue
        named = above.targets[0].target if isinstance(above, cst.Assign) else node
        is_tensor = used_as_tensor(named, rewrite)
        whole = any(guess.search(dotted(named) or "") for guess in (WHOLE_NUMBERS, INDICES))
        if is_tensor is False or (is_tensor is None and span not in run.tensors) or whole or dotted(node) in lists:
            continue
        if isinstance(node, cst.Call):
            if not (isinstance(above, cst.Attribute) and above.attr.value == "float"):
                yield Lift(span.start.row, rewrite.add_float(node), source.code(node), dotted(named))
        elif isinstance(above, cst.Element):
            name = source.code(node)
            unpacked = source.parent(above)
            places = unpacked.elements if isinstance(unpacked, cst.Tuple) else ()
            absent = any((len(places), index) in optional for index, one in enumerate(places) if one is above)
            cast = f"{name}.float() if {name} is not None else None" if absent else f"{name}.float()"
            edit = rewrite.insert_after(node, f"{name} = {cast}")
            if edit is not None:
                yield Lift(script.row(_call_of(source, node) or node), edit, name, name)


def _array_casts(text: str, path: str) -> Iterator[Lift]:
    """The casts of outputs, or parts of them, that become NumPy arrays: it computes sums in their dtype."""
    arrays, script = found(text, path).arrays, parsed(text, path)
    lists = listed_outputs(script.source) if arrays else set[str]()
    for node in script.of_kind(cst.BaseExpression) if arrays else ():
        if script.source.span(node) in arrays and dotted(node) not in lists:
            yield Lift(script.row(node), script.rewrite.add_float(node))


def _element_casts(text: str, path: str) -> Iterator[Lift]:
    """The casts of outputs that are assigned to elements of NumPy arrays, which have no bfloat16."""
    if "numpy" not in text:
        return
    outputs, script = found(text, path).outputs, parsed(text, path)
    assigns = list(script.of_kind(cst.Assign))
    calls = [one for one in script.calls if script.source.span(one) in outputs]
    arrays, names = set[tuple[cst.CSTNode | None, str]](), dict[cst.CSTNode | None, set[str]]()
    for one in assigns:
        function = script.function_of(one)
        if _makes_array(one.value):
            arrays |= {(function, name) for name in bound_paths(one)}
        elif any(call in calls for call in every(one.value, cst.Call)):
            names.setdefault(function, set()).update(bound_paths(one))
    for one in assigns:
        target, function, value = one.targets[0].target, script.function_of(one), one.value
        into = dotted(target.value) if isinstance(target, cst.Subscript) else None
        if (function, into) not in arrays or any(called_name(call) in _WIDENING for call in every(value, cst.Call)):
            continue
        if isinstance(value, cst.Call) and value not in calls and called_name(value) not in OPERATIONS:
            continue  # what an object of the file returns may be a number
        if paths(value) & names.get(function, set()) or any(call in calls for call in every(value, cst.Call)):
            yield Lift(script.row(value), script.rewrite.add_float(value))


def _makes_array(value: cst.BaseExpression) -> bool:
    """Whether `value` is a new array of NumPy."""
    func = dotted(value.func) if isinstance(value, cst.Call) else None
    owner, _, name = (func or "").rpartition(".")
    return owner in ("np", "numpy") and name in ("zeros", "ones", "empty", "full", "zeros_like", "empty_like")


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


def _lifted(text: str, lifts: Sequence[Lift]) -> str:
    new, _ = apply_round(text, [Fix("Convert the output to float32", (lift.edit,)) for lift in lifts])
    return new
