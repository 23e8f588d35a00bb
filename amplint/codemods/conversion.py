"""What a conversion is asked for, what it plans, and what it comes to."""

from __future__ import annotations

from amplint.findings import Fix
from amplint.records import dataclass


@dataclass(frozen=True, slots=True)
class Wish:
    """What code is to become.

    `to` names the goal and `source` what the code is written for now (`--from`); one of them decides which codemod
    runs, `source` where both are given. `accumulate` is a number of batches whose gradients are to be added up for each
    step, by itself or after the other conversion. The others say how the result should look where there is a choice;
    what the rules with a code or a name in `allow` find in it is named and does not stop the conversion.
    """

    to: str | None = None
    source: str | None = None
    dtype: str = "float16"
    device: str = "cuda"
    add_flag: bool = False
    accumulate: int | None = None
    allow: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Remark:
    """One line about a row of the text, or of the cell with this number of a notebook; all count from 1."""

    row: int
    text: str
    cell: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Edits that are applied together or not at all, and what they do, for the user.

    `left` is what then deserves a look by a person, by the rows of the text that this change alone leads to.
    """

    fix: Fix
    done: tuple[Remark, ...]
    left: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What a codemod wants to do with a text.

    Changes that get in each other's way are applied in turn: the codemod is asked again about the result until it plans
    none. Anything in `refused` stops the whole conversion. `left` is what works but deserves a look by a person.
    `repairs` name the rules whose repairs complete the changes, and where models give `half` from here on, what goes
    wrong with that is computed in float32. A result that lints with errors or warnings that the
    text did not have is refused; infos are left to a person, opportunities apart.
    """

    changes: tuple[Change, ...] = ()
    refused: tuple[Remark, ...] = ()
    left: tuple[Remark, ...] = ()
    repairs: tuple[str, ...] = ()
    half: str = ""


@dataclass(frozen=True, slots=True)
class Conversion:
    """The text after a conversion, what was done to it, why it was refused, and what is left for a person to look at.

    Where anything was refused the text is the original and nothing was done; `tried` then is the result that was not
    taken, where it came to one. Rows in `done` are those of the text before each change, rows in `refused` those of the
    original, rows in `left` those of the result.
    """

    text: str
    done: tuple[Remark, ...] = ()
    refused: tuple[Remark, ...] = ()
    left: tuple[Remark, ...] = ()
    tried: str = ""


@dataclass(frozen=True, slots=True)
class Converted:
    """A file or text before and after a conversion, which are equal where nothing was converted.

    `done` is what was done, `reasons` why it was refused and `checks` what is left for a person to look at, by rows as
    in `Conversion`. `failure` says in one line why the file could not be read, converted or written. `tried` is what
    the file would have become where it was refused for what that lints with.
    """

    filename: str
    before: bytes
    after: bytes
    done: tuple[Remark, ...] = ()
    reasons: tuple[Remark, ...] = ()
    checks: tuple[Remark, ...] = ()
    failure: str = ""
    tried: bytes = b""
