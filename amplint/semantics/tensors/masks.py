"""Masks that leave an element in every row, and a function's own guards against infinities and overflow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from amplint.semantics.python.machine import Machine
from amplint.semantics.values.values import Tensor, Value
from amplint.semantics.words import CAUSAL, DTYPE
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Source
from amplint.source.tree import every, target_names, walk
from amplint.torchlib.names import DTYPES, HALF_DTYPES
from amplint.torchlib.policy import words
from amplint.torchlib.promotion import INTEGRAL

_MENDERS = words("nan_to_num nan_to_num_ isnan isfinite all")


def inherited(op: str, *operands: Value) -> frozenset[str]:
    """The traits of a result that its operands pass on."""
    traits = [value.traits for value in operands if isinstance(value, Tensor)]
    if op.startswith(("tril", "triu")):
        return frozenset({"causal"})
    causal = any("causal" in known for known in traits)
    ranges = sum("positions" in known for known in traits)
    if op == "Subtract" and ranges == 2:
        return frozenset({"causal"})
    kept = {"causal"} if causal else {"positions"} if ranges else set[str]()
    if "ones" in frozenset().union(*traits) and len(traits) == 1 and op not in ("Subtract", "sub"):
        kept.add("ones")
    return frozenset(kept)


def has_no_empty_rows(machine: Machine, operand: Tensor, given: Iterable[tuple[cst.CSTNode, Value]]) -> bool:
    """Whether the mask of a fill leaves an element in every row: a causal one, or a test of the filled values."""
    for node, value in given:
        if isinstance(value, Tensor):
            compared = machine.symbols.parts(value.symbol) if machine.symbols.key(value.symbol)[0] == "compare" else ()
            if "causal" in value.traits or operand.symbol in compared:
                return True
        names = (inner.value for inner in walk(node) if isinstance(inner, cst.Name))
        if any(map(CAUSAL.search, names)):
            return True
    return False


def mends(machine: Machine) -> bool:
    """Whether the running function handles NaN or fully masked rows."""
    for node in running(machine):
        if isinstance(node, cst.Name) and node.value in _MENDERS:
            return True
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.args:
            last = node.args[-1].value
            zero = isinstance(last, (cst.Integer, cst.Float)) and last.evaluated_value == 0
            if zero and node.func.attr.value in ("masked_fill", "masked_fill_"):
                return True
    return False


def branches_on_dtypes(machine: Machine, function: cst.CSTNode | None = None) -> bool:
    """Whether a function, by default the running one, branches on dtypes or on whether autocast is on.

    It may then treat float16 correctly.
    """
    body = _body(machine) if function is None else function
    return body is not None and _chooses_by_dtype(body)


def unhandled_halves(machine: Machine) -> frozenset[str]:
    """The half dtypes for which the running function has no case, although it tests for another dtype."""
    body = _body(machine)
    return HALF_DTYPES - _tested_halves(body) if body is not None else HALF_DTYPES


@cached_per_file
def _tested_halves(function: cst.CSTNode) -> frozenset[str]:
    """The half dtypes that a function tests for; both if the test names none."""
    found = frozenset[str]()
    for choice in _choices(function):
        found |= _compared_half(choice) or HALF_DTYPES
    return found


def _compared_half(node: cst.CSTNode) -> frozenset[str]:
    """The half dtype with which the dtype of a tensor is compared: `x.dtype == torch.bfloat16`; empty for anything
    else.
    """
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return frozenset()
    (compared,) = node.comparisons
    if not isinstance(compared.operator, (cst.Equal, cst.Is)) or not isinstance(compared.comparator, cst.Attribute):
        return frozenset()
    dtype = DTYPES.get(f"torch.{compared.comparator.attr.value}")
    return frozenset({dtype}) & HALF_DTYPES if dtype is not None else frozenset()


def branches_on_dtypes_around(machine: Machine, node: cst.CSTNode) -> bool:
    """Whether the running function branches on dtypes, other than in an `if` block that does not contain `node`.

    A dtype test within the body of an `if` says nothing of the paths that skip the body.
    """
    body = _body(machine)
    if body is None or not _chooses_by_dtype(body):
        return False
    source = machine.program.source_of(node)
    if source is None:
        return True
    around = set(map(id, source.ancestors(node)))
    return not all(_is_passed_by(source, choice, around) for choice in _choices(body))


def _is_passed_by(source: Source, choice: cst.CSTNode, around: Set[int]) -> bool:
    """Whether a dtype test stands in a block of an `if` that contains none of the nodes `around`."""
    below = choice
    for above in source.ancestors(choice):
        if isinstance(above, cst.FunctionDef):
            return False
        if isinstance(above, cst.If) and below is not above.test and id(below) not in around:
            return True
        below = above
    return False


def branches_on_dtypes_before(machine: Machine, node: cst.CSTNode) -> bool:
    """Whether a running function branches on dtypes, the innermost one before it reaches `node`."""
    for function in machine.calls:
        if _chooses_by_dtype(function):
            inside = list(walk(function)) if function is machine.calls[-1] else []
            if node not in inside or any(map(_is_choice, inside[: inside.index(node)])):
                return True
    return False


def tests_for_half_after(machine: Machine, node: cst.CSTNode) -> bool:
    """Whether the running function tests for half at or after `node`."""
    if not machine.calls or not _chooses_by_dtype(machine.calls[-1]):
        return False
    inside = list(walk(machine.calls[-1]))
    return node in inside and any(map(_tests_for_half, inside[inside.index(node) :]))


def computed_before_choice(machine: Machine, place: cst.BaseExpression) -> bool:
    """Whether a variable was computed before the running function branches on dtypes, and is not assigned again."""
    body = _body(machine)
    return isinstance(place, cst.Name) and body is not None and place.value in _computed_before_choice(body)


@cached_per_file
def _computed_before_choice(function: cst.CSTNode) -> frozenset[str]:
    found, chosen = set[str](), False
    for node in every(function, cst.Assign, cst.AugAssign, cst.Name, cst.Comparison):
        chosen = chosen or _is_choice(node)
        if isinstance(node, cst.Assign) and not chosen and isinstance(node.value, cst.BinaryOperation):
            found |= {name for target in node.targets for name in target_names(target.target)}
        elif isinstance(node, cst.Assign):
            found -= {name for target in node.targets for name in target_names(target.target)}
    return frozenset(found)


@cached_per_file
def _chooses_by_dtype(function: cst.CSTNode) -> bool:
    between = False
    for choice in filter(_is_choice, every(function, cst.Name, cst.Comparison)):
        if not _compares_two_tensors(choice):
            return True
        between = True
    return between and bool(_choices(function))


@cached_per_file
def _choices(function: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """The tests of dtypes in a function, apart from those that only refuse two tensors of different dtypes."""
    found = tuple(filter(_is_choice, every(function, cst.Name, cst.Comparison)))
    if not found:
        return ()
    refusing = [node.test for node in every(function, cst.Assert)]
    refusing += [node.test for node in every(function, cst.If) if node.orelse is None and _only_raises(node)]
    refusals = {id(test) for test in refusing if _compares_two_tensors(test)}
    return tuple(choice for choice in found if id(choice) not in refusals)


def _only_raises(node: cst.If) -> bool:
    lines = node.body.body
    last = lines[0].body if len(lines) == 1 and isinstance(lines[0], cst.SimpleStatementLine) else ()
    return len(last) == 1 and isinstance(last[0], cst.Raise)


def _compares_two_tensors(node: cst.CSTNode) -> bool:
    """Whether a node is `x.dtype == y.dtype`, or `!=`, of two variables."""
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return False
    sides = (node.left, node.comparisons[0].comparator)
    return all(
        isinstance(side, cst.Attribute) and side.attr.value == "dtype" and isinstance(side.value, cst.Name)
        for side in sides
    )


def _is_choice(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Name):
        return node.value == "is_autocast_enabled"
    if not isinstance(node, cst.Comparison):
        return False
    sides = [node.left, *(target.comparator for target in node.comparisons)]
    return any(_is_dtype(side) for side in sides) and not any(_is_about_others(side) for side in sides)


def _tests_for_half(node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.Comparison) or not _is_choice(node):
        return False
    asked = (inner for target in node.comparisons for inner in walk(target) if isinstance(inner, cst.Attribute))
    return any(DTYPES.get(f"torch.{inner.attr.value}") in HALF_DTYPES for inner in asked)


def _is_about_others(node: cst.BaseExpression) -> bool:
    """Whether a dtype is compared with integer or complex dtypes, with strings, or with None: whether one was given."""
    if isinstance(node, (cst.Tuple, cst.List, cst.Set)):
        return all(isinstance(element.value, cst.BaseString) for element in node.elements)
    name = node.attr.value if isinstance(node, cst.Attribute) else ""
    whole = DTYPES.get(f"torch.{name}") in INTEGRAL or name.startswith("complex")
    return whole or isinstance(node, cst.BaseString) or (isinstance(node, cst.Name) and node.value == "None")


def _is_dtype(node: cst.BaseExpression) -> bool:
    name = node.attr if isinstance(node, cst.Attribute) else node
    return isinstance(name, cst.Name) and DTYPE.search(name.value) is not None


def running(machine: Machine) -> Iterator[cst.CSTNode]:
    """The nodes of the running function, or of the top-level statements around."""
    body = _body(machine)
    return walk(body) if body is not None else iter(())


def _body(machine: Machine) -> cst.CSTNode | None:
    if machine.calls:
        return machine.calls[-1]
    return machine.chunk.module if machine.chunk is not None else None
