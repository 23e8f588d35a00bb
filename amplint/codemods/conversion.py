"""Requests, plans and results of conversions."""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple

from amplint.findings import Fix
from amplint.records import dataclass


@dataclass(frozen=True, slots=True)
class Wish:
    """The goal of a conversion.

    `to` names the goal and `source` the API that the code uses now (`--from`); one of them selects the codemod,
    `source` where both are given. `accumulate` is the number of batches whose gradients are accumulated for each step,
    by itself or after the other conversion. The others choose between equivalent results; findings in the result of
    rules with a code or a name in `allow` are reported and do not refuse the conversion.
    """

    to: str | None = None
    source: str | None = None
    dtype: str = "float16"
    device: str = "cuda"
    add_flag: bool = False
    accumulate: int | None = None
    allow: tuple[str, ...] = ()


class Cure(NamedTuple):
    """A fix of the file with `text` at `path`, which leaves what that computes in float32 as it was."""

    path: str
    text: str
    fix: Fix


class Cured(NamedTuple):
    """A file before and after a conversion, with what was `done`."""

    path: str
    before: bytes
    after: bytes
    done: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Remark:
    """One line about a row of the text, or of the cell with this number of a notebook; all count from 1.

    `cures` are fixes that end what it names. One that `stops` refuses the conversion where none of them is left.
    """

    row: int
    text: str
    cell: int | None = None
    cures: tuple[Cure, ...] = field(default=(), compare=False)
    stops: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Change:
    """Edits that are applied together or not at all, with a description for the user.

    `left` are remarks for review by a person, by the rows of the text that this change alone leads to.
    """

    fix: Fix
    done: tuple[Remark, ...]
    left: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes that a codemod plans for a text.

    Conflicting changes are applied in turn: the codemod plans again on the result until there is no change. Any remark
    in `refused` refuses the whole conversion. `left` are remarks for review by a person. `repairs` names the rules
    whose fixes complete the changes, `accepted` those that find in the result what was wrong before. Where models
    return `half` from here on, operations that fail in that dtype are computed in float32. After a `complete` plan the
    codemod has nothing left to do. A result with new errors or warnings is refused; new infos, without opportunities,
    are left to a person.
    """

    changes: tuple[Change, ...] = ()
    refused: tuple[Remark, ...] = ()
    left: tuple[Remark, ...] = ()
    repairs: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    half: str = ""
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Conversion:
    """The text after a conversion, the changes, the reasons for refusing it, and remarks for review by a person.

    If anything was refused, the text is the original and `done` is empty; `tried` then is the rejected result, if there
    was one. Rows in `done` are those of the text before each change, rows in `refused` those of the original, rows in
    `left` those of the result. `others` are imported files with cures, and `cured` the remarks
    that these leave out.
    """

    text: str
    done: tuple[Remark, ...] = ()
    refused: tuple[Remark, ...] = ()
    left: tuple[Remark, ...] = ()
    tried: str = ""
    others: tuple[Cured, ...] = ()
    cured: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True)
class Converted:
    """A file or text before and after a conversion, equal if nothing was converted.

    `done` are the changes, `reasons` those for refusing it and `checks` remarks for review by a person, by rows as in
    `Conversion`. `failure` says in one line why the file could not be read, converted or written. `tried` is the result
    that was rejected for its findings. `others` are the imported files that change with it.
    """

    filename: str
    before: bytes
    after: bytes
    done: tuple[Remark, ...] = ()
    reasons: tuple[Remark, ...] = ()
    checks: tuple[Remark, ...] = ()
    failure: str = ""
    tried: bytes = b""
    others: tuple[Converted, ...] = ()
