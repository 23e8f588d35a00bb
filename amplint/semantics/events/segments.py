"""Parts of a model that are run in special ways: recomputed by a checkpoint, recorded by a trace."""

from __future__ import annotations

from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.source import syntax as cst
from amplint.torchlib.versions import Wanted


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Checkpointed(Event):
    """`torch.utils.checkpoint` runs a segment.

    `reentrant` means that it is the reentrant variant, `chosen` that an argument decides this, `lost` that none of the
    inputs can require a gradient, `wanted` that one was asked and does. `sequential` means that it divides a list of
    modules, `passed` are the keywords that are meant for the segment, and `taken` that it is seen to take them.
    `forgets` is the argument that has the random state not restored, `random` what the segment draws
    random numbers with. `torch` are the versions of PyTorch that the project requires.
    """

    call: cst.Call
    reentrant: bool
    chosen: bool
    sequential: bool
    passed: tuple[str, ...]
    taken: bool
    lost: bool
    wanted: bool
    forgets: cst.Arg | None
    random: cst.CSTNode | None
    torch: Wanted | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Traced(Event):
    """`torch.jit.trace` records a model in a region that keeps its casts of weights; `entered` made the region."""

    entered: cst.Call
