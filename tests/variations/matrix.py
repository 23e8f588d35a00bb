"""What is found in a program of the fixtures, and no longer where it is written in another way."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from proof.programs import Program

from amplint.engine.cache import Cache
from amplint.engine.config import Settings
from amplint.engine.discover import Target
from amplint.engine.projects import Projects
from amplint.engine.registry import load_registry
from amplint.engine.run import Linter
from tests.variations.marked import Marked
from tests.variations.transforms import TRANSFORMS

SETTINGS = Settings(select=("ALL",))


@functools.cache
def linter() -> Linter:
    """A linter that asks all rules."""
    return Linter(Projects(load_registry().rules, fixed=SETTINGS), Cache(None))


def variation(program: Program, transform: str) -> dict[str, str] | None:
    """The files of `program` where it is written in another way, None where that changes nothing."""
    marked = Marked.read(program.text, program.expectations)
    if not TRANSFORMS[transform](marked):
        return None
    return {"main.py": marked.text(), **{name: Marked(tree, {}).text() for name, tree in marked.others.items()}}


def lost(program: Program, transform: str, folder: Path) -> Counter[str] | None:
    """How many findings of each code are gone; None where the transform changes nothing.

    A finding counts wherever it is in the files that result: it may be told at a call that leads to its statement.
    """
    files = variation(program, transform)
    if files is None:
        return None
    for settings in program.path.parent.iterdir():
        if settings.suffix != ".py" and settings.is_file():
            (folder / settings.name).write_bytes(settings.read_bytes())
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    found = Counter[str]()
    for name, text in files.items():
        findings = linter().check(Target(name, str(folder / name), SETTINGS), text.encode())
        found.update(finding.code for finding in findings)
    return Counter(code for _, code in program.expectations) - found


def losses(program: Program, transforms: Iterable[str], folder: Path) -> Iterator[tuple[str, Counter[str]]]:
    """The transforms that change `program`, each with what is lost."""
    for transform in transforms:
        here = folder / transform
        here.mkdir()
        gone = lost(program, transform, here)
        if gone is not None:
            yield transform, gone
