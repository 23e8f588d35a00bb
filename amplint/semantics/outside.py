"""Forward passes that run outside of the region their loss is computed in."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amplint.semantics.machine import Machine
from amplint.semantics.passes import ForwardOutside
from amplint.semantics.state import State
from amplint.semantics.truth import symbol_of
from amplint.semantics.values import Autocast, NewThread, Opaque, Tensor, Value


def produced(machine: Machine, state: State, node: cst.CSTNode, result: Value) -> None:
    """The forward pass of a model at `node` returned `result`."""
    symbol = symbol_of(machine, result)
    bare = not any(isinstance(region.context, (Autocast, NewThread, Opaque)) for region in state.regions)
    known = machine.outputs.setdefault(symbol, node)
    machine.outputs[symbol] = known if bare else None


def differentiated(machine: Machine, state: State, loss: Value) -> None:
    """Backward runs on `loss`: tell where its models ran outside of the region that the rest was computed in."""
    if not state.ran or len(state.ran) > 1 or ForwardOutside.kind not in machine.wanted:
        return
    plain = loss.plain if isinstance(loss, Tensor) else None
    behind = _behind(machine, symbol_of(machine, loss) if plain is None else plain)
    made = [machine.outputs[symbol] for symbol in behind if symbol in machine.outputs]
    bare = list(dict.fromkeys(node for node in made if node is not None))
    if made and None not in made and len(bare) == 1:
        machine.emit(state, ForwardOutside, bare[0], inside=state.ran[0].context)


def _behind(machine: Machine, symbol: int) -> Iterator[int]:
    """`symbol` and everything it was computed from."""
    todo, seen = [symbol], {symbol}
    while todo:
        current = todo.pop()
        yield current
        for part in machine.symbols.parts(current):
            if part not in seen:
                seen.add(part)
                todo.append(part)
