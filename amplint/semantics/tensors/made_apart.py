"""Tensors made with the size or device of another one but not its dtype, and then combined with what comes from it.

They are found in the text of a function: what a caller gives is of unknown dtype, and much of it passes through calls
that are out of sight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.semantics.events import MadeApart
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.tensors.clashes import Clashes
from amplint.semantics.tensors.conversions import CASTING, bindings, converts, home, names_read
from amplint.semantics.values.state import State
from amplint.semantics.words import INDICES, LOSS, MASK, TORCH_MODULES, WHOLE_NUMBERS
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk, cached_per_file
from amplint.source.source import Chunk, Source
from amplint.source.tree import every, walk
from amplint.torchlib.methods import FLOAT32_BY_DEFAULT
from amplint.torchlib.policy import words

_OF_CONTENT = words("tensor as_tensor")
_OF_RANGE = words("arange from_numpy")
"""Functions whose results have the dtype of an array, or are integers where their limits are."""
_COMBINES = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide, cst.MatrixMultiply)


class MadeApartFromOthers(Tracker):
    """Tracks factory calls, once the file is read."""

    def is_needed(self) -> bool:
        """Whether dtypes are assumed and a selected rule handles the event."""
        return self.machine.assumes and MadeApart.kind in self.machine.wanted

    def file_ends(self, starts: Sequence[State]) -> None:
        """Emit the tensors that nothing else has reported."""
        source = self.machine.program.main
        self.machine.statement = None
        reported = self.machine[Clashes].reported
        for chunk in source.chunks:
            for function in every(chunk.module, cst.FunctionDef) if _makes_on_device(chunk) else ():
                for call, other, met in _made(source, function):
                    if call not in reported:
                        self.machine.emit(State(), MadeApart, call, other=other, met=met, assumed=True)


@cached_per_chunk
def _makes_on_device(chunk: Chunk) -> bool:
    return ".device" in chunk.text and any(f"{name}(" in chunk.text for name in FLOAT32_BY_DEFAULT)


def _made(source: Source, function: cst.FunctionDef) -> Iterator[tuple[cst.Call, str, cst.CSTNode]]:
    """The factory calls of a function, each with the tensor whose device it takes and the place where they meet."""
    for call in every(function.body, cst.Call):
        if not _is_floating(call) or home(source, call) is not function:
            continue
        whole, others = call, [_owner_in(function, argument.value) for argument in call.args]
        while (above := _next(source, whole)) is not None:
            others += [_owner_in(function, argument.value) for argument in above.args]
            if _converts_at_end(above):
                others = []
                break
            whole = above
        other = next((one for one in others if one is not None and _may_be_half(one)), None)
        if other is None:
            continue
        met = _met(source, function, whole, other)
        if met is not None:
            yield call, other, met


def _is_floating(call: cst.Call) -> bool:
    """Whether a call makes a float32 tensor of several elements by default."""
    owner, _, last = (dotted(call.func) or "").rpartition(".")
    if last not in FLOAT32_BY_DEFAULT or not TORCH_MODULES.search(owner) or not call.args:
        return False
    if any(one.keyword is not None and one.keyword.value in ("dtype", "out") for one in call.args):
        return False
    first = call.args[0].value
    if last in _OF_RANGE:
        return any(isinstance(node, cst.Float) for one in call.args for node in walk(one.value))
    if last in _OF_CONTENT:
        return isinstance(first, cst.List) and any(isinstance(node, cst.Float) for node in walk(first))
    if last == "full":
        fill = call.args[1].value if len(call.args) > 1 else first
        if not any(isinstance(node, cst.Float) for node in walk(fill)):
            return False
    inside = [one.value for one in first.elements] if isinstance(first, (cst.Tuple, cst.List)) else [first]
    return any(not (isinstance(one, cst.Integer) and one.value == "1") for one in inside)


def _next(source: Source, node: cst.BaseExpression) -> cst.Call | None:
    """The call of a method of `node`."""
    method = source.parent(node)
    call = source.parent(method) if isinstance(method, cst.Attribute) and method.value is node else None
    return call if isinstance(call, cst.Call) and call.func is method else None


def _converts_at_end(call: cst.Call) -> bool:
    """Whether a method converts its receiver, and not only an argument of it."""
    if last_name(call.func) == "to" and len(call.args) == 1:
        name = dotted(call.args[0].value) or ""
        return not (name == "device" or name.endswith(".device") or isinstance(call.args[0].value, cst.SimpleString))
    return last_name(call.func) in CASTING


def _owner_in(function: cst.FunctionDef, node: cst.CSTNode) -> str | None:
    """The tensor whose device or size an argument reads, also by a variable for the device."""
    for one in walk(node):
        if isinstance(one, cst.Attribute) and one.attr.value in ("device", "shape", "size"):
            owner = one.value.value if isinstance(one.value, cst.Name) else "self"
            if owner not in ("self", "cls", "torch"):
                return owner
    if isinstance(node, cst.Name):
        given = bindings(function).get(node.value, ())
        return _owner_in(function, given[0]) if len(given) == 1 and isinstance(given[0], cst.Attribute) else None
    return None


def _may_be_half(name: str) -> bool:
    return not any(guess.search(name) for guess in (WHOLE_NUMBERS, INDICES, MASK))


def _met(source: Source, function: cst.FunctionDef, whole: cst.BaseExpression, other: str) -> cst.CSTNode | None:
    """Where what was made is combined with what comes from `other`, unless it is converted before."""
    above = source.parent(whole)
    while isinstance(above, cst.IfExp):
        whole, above = above, source.parent(above)
    near = _derived(function, other)
    if isinstance(above, cst.Assign) and len(above.targets) == 1 and isinstance(above.targets[0].target, cst.Name):
        name = above.targets[0].target.value
        if LOSS.search(name) or name == other:
            return None
        calls = list(every(function.body, cst.Call))
        if any(converts(call) and name in names_read(call.func) for call in calls):
            return None
        made = _derived(function, name) - near | {name}
        return next((node for node in walk(function.body) if _combines(node, made, near - {name})), None)
    if isinstance(above, cst.BinaryOperation) and isinstance(above.operator, _COMBINES):
        beside = above.right if above.left is whole else above.left
        return above if not names_read(beside).isdisjoint(near) and not converts(beside) else None
    return None


def _combines(node: cst.CSTNode, made: frozenset[str], near: frozenset[str]) -> bool:
    """Whether an operation or an assignment to elements takes both what was made and what is `near`."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _COMBINES):
        sides: list[cst.CSTNode] = [node.left, node.right]
    elif isinstance(node, cst.Assign) and isinstance(node.targets[0].target, cst.Subscript):
        target = node.targets[0].target.value
        return isinstance(target, cst.Name) and target.value in made and _reads(node.value, near)
    elif isinstance(node, cst.Call) and TORCH_MODULES.search((dotted(node.func) or "").rpartition(".")[0]):
        first = node.args[0].value if node.args else node
        listed = [one.value for one in first.elements] if isinstance(first, (cst.List, cst.Tuple)) else []
        sides = [*listed, *(one.value for one in node.args if one.keyword is None)]
    else:
        return False
    mine = [side for side in sides if isinstance(_bare(side), cst.Name) and _bare(side).value in made]  # type: ignore[attr-defined]
    return bool(mine) and any(_reads(side, near) for side in sides if side not in mine)


def _bare(node: cst.CSTNode) -> cst.CSTNode:
    """The variable of which `node` is an element or a view."""
    while isinstance(node, (cst.Subscript, cst.Attribute, cst.Call)):
        node = node.func if isinstance(node, cst.Call) else node.value
    return node


def _reads(node: cst.CSTNode, near: frozenset[str]) -> bool:
    """Whether an expression computes with one of the variables, without a conversion or a comparison."""
    if names_read(node).isdisjoint(near) or converts(node):
        return False
    return not any(True for _ in every(node, cst.Comparison))


@cached_per_file
def _derived(function: cst.FunctionDef, other: str) -> frozenset[str]:
    """The variables computed from `other` without a conversion, itself included."""
    found, more = {other}, True
    while more:
        fresh = {
            name
            for name, values in bindings(function).items()
            if name not in found and any(_reads(value, frozenset(found)) for value in values)
        }
        found |= fresh
        more = bool(fresh)
    return frozenset(name for name in found if _may_be_half(name))
