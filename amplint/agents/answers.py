"""What tools answer: small objects with a schema, and the limit of their size."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, Field

LONGEST = 12_000
"""Characters that the long part of an answer takes as JSON: the findings, a diff, a page. About 3,000 tokens."""
_SHORTEST_CUT = 100

Severity = Annotated[str, Field(json_schema_extra={"enum": ["error", "warning", "info"]})]
Repair = Literal["safe", "unsafe", "no"]


class Place(BaseModel):
    """A line of a file, or of a cell of a notebook; all count from 1. `code` is that line."""

    path: str
    cell: int | None = None
    row: int
    code: str = ""
    message: str = ""


class FindingLine(BaseModel):
    """A finding in short. `id` stays the same while lines move; explain_finding takes it."""

    id: str
    path: str
    cell: int | None = None
    row: int
    column: int
    rule: str
    severity: Severity
    fix: Repair
    message: str
    advice: str = ""


class Checked(BaseModel):
    """Findings, the most severe first. `left_out` counts by rule those that the answer has no room for."""

    files: int
    total: int
    findings: list[FindingLine]
    left_out: dict[str, int] = Field(default_factory=dict)
    truncated: bool = False


class RulePage(BaseModel):
    """A rule and its page in Markdown; `truncated` where the page is cut."""

    code: str
    name: str
    severity: Severity
    fix: Repair
    default: bool
    summary: str
    page: str
    url: str
    truncated: bool = False


class Replacement(BaseModel):
    """The text from one position up to another one, which is not part of it, becomes `text`."""

    row: int
    column: int
    end_row: int
    end_column: int
    text: str


class Evidence(BaseModel):
    """Why a finding is there: `steps` lead to it, `guesses` are what it rests on by a name alone.

    `source` is the code around it. `replacements` and `imports` are its fix.
    """

    finding: FindingLine
    name: str
    reason: str
    steps: list[Place]
    source: list[Place]
    guesses: list[str]
    repair: str = ""
    replacements: list[Replacement] = Field(default_factory=list)
    imports: list[str] = Field(default_factory=list)
    url: str = ""
    truncated: bool = False


class Changed(BaseModel):
    """What became of a file. `text` is its new content where that was asked for; with `truncated`, too long to show.

    A diff that is `truncated` is cut after a line and cannot be applied.
    """

    path: str
    changed: bool
    written: bool
    diff: str = ""
    text: str | None = None
    truncated: bool = False


class Fixed(Changed):
    """A repair: how many fixes were applied, and how many findings are left."""

    fixes: int
    left: int


class ConvertedFile(Changed):
    """A conversion: what was done, why it was refused, and what a person should look at, each with its line."""

    done: list[str]
    refused: list[str]
    to_check: list[str]


class Traced(BaseModel):
    """A dry run. `ended` says how the script's process came to its end, `output` is the end of what it printed."""

    ended: str
    recorded: bool
    summary: str
    findings: list[FindingLine]
    left_out: dict[str, int] = Field(default_factory=dict)
    output: str
    truncated: bool = False


class Peak(BaseModel):
    """The peak of a GPU's memory in bytes, by what it is used for, or why there is none."""

    variant: str
    total: int
    kinds: dict[str, int]
    path: str
    row: int
    phase: str
    refused: str


class Memory(BaseModel):
    """The peak of each variant of a script, the script as it is first."""

    ended: str
    variants: list[Peak]
    output: str
    truncated: bool = False


_Item = TypeVar("_Item", bound=BaseModel)


def fitting(items: Iterable[_Item], room: int = LONGEST) -> list[_Item]:
    """As many of the first `items` as take at most `room` characters of JSON."""
    taken: list[_Item] = []
    for item in items:
        room -= len(compact(item))
        if room < 0:
            break
        taken.append(item)
    return taken


def compact(answer: BaseModel) -> str:
    """`answer` as JSON in one line."""
    return answer.model_dump_json()


def cut(text: str, room: int = LONGEST) -> str:
    """`text` up to the last line end before `room` characters of JSON are full; a single long line is cut anywhere."""
    if _size(text) <= room:
        return text
    low, high = 0, min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _size(text[:middle]) <= room else (low, middle - 1)
    end = text.rfind("\n", 0, low) + 1
    return text[: end if end >= _SHORTEST_CUT else low]


def encodable(text: str) -> str:
    """`text` without what UTF-8 cannot say, which becomes an escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _size(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False))
