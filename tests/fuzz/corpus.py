"""The programs that cases are made of: those in the repository, and random ones over the protocol."""

from __future__ import annotations

import functools
from pathlib import Path

from tests.chance import Numbers, seeded
from tests.differential.programs import program

ROOT = Path(__file__).parents[2]
_CODEMODS = ("programs", "apex_programs", "cuda_amp_programs", "micro_batches")
FOLDERS = ("fixtures/*", *(f"tests/codemods/{name}" for name in _CODEMODS))
RANDOM = 60


@functools.cache
def texts() -> tuple[str, ...]:
    """All programs, in an order that is always the same."""
    files = sorted(path for folder in FOLDERS for path in ROOT.glob(f"{folder}/*.py"))
    found = [path.read_text(encoding="utf-8") for path in files]
    return (*found, *(program(seeded(number)) for number in range(RANDOM)))


def pick(numbers: Numbers) -> str:
    """One of the programs."""
    return texts()[numbers(len(texts()) - 1)]
