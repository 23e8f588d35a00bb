"""Dtypes and sharding of model parameters on a path."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any

from amplint.records import dataclass
from amplint.semantics.events import Shards
from amplint.semantics.values.state import Iteration, Part, State
from amplint.source import syntax as cst


@dataclass(frozen=True, slots=True)
class Model:
    """The calls that cast the parameters of a model to float16 or bfloat16, and the one that sharded them.

    `perhaps` casts them to float16 if a setting chooses that, or on another path. `saved` loads them in the dtype
    in which they were saved, in the newest version of the library. `frozen` is the cast before training was
    disabled for them, or a layer of the script was added to them, with the dtype. `computed` is the half compute
    dtype of quantized weights, and the argument that sets it. `layer` is the half dtype in which a layer of the
    model was constructed, and its call; `part` is that of a model which this one holds, and its cast; `thawed`
    means that these weights were frozen, and some are trained again.
    """

    half: cst.CSTNode | None = None
    shards: Shards | None = None
    bfloat16: cst.CSTNode | None = None
    saved: cst.CSTNode | None = None
    frozen: tuple[str, cst.CSTNode] | None = None
    perhaps: cst.CSTNode | None = None
    computed: tuple[str, cst.CSTNode] | None = None
    layer: tuple[str, cst.CSTNode] | None = None
    part: tuple[str, cst.CSTNode] | None = None
    thawed: bool = False

    @property
    def stored(self) -> tuple[str, cst.CSTNode] | None:
        """The half dtype of the parameters, trained or not, and the node that cast them."""
        if self.half is not None:
            return "float16", self.half
        return ("bfloat16", self.bfloat16) if self.bfloat16 is not None else self.frozen

    @property
    def sharded(self) -> cst.CSTNode | None:
        """The call that left each rank only a shard of the gradients, which plain clipping ignores; None otherwise."""
        return self.shards.node if self.shards is not None and self.shards.sharder.clips else None

    def traits(self) -> tuple[Hashable, ...]:
        """The facts of the model by which paths are told apart, without the nodes and what is held."""
        shards = self.shards and (
            (self.shards.sharder.title, self.shards.dtype, self.shards.outdated, self.shards.returns)
        )
        weights = (self.half is None, self.bfloat16 is None, self.saved is None, self.computed is None)
        return (*weights, self.layer is None, shards)


_ORDINARY = Model().traits()


class ModelStates(Part):
    """The models whose parameters differ from how they were constructed, by symbol; `known` is immutable.

    `default` is the half dtype in which parameters are constructed at present, and the call that set it.
    """

    __slots__ = ("default", "known")

    def __init__(self) -> None:
        self.known: dict[int, Model] = {}
        self.default: tuple[str, cst.CSTNode] | None = None

    def copy(self) -> ModelStates:
        """An independent continuation."""
        twin = ModelStates.__new__(ModelStates)
        twin.known = self.known
        twin.default = self.default
        return twin

    def symbols(self) -> Iterable[int]:
        """The models."""
        return self.known

    def key(self, now: Iteration) -> Hashable:
        """What rules can tell apart of trainable models."""
        described = ((symbol, model.traits()) for symbol, model in self.known.items())
        return frozenset((symbol, *traits) for symbol, traits in described if traits != _ORDINARY)

    def joined(self, other: ModelStates) -> ModelStates:
        """The models known on either path."""
        if self.known == other.known and self.default == other.default:
            return self
        twin = ModelStates()
        twin.known = {**other.known, **self.known}
        twin.default = self.default if self.default == other.default else None
        return twin

    def joined_with(self, other: ModelStates) -> ModelStates:
        """The models with equal facts on both paths."""
        twin = ModelStates()
        twin.known = {symbol: model for symbol, model in self.known.items() if other.known.get(symbol) == model}
        return twin


def change(state: State, symbol: int, **changes: Any) -> None:
    """Update the facts of the model `symbol`."""
    known = state[ModelStates].known.get(symbol, Model())
    known = replace(known, **changes)
    state.change(ModelStates).known = {**state[ModelStates].known, symbol: known}
    if known == Model():
        del state.change(ModelStates).known[symbol]
