"""Names of libraries, and the end of the file."""

from __future__ import annotations

from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.torchlib.versions import Wanted


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ApiUse(Event):
    """A library name is imported or used; `name` is its qualified name.

    For a deprecated one of PyTorch, and those of mmcv, `required` are the versions that the project requires.
    """

    name: str
    required: Wanted | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScriptEnd(Event):
    """The whole file has been followed; `complete` means that no part of it was given up for want of time.

    For rules about what a script never does: they record earlier events and report here. `may_scale` means that a word
    in the file mentions scaling of losses, or a framework that may do so, `names_cuda` that one mentions CUDA.
    """

    complete: bool
    may_scale: bool = True
    names_cuda: bool = False
