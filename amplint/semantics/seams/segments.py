"""Segments of a model under `torch.utils.checkpoint` and `torch.jit.trace`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from amplint.regex import regex
from amplint.semantics.events import Checkpointed, Traced
from amplint.semantics.python.attributes import find_method
from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.python.truth import symbol_of, truth
from amplint.semantics.reading.origins import KEEPS_DTYPE
from amplint.semantics.reading.scopes import renamed_triggers
from amplint.semantics.regions import ran
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.seams import chance
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    FALSE,
    TRUE,
    Const,
    Function,
    Instance,
    Items,
    Method,
    Ref,
    Tensor,
    Unknown,
    Value,
)
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.checkpointing import CHECKPOINTS, OWN_KEYWORDS, PASSES_KEYWORDS
from amplint.torchlib.methods import FLOATING_CASTS

TRACES = frozenset({"torch.jit.trace", "torch.jit.trace_module"})
_NOTHING_TO_CAST = regex(r"requires_grad|\bipex\b|\.half\(\)|\.bfloat16\(\)|\.to\([^)\n]*(?:float16|dtype)|torch_dtype")
"""Text about weights that require no gradient or are half already."""
_MOVES = operations_with("transfers") | FLOATING_CASTS
_DIVIDES = operations_with("selects", "view")
"""Operations that return pieces of a tensor."""
_PASSES_ON = frozenset({"builtins.enumerate", "builtins.reversed", "builtins.zip"})
_PARTS = frozenset({"part", "index", "converted", "to", "cuda", "float"})
_CHECKPOINTS = frozenset({"checkpoint", "checkpoint_sequential"})


def checkpoint_names(chunks: Iterable[Chunk]) -> frozenset[str]:
    """The names by which a file calls PyTorch's checkpoint functions."""
    return _CHECKPOINTS | renamed_triggers(chunks, _CHECKPOINTS)


def checkpointed(machine: Machine, state: State, node: cst.Call, name: str, arguments: Arguments) -> None:
    """Report the segment that `node` runs."""
    if Checkpointed.kind not in machine.wanted or not arguments.given:
        return
    if any(argument.star == "**" for argument in arguments.given):
        return
    asked = arguments.get("use_reentrant")
    preserves = arguments.get("preserve_rng_state")
    inputs = [a.value for a in arguments.given[CHECKPOINTS[name] :] if a.keyword not in OWN_KEYWORDS and not a.star]
    whole = not any(argument.star for argument in arguments.given)
    passed = tuple(a.keyword for a in arguments.given if a.keyword and a.keyword not in OWN_KEYWORDS)
    machine.emit(
        state, Checkpointed, node, call=node,
        reentrant=asked is None or asked.value == TRUE,
        chosen=asked is not None,
        sequential=name != PASSES_KEYWORDS,
        passed=passed, taken=_takes(machine, state, arguments.values[0], passed),
        lost=whole and not ran.without_gradients(state) and _needs_no_gradient(machine, inputs),
        wanted=any(_asks(machine, state, value) for value in _flat(inputs)),
        forgets=preserves.node if preserves is not None and preserves.value == FALSE else None,
        random=chance.drawn(machine, state, arguments.values[0]) if preserves is not None else None,
        torch=machine.program.wanted_torch(),
    )  # fmt: skip


def _takes(machine: Machine, state: State, segment: Value, passed: Sequence[str]) -> bool:
    """Whether a segment is seen to take the keywords `passed`."""
    if isinstance(segment, Instance):
        segment = find_method(machine, state, segment.cls, "forward") or segment
    function = segment.function if isinstance(segment, Method) else segment
    node = node_of(function) if isinstance(function, Function) else None
    if not isinstance(node, (cst.FunctionDef, cst.Lambda)):
        return False
    names = {one.name.value for one in (*node.params.params, *node.params.kwonly_params)}
    return node.params.star_kwarg is not None or names.issuperset(passed)


def _asks(machine: Machine, state: State, value: Value) -> bool:
    """Whether `value.requires_grad` was tested and is true."""
    question = machine.unknown("attribute", "requires_grad", parts=(symbol_of(machine, value),))
    return truth(machine, state, question) is True


def _needs_no_gradient(machine: Machine, inputs: Sequence[Value]) -> bool:
    """Whether all inputs come unchanged from the data, in a file that never mentions `requires_grad`."""
    given = [value for value in _flat(inputs) if not isinstance(value, Const)]
    if not given or any("requires_grad" in chunk.text for chunk in machine.relevant):
        return False
    return all(isinstance(value, (Tensor, Unknown)) and _is_loop_item(machine, value.symbol) for value in given)


def _is_loop_item(machine: Machine, symbol: int) -> bool:
    """Whether a value is an item of a loop over data, or a part, a view or a copy of one."""
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] == "item":
        return all(_is_loop_item(machine, one) for one in _divided(machine, parts[0]))
    if key[0] == "call":
        name, of = machine.symbols.method(symbol) or ("", ())
        return name in _MOVES and _is_loop_item(machine, of[0])
    return (key[0] in _PARTS or key[0] in KEEPS_DTYPE) and bool(parts) and _is_loop_item(machine, parts[0])


def _divided(machine: Machine, symbol: int) -> Iterator[int]:
    """The tensors whose pieces a loop over `symbol` goes through, such as `x` for `x.chunk(n)`, also in `zip`."""
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] == "call" and key[1] in _PASSES_ON:
        for part in parts:
            yield from _divided(machine, part)
    elif key[0] in _DIVIDES and parts:
        yield parts[0]
    elif key[0] == "call":
        name, of = machine.symbols.method(symbol) or ("", ())
        if name in _DIVIDES and of:
            yield of[0]


def _flat(values: Iterable[Value]) -> Iterable[Value]:
    for value in values:
        if isinstance(value, Items):
            yield from _flat(value.values)
        else:
            yield value


def traced(machine: Machine, state: State, node: cst.Call, arguments: Arguments) -> None:
    """Report a trace, with its check enabled, within a region that caches casts."""
    region, _ = innermost(machine, state)
    checks = arguments.get("check_trace")
    if checks is not None and checks.value != TRUE:
        return
    if region is None or region.enabled != TRUE or not isinstance(region.node, cst.Call):
        return
    if any(_NOTHING_TO_CAST.search(chunk.text) for chunk in machine.relevant):
        return
    given = {argument.keyword.value for argument in region.node.args if argument.keyword is not None}
    stars = any(argument.star for argument in region.node.args)
    if "cache_enabled" not in given and not stars and len(region.node.args) - len(given) < 3:
        machine.emit(state, Traced, node, entered=region.node)


class Segments(Tracker):
    """Tracks segments of models that are recomputed or traced."""

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """The names of checkpoint functions."""
        return Words(checkpoint_names(chunks)) if Checkpointed.kind in self.machine.wanted else Words()

    def handles_library_call(self, name: str) -> bool:
        """Whether this recomputes or traces a segment."""
        return name in CHECKPOINTS or name in TRACES

    def library_call(self, state: State, call: Call) -> Value | None:
        """Report a segment."""
        assert isinstance(call.callee, Ref)
        if call.callee.name in CHECKPOINTS:
            checkpointed(self.machine, state, call.node, call.callee.name, call.arguments)
        elif call.callee.name in TRACES:
            traced(self.machine, state, call.node, call.arguments)
        return None
