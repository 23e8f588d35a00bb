"""Fixture programs: their headers, their expectations, and whether a run shows what the header promises."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from proof.client import Outcome

FIXTURES = Path(__file__).parents[2] / "fixtures"
FIXES = frozenset({"safe", "unsafe", "none"})

FRAMEWORKS = Path(__file__).parent / "frameworks"
_HEADER = re.compile(r"# (proof|device|fix|framework|asked): (.*)")
_EXPECT = re.compile(r"# expect: (AMP\d{3}(?: AMP\d{3})*)$")
_MESSAGE = re.compile(r'(raises|warns) (\w+) "(.+)"')


@dataclass(frozen=True)
class Program:
    """One file of a fixture folder."""

    path: Path

    @property
    def name(self) -> str:
        """The path below the fixtures, the program's name in test reports."""
        return self.path.relative_to(FIXTURES).as_posix()

    @property
    def code(self) -> str:
        """The code of the rule that the folder is about."""
        return self.path.parent.name.partition("-")[0]

    @property
    def is_bad(self) -> bool:
        """Whether the program is there to be found, rather than to be left alone."""
        return self.path.name.startswith("bad_")

    @functools.cached_property
    def text(self) -> str:
        """The source."""
        return self.path.read_text(encoding="utf-8")

    @functools.cached_property
    def headers(self) -> dict[str, str]:
        """The header lines by key. Raises ValueError for one that is malformed or of an unknown kind."""
        found: dict[str, str] = {}
        for line in self.text.splitlines():
            if not line.startswith("#"):
                break
            header = _HEADER.fullmatch(line)
            if header is None:
                raise ValueError(f"{self.name}: not a header: {line}")
            found[header[1]] = header[2]
        if found.keys() != ({"proof", "fix"} if self.is_bad else set()) | (
            found.keys() & {"device", "framework", "asked"}
        ):
            raise ValueError(f"{self.name}: headers {sorted(found)}")
        if found.get("device", "cuda") != "cuda" or (self.is_bad and found["fix"] not in FIXES):
            raise ValueError(f"{self.name}: {found}")
        if "framework" in found and not list(FRAMEWORKS.glob(f"{found['framework']}*")):
            raise ValueError(f"{self.name}: nothing stands in for {found['framework']}")
        return found

    @property
    def cuda(self) -> bool:
        """Whether the program is written for a GPU."""
        return "device" in self.headers

    @property
    def framework(self) -> bool:
        """Whether the program imports a framework that has a stand-in."""
        return "framework" in self.headers

    @property
    def asked(self) -> bool:
        """Whether the rule is selected by its code, for what it tells of more than one unseen premise."""
        return "asked" in self.headers

    @property
    def fix(self) -> str:
        """What repairs a bad program: `safe` or `unsafe` fixes, or `none`."""
        return self.headers["fix"]

    @functools.cached_property
    def expectations(self) -> set[tuple[int, str]]:
        """The (row, code) pairs that linting must report, no more and no fewer."""
        rows = enumerate(self.text.splitlines(), start=1)
        return {(row, code) for row, line in rows if (match := _EXPECT.search(line)) for code in match[1].split()}

    def shows_symptom(self, outcome: Outcome) -> bool:
        """Whether `outcome` shows what the `proof` header says. Raises ValueError for an unknown kind of proof."""
        proof = self.headers["proof"]
        if message := _MESSAGE.fullmatch(proof):
            verb, kind, part = message.groups()
            seen = outcome.warnings if verb == "warns" else (outcome.exception,)
            return any(one is not None and one.type == kind and part in one.text for one in seen)
        if outcome.exception is not None:
            return False
        if proof == "result is not finite":
            return not outcome.is_finite()
        if proof == "result differs from expected":
            return outcome.differs_from_expected()
        if proof == "result differs from float32":
            return outcome.differs_from_float32()
        raise ValueError(f"{self.name}: unknown proof: {proof}")


def programs() -> list[Program]:
    """Every program of every fixture folder."""
    return [Program(path) for path in sorted(FIXTURES.glob("AMP*/*.py"))]
