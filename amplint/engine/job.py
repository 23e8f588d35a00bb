"""A file to analyse, with what its analysis depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.records import dataclass
from amplint.rule import Rule
from amplint.semantics import SECONDS

if TYPE_CHECKING:
    from amplint.torchlib.versions import Wanted


@dataclass(frozen=True)
class Job:
    """A file to analyse: its name in reports, its absolute path, its content, and the rules whose screen it satisfies.

    `others` are rules whose screen only the imported files may satisfy. `torch` is the PyTorch version to assume.
    `asked` are the codes that were selected explicitly rather than by default. `whole` reports everything in imported
    files as well. `inside` assumes half in autocast regions alone. `seconds` limits the CPU time of the interpretation,
    and `libraries` overrides the library versions that the project requires.
    """

    filename: str
    path: str
    raw: bytes
    rules: tuple[type[Rule], ...]
    others: tuple[type[Rule], ...] = ()
    torch: str | None = None
    asked: frozenset[str] = frozenset()
    whole: bool = False
    inside: bool = False
    seconds: float = SECONDS
    libraries: tuple[Wanted, ...] = ()
