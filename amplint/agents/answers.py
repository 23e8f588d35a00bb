"""The tools' answers: small objects with a schema, and the limit of their size."""

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
    """A line of a file, or of a notebook cell; rows, columns and cells count from 1. `code` is the line's text."""

    path: str
    cell: int | None = None
    row: int
    code: str = ""
    message: str = ""


class FindingLine(BaseModel):
    """A finding in short. `id` is stable while lines move; explain_finding takes it."""

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
    """Findings, the most severe first. `left_out` counts, by rule, those beyond the size limit."""

    files: int
    total: int
    findings: list[FindingLine]
    left_out: dict[str, int] = Field(default_factory=dict)
    truncated: bool = False


class RulePage(BaseModel):
    """A rule and its page in Markdown; `truncated` if the page is cut."""

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
    """An edit: the text between two positions, the end exclusive, is replaced by `text`."""

    row: int
    column: int
    end_row: int
    end_column: int
    text: str


class Evidence(BaseModel):
    """Why a finding is reported: the `steps` that lead to it, and the `guesses` from names alone that it depends on.

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
    """The result for a file. `text` is its new content if requested; `truncated` if that is cut.

    A `truncated` diff is cut after a line and cannot be applied.
    """

    path: str
    changed: bool
    written: bool
    diff: str = ""
    text: str | None = None
    truncated: bool = False


class Fixed(Changed):
    """A repair: the number of fixes applied, and of findings left."""

    fixes: int
    left: int


class ConvertedFile(Changed):
    """A conversion: changes, reasons for a refusal, and places a person should check, each with its line."""

    done: list[str]
    refused: list[str]
    to_check: list[str]


class Traced(BaseModel):
    """A dry run. `ended` says how the script's process ended, `output` is the end of its output."""

    ended: str
    recorded: bool
    summary: str
    findings: list[FindingLine]
    left_out: dict[str, int] = Field(default_factory=dict)
    output: str
    truncated: bool = False


class Peak(BaseModel):
    """The peak of a GPU's memory in bytes, by use, or the reason why it is unknown."""

    variant: str
    total: int
    kinds: dict[str, int]
    path: str
    row: int
    phase: str
    refused: str


class Memory(BaseModel):
    """The peak of each variant of a script, beginning with the script as it is."""

    ended: str
    variants: list[Peak]
    output: str
    truncated: bool = False


_Item = TypeVar("_Item", bound=BaseModel)


def fitting(items: Iterable[_Item], room: int = LONGEST) -> list[_Item]:
    """As many of the first `items` as fit into `room` characters of JSON."""
    taken: list[_Item] = []
    for item in items:
        room -= len(compact(item))
        if room < 0:
            break
        taken.append(item)
    return taken


def compact(answer: BaseModel) -> str:
    """`answer` as JSON without white space."""
    return answer.model_dump_json()


def cut(text: str, room: int = LONGEST) -> str:
    """`text` up to the last line break within `room` characters of JSON; a single long line is cut anywhere."""
    if _size(text) <= room:
        return text
    low, high = 0, min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _size(text[:middle]) <= room else (low, middle - 1)
    end = text.rfind("\n", 0, low) + 1
    return text[: end if end >= _SHORTEST_CUT else low]


def encodable(text: str) -> str:
    """`text` with surrogates, which UTF-8 cannot encode, escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _size(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False))
