"""Loop-carried sums and averages in half, and those carried from one call of a method to the next."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.premises import Premise
from amplint.semantics.events import ONE, HalfAverage, HalfSum
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.tensors.evidence import evidence
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor, Unknown, Value, number
from amplint.semantics.words import AVERAGE
from amplint.source import syntax as cst
from amplint.source.tree import every, walk
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.policy import words

_UPDATES = words("mul_ lerp_ add_ sub_ addcmul_")


def added(machine: Machine, state: State, node: cst.AugAssign, before: Value, other: Value) -> None:
    """Report `before += other` in a loop that accumulates in half.

    A sum of one number other than 1 that is written out only shows how numbers are rounded.
    """
    target = dotted(node.target)
    if not machine.loops or target is None or not isinstance(other, (Tensor, Unknown)):
        return
    if isinstance(other, Tensor) and "ones" in other.traits and ONE not in other.traits:
        return
    if isinstance(before, Tensor) and before.rank == 0 and before.dtype in HALF_DTYPES and not before.supposed:
        half = evidence(machine, state, before)
        if half is not None and _only_accumulates(machine, node, target):
            machine.emit(state, HalfSum, node, half=half, addend=None)
        return
    if not isinstance(other, Tensor) or other.rank != 0 or other.dtype not in HALF_DTYPES:
        return
    if not _only_accumulates(machine, node, target):
        return
    fresh = number(before) is not None
    half = evidence(machine, state, other)
    if half is not None and (fresh or (isinstance(before, Tensor) and before.dtype in HALF_DTYPES)):
        machine.emit(state, HalfSum, node, half=half, addend=node.value if fresh else None)


def placed(machine: Machine, state: State, node: cst.AugAssign, before: Value) -> None:
    """Report `whole[window] += part` in half, in a loop whose sum is divided by the number of overlapping windows."""
    target = node.target
    if not isinstance(target, cst.Subscript) or not isinstance(before, Tensor) or not machine.loops:
        return
    whole = dotted(target.value)
    if before.dtype not in HALF_DTYPES or whole is None or not _is_divided(machine, whole):
        return
    half = evidence(machine, state, before)
    if half is not None:
        machine.emit(state, HalfSum, node, half=half, addend=None, windows=True)


def _is_divided(machine: Machine, whole: str) -> bool:
    """Whether the running function divides `whole` in place by another tensor accumulated by windows."""
    function = machine.calls[-1] if machine.calls else None
    if function is None:
        return False
    added = {
        dotted(one.target.value)
        for one in every(function, cst.AugAssign)
        if isinstance(one.target, cst.Subscript) and isinstance(one.operator, cst.AddAssign)
    }
    divided = (one for one in every(function, cst.AugAssign) if isinstance(one.operator, cst.DivideAssign))
    return any(dotted(one.target) == whole and dotted(one.value) in added for one in divided)


def _only_accumulates(machine: Machine, node: cst.AugAssign, target: str) -> bool:
    """Whether the loop around `node` assigns its target only by augmented assignments."""
    loop = next((above for above in _around(machine, node) if isinstance(above, (cst.For, cst.While))), None)
    if loop is None or loop not in machine.loops:
        return False
    bound = (inner.target for inner in walk(loop) if isinstance(inner, (cst.AssignTarget, cst.AnnAssign, cst.For)))
    return all(dotted(inner) != target for one in bound for inner in walk(one))


def stored(machine: Machine, state: State, node: cst.Call, dtype: str | None) -> None:
    """Report a cast to half of the average of weights that an object is constructed to hold."""
    around = list(_around(machine, node)) if dtype in HALF_DTYPES else []
    functions = [above for above in around if isinstance(above, cst.FunctionDef)]
    owner = next((above for above in around if isinstance(above, cst.ClassDef)), None)
    if owner is None or not functions or functions[0].name.value != "__init__":
        return
    kept = _assigned_attribute(around)
    average = next((name for name in (kept or "", owner.name.value) if AVERAGE.search(name)), None)
    if kept is not None and average is not None and _is_updated(owner, functions[0], kept):
        chosen = any(isinstance(above, (cst.If, cst.IfExp)) for above in around[: around.index(functions[0])])
        unseen = (Premise.HALF_CHOSEN,) if chosen else ()
        machine.emit(state, HalfAverage, node, dtype=dtype, guesses=AVERAGE.guesses(average), premises=unseen)


def _assigned_attribute(around: list[cst.CSTNode]) -> str | None:
    """The attribute of `self` that the innermost statement of `around` assigns or casts."""
    for above in around:
        if isinstance(above, cst.Assign):
            names = [dotted(target.target) or "" for target in above.targets]
            return next((name.partition(".")[2] for name in names if name.startswith("self.")), None)
        if isinstance(above, cst.Expr):
            call = above.value
            name = dotted(call.func) if isinstance(call, cst.Call) else None
            return name.split(".")[1] if name is not None and name.startswith("self.") else None
    return None


def _is_updated(owner: cst.ClassDef, constructor: cst.FunctionDef, kept: str) -> bool:
    """Whether a method that uses the attribute `kept` updates tensors in place."""
    for member in owner.body.body:
        if member is constructor:
            continue
        nodes = list(walk(member))
        works = any(isinstance(one, cst.Attribute) and one.attr.value == kept for one in nodes)
        if works and any(_is_update(one) for one in nodes):
            return True
    return False


def _is_update(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.attr.value in _UPDATES
    return isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.MultiplyAssign)


def _around(machine: Machine, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    source = machine.program.source_of(node)
    return iter(source.ancestors(node) if source is not None else ())


class Sums(Tracker):
    """Tracks sums and averages in half."""

    def augmented(self, state: State, node: cst.AugAssign, before: Value, other: Value) -> Value | None:
        """Handle `total += value`."""
        if isinstance(node.operator, cst.AddAssign):
            added(self.machine, state, node, before, other)
            placed(self.machine, state, node, before)
        return None
