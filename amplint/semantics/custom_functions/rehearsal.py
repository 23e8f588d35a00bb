"""The two passes of a custom function, interpreted with known dtypes, as if a caller had autocast on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from amplint.records import dataclass
from amplint.semantics.custom_functions.function_passes import Passes, differentiable
from amplint.semantics.custom_functions.triton import multiplied
from amplint.semantics.events import KernelLaunched, Operation
from amplint.semantics.events.base import Event
from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.functions import call_function
from amplint.semantics.python.machine import BudgetSpent, Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.tensors.tensors import Tensors
from amplint.semantics.values.state import MODULE_FRAME, Region, State
from amplint.semantics.values.values import (
    FALSE,
    NONE,
    TRUE,
    Autocast,
    Class,
    Const,
    Function,
    Items,
    Namespace,
    Ref,
    Tensor,
    Unknown,
    Value,
)
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.torchlib.promotion import SOME_DIMENSIONS

STEPS = 3000
"""The statements that one rehearsal may execute."""
_ANY = frozenset({"float16", "bfloat16", "float32", "int64", "bool"})
"""The dtypes of a tensor of which nothing is known."""
_GLOBALS = (Function, Class, Namespace, Ref)
_KINDS = frozenset({Operation.kind, KernelLaunched.kind})


@dataclass(frozen=True, slots=True)
class Refusal:
    """An operation that raises: its node, PyTorch's name and the reason.

    `site` is the statement of the pass that leads there, `unsure` means that an unknown condition does.
    """

    node: cst.CSTNode
    op: str
    reason: str
    site: cst.CSTNode
    in_backward: bool
    unsure: bool


def refusals(
    machine: Machine,
    state: State,
    cls: Class,
    passes: Passes,
    given: Mapping[str, str | None],
    low: str | None,
    device: str,
    *,
    decorated: bool,
) -> list[Refusal]:
    """The operations of both passes that raise under autocast with dtype `low`, None for none.

    Inputs have the dtypes `given`, None for one that is None; others are unknown.
    Backward runs with autocast off, unless the passes are `decorated` with `custom_fwd` and `custom_bwd`.
    """
    with contextlib.closing(_Rehearsal(machine, state, cls)) as here:
        region = Autocast(frozenset({device}), frozenset({low or "float32"}), TRUE, passes.forward)
        needed = differentiable(passes)
        here.set_context(
            needs_input_grad=Items(tuple(Const(name in needed) for name in passes.inputs)),
            _fwd_used_autocast=Const(low is not None),
            _dtype=Ref(f"torch.{low}") if low is not None else NONE,
        )
        inputs = [here.input(given[name], device) if name in given else here.unknown() for name in passes.inputs]
        results = here.run(passes.forward, inputs, region)
        found = list(here.found(passes.forward))
        if found or not results:
            return found
        result = results[0]
        first = result.values[0] if isinstance(result, Items) and result.values else result
        if not isinstance(first, Tensor):
            return []
        off = Autocast(region.devices, region.dtypes, FALSE, passes.backward)
        here.run(passes.backward, [first], region if decorated else off)
        return list(here.found(passes.backward))


class Contexts(Tracker):
    """Tracks what the passes of a rehearsal save in their context, and the kernels that they launch."""

    methods = frozenset({"save_for_backward"})

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.contexts: set[int] = set()

    def is_needed(self) -> bool:
        """Whether this is a rehearsal."""
        return KernelLaunched.kind in self.machine.wanted

    def method(self, state: State, call: Call) -> Value | None:
        """Save tensors for backward."""
        if not isinstance(call.owner, Unknown) or call.owner.symbol not in self.contexts:
            return None
        whole = not any(argument.star for argument in call.arguments.given)
        saved = Items(call.arguments.values) if whole else Unknown(self.machine.fresh())
        state.set_attribute(call.owner.symbol, "saved_tensors", saved)
        return NONE

    def unseen_begins(self, state: State, call: Call) -> None:
        """Emit the launch of a Triton kernel whose products meet two dtypes."""
        if not isinstance(call.node.func, cst.Subscript):
            return
        kernel = self.machine.evaluate(state, call.node.func.value)
        function = node_of(kernel) if isinstance(kernel, Function) else None
        if not isinstance(function, cst.FunctionDef):
            return
        parameters = [parameter.name.value for parameter in function.params.params]
        for left, right in multiplied(function):
            sides = [call.arguments.value(one, parameters.index(one)) for one in (left, right)]
            kinds = {side.dtype for side in sides if isinstance(side, Tensor) and side.dtype is not None}
            if len(kinds) > 1:
                dtypes = " and ".join(side.dtype or "" for side in sides if isinstance(side, Tensor))
                reason = f"tl.dot multiplies {left} by {right}, which are {dtypes}"
                self.machine.emit(state, KernelLaunched, call.node, kernel=function.name.value, raises=reason)


class _Rehearsal:
    """One interpretation of the two passes, whose context is one object."""

    def __init__(self, machine: Machine, state: State, cls: Class) -> None:
        self._events: list[Operation | KernelLaunched] = []
        self._machine = machine.sibling(self._hear, _KINDS, STEPS)
        self._cls = cls
        self._context = self.unknown()
        self._machine[Contexts].contexts.add(self._context.symbol)
        self._machine[Tensors].unknown = _ANY
        self._state = State(self._machine.hooks.parts)
        globals_ = state.frames[MODULE_FRAME]
        self._state.frames[MODULE_FRAME] = {
            name: value for name, value in globals_.items() if isinstance(value, _GLOBALS)
        }

    def _hear(self, event: Event) -> None:
        if isinstance(event, (Operation, KernelLaunched)) and event.raises is not None:
            self._events.append(event)

    def close(self) -> None:
        """Release the machine."""
        self._machine.close()

    def unknown(self) -> Unknown:
        """An unknown value."""
        return Unknown(self._machine.fresh())

    def input(self, dtype: str | None, device: str) -> Value:
        """An argument of this dtype; None is None."""
        if dtype is None:
            return NONE
        return Tensor(self._machine.fresh(), dtype, rank=SOME_DIMENSIONS, device=device)

    def set_context(self, **attributes: Value) -> None:
        """Set attributes of the context."""
        for name, value in attributes.items():
            self._state.set_attribute(self._context.symbol, name, value)

    def run(self, node: cst.FunctionDef, given: list[Value], region: Autocast) -> list[Value]:
        """The results of a pass on its paths, of which the first is continued."""
        machine, function = self._machine, Function(self._cls.chunk, node, self._cls.frame, self._cls, bare=True)
        self._state.regions = (Region(region, node),)
        self._events.clear()
        try:
            ends = machine.outcomes(
                self._state, lambda s: call_function(machine, s, function, [self._context, *given], {}, None)
            )
        except BudgetSpent:
            return []
        if ends:
            self._state = ends[0][1]
        return [value for value, _ in ends]

    def found(self, function: cst.FunctionDef) -> Iterator[Refusal]:
        """What has raised in the last pass, in the order of its statements."""
        backward = function.name.value == "backward"
        for event in self._events:
            source = self._machine.program.source_of(event.node)
            place = next((one for one in event.sites if one is not None), event.node)
            at = self._machine.program.source_of(place)
            op = event.op if isinstance(event, Operation) else event.kernel
            site = _statement(at, place) if at is not None else event.statement
            unsure = source is None or any(not _excludes(source, one) for one in event.decisions)
            yield Refusal(event.node, op, event.raises or "", site, backward, unsure)


def _excludes(source: Source, test: cst.CSTNode) -> bool:
    """Whether an `if` only raises on one of its sides, so that the other one runs where the function ends."""
    branch = source.parent(test)
    if not isinstance(branch, cst.If) or branch.test is not test:
        return False
    other = branch.orelse.body if isinstance(branch.orelse, cst.Else) else None
    return _raises(branch.body) or (other is not None and _raises(other))


def _raises(block: cst.BaseSuite) -> bool:
    last = block.body[-1]
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Raise)


def _statement(source: Source, node: cst.CSTNode) -> cst.CSTNode:
    """The innermost statement around `node`."""
    inner = node
    for above in source.ancestors(node):
        if isinstance(above, (cst.IndentedBlock, cst.SimpleStatementSuite)):
            return inner
        inner = above
    return inner
