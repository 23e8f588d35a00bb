"""The programs whose events and findings are kept: those in the repository, and random ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.chance import Numbers, seeded
from tests.differential.programs import program
from tests.dtypes.programs import Writer

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\nfrom world import see\n"
"""What the files with programs about dtypes leave out."""


@dataclass(frozen=True)
class Sample:
    """A program; `path` is its file, empty for one that is in no file."""

    name: str
    text: str
    path: str = ""


@dataclass(frozen=True)
class Corpus:
    """Programs that are kept in one file.

    Events are kept as they are where they are `readable`, else as digests. Of programs about `dtypes` the claims about
    the values they show are kept, too. Rules about `opportunities`, whose repair converts the whole file, are asked in
    their own fixtures alone: conversions have tests of their own, and take most of the time of a golden.
    """

    name: str
    samples: Callable[[], Iterator[Sample]]
    readable: bool = True
    dtypes: bool = False
    opportunities: bool = False


def corpora() -> Iterator[Corpus]:
    """All there are."""
    for folder in sorted((ROOT / "fixtures").glob("AMP*")):
        yield Corpus(f"fixtures/{folder.name}", partial(_files, folder), opportunities=folder.name.startswith("AMP9"))
    for name in ("programs", "apex_programs", "cuda_amp_programs", "micro_batches"):
        yield Corpus(f"codemods/{name}", partial(_files, TESTS / "codemods" / name))
    yield Corpus("differential/found", partial(_texts, TESTS / "differential" / "found"))
    yield Corpus("differential/random", partial(_random, 150, program), readable=False)
    yield Corpus("dtypes/found", partial(_texts, TESTS / "dtypes" / "found", HEAD), dtypes=True)
    for device in ("cpu", "cuda"):
        make = partial(_about_dtypes, device)
        yield Corpus(f"dtypes/{device}", partial(_random, 40, make), readable=False, dtypes=True)


def _files(folder: Path) -> Iterator[Sample]:
    for path in sorted(folder.glob("*.py")):
        yield Sample(path.name, path.read_text(encoding="utf-8"), str(path))


def _texts(folder: Path, head: str = "") -> Iterator[Sample]:
    for path in sorted(folder.glob("*.txt")):
        yield Sample(path.name, head + path.read_text(encoding="utf-8"))


def _random(count: int, make: Callable[[Numbers], str]) -> Iterator[Sample]:
    for seed in range(count):
        yield Sample(f"seed {seed}", make(seeded(seed)))


def _about_dtypes(device: str, numbers: Numbers) -> str:
    return Writer(numbers, device).program()
