"""Versions of libraries: the project's requirements, and the changes that they include."""

from __future__ import annotations

import re

from amplint.records import dataclass
from amplint.regex import regex

Version = tuple[int, ...]
_NUMBERS = regex(r"\d+(?:\.\d+)*")
_ASKED = regex(r"(===|==|~=|>=|<=|<|>|\^|(?<![!<>=~])=)\s*v?(\d+(?:\.\d+)*)(\.\*)?")


@dataclass(frozen=True, slots=True)
class Change:
    """A library's behaviour since a version, and before it; findings name the one they assume."""

    package: str
    since: Version
    now: str
    before: str
    source: str

    def __str__(self) -> str:
        return ".".join(map(str, self.since))


def version(text: str) -> Version:
    """The components of a version: `0.17.1` is (0, 17, 1)."""
    found = _NUMBERS.search(text)
    return tuple(map(int, found.group().split("."))) if found else ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """The versions of `package` required by a file at `place`: from `least` on, and before `before`.

    `text` is the requirement. Without bounds, `least` is empty and `before` is None.
    """

    package: str
    text: str
    place: str
    least: Version = ()
    before: Version | None = None

    @property
    def name(self) -> str:
        """The name of the file with the requirement."""
        return re.split(r"[/\\]", self.place)[-1]

    def __str__(self) -> str:
        return f"{self.package} {self.text}"

    def has(self, change: Change) -> bool | None:
        """Whether these versions of the library include `change`; None if only some do."""
        if self.least >= change.since:
            return True
        return False if self.before is not None and self.before <= change.since else None


def assumed(change: Change, wanted: Wanted | None) -> str:
    """The version of a library that a finding about behaviour since `change` assumes."""
    if wanted is not None:
        return f"{wanted} is asked for ({wanted.name})"
    return f"no file of the project asks for a version, so {change} or later is assumed"


def asked(package: str, text: str, place: str) -> Wanted | None:
    """The versions that a specifier such as `==0.14.4` or `>=0.14,<0.17` requires; None without bounds."""
    least: Version = ()
    before: Version | None = None
    for sign, digits, star in _ASKED.findall(text):
        numbers = version(digits)
        if sign in ("==", "===", "=", ">=", "~=", "^"):
            least = max(least, numbers)
        upper = _first_excluded_version(sign, numbers, bool(star))
        if upper is not None:
            before = upper if before is None else min(before, upper)
    return Wanted(package, text.strip(), place, least, before) if least or before is not None else None


def _first_excluded_version(sign: str, numbers: Version, star: bool) -> Version | None:
    """The first version that a part of a specifier excludes."""
    if sign == "<":
        return numbers
    if sign == "<=" or (sign in ("==", "===") and not star):
        return (*numbers, 0, 1) if len(numbers) < 3 else (*numbers[:-1], numbers[-1] + 1)
    if sign in ("==", "="):  # `=` is conda's, and leaves the rest of the version open
        return (*numbers[:-1], numbers[-1] + 1)
    if sign == "~=" and len(numbers) > 1:
        return (*numbers[:-2], numbers[-2] + 1)
    if sign == "^":
        kept = next((index for index, number in enumerate(numbers) if number), len(numbers) - 1)
        return (*numbers[:kept], numbers[kept] + 1)
    return None
