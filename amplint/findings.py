"""The results of rules: findings, the steps that lead to them, and the edits that repair them."""

from __future__ import annotations

import enum
import re
from dataclasses import field

from amplint.claims import Claim, Mark
from amplint.records import dataclass

GUESSES_URL = "https://amplint.github.io/guesses"


class Severity(enum.IntEnum):
    """How bad a finding is; ordered, so that `finding.severity >= minimum` works."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def label(self) -> str:
        """The lower-case word used in configuration, on the command line and in reports."""
        return self.name.lower()


class Applicability(enum.Enum):
    """Whether a fix preserves every intended behaviour (safe) or may change results (unsafe)."""

    SAFE = "safe"
    UNSAFE = "unsafe"


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the decoded text: 1-based row, 1-based column in code points."""

    row: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open range of the decoded text: `end` is the position just past the last character.

    In a notebook both count from the start of the cell with the number `cell`, 1 for the first one, of whatever kind.
    """

    start: Position
    end: Position
    cell: int | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text of `span` by `content`; an empty span inserts, an empty content deletes."""

    span: Span
    content: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A repair: its edits are applied all together or not at all.

    `imports` are the import statements that the new text needs (`"import torch"`, `"from torch.amp import GradScaler"`,
    `"import torch.nn.functional as F"`); the fixer adds those that the file lacks at its top level.
    """

    message: str
    edits: tuple[Edit, ...]
    applicability: Applicability = Applicability.SAFE
    imports: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """One step on the path to the finding; `filename` is empty for the finding's own file."""

    message: str
    span: Span
    filename: str = ""


@dataclass(frozen=True, slots=True)
class Guessed:
    """A value taken for `meaning` because of its name `name`.

    If `about` names a field of an event, only that field depends on the guess.
    """

    name: str
    meaning: str
    about: str = ""

    def __str__(self) -> str:
        return f"`{self.name}` is taken for {self.meaning} by its name."

    @property
    def url(self) -> str:
        """The page that explains the guess."""
        heading = re.sub(r"[^\w -]", "", self.meaning.lower())
        return f"{GUESSES_URL}#{heading.replace(' ', '-')}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem at one place of one file.

    `message` says what happens, `reason` why that is bad, `advice` what to write instead. `elsewhere` is set if it
    happens in another file: `span` then is the call that leads there. `claims` are observations of a run, any of which
    confirms the finding, at `shown` if that is not `span`; `mark` is what a run did show. The finding depends on the
    names in `guesses`.
    """

    code: str
    name: str
    severity: Severity
    message: str
    filename: str
    span: Span
    reason: str = ""
    advice: str = ""
    notes: tuple[Note, ...] = field(default=())
    fix: Fix | None = None
    elsewhere: Note | None = None
    claims: tuple[Claim, ...] = ()
    shown: Note | None = None
    mark: Mark | None = None
    guesses: tuple[Guessed, ...] = ()

    @property
    def cell(self) -> int | None:
        """The number of the notebook cell, None in other files."""
        return self.span.cell
