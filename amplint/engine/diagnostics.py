"""Diagnostics about the linting itself, shaped as rules so that they have names, pages and selectors."""

from __future__ import annotations

from amplint.findings import Applicability, Finding, Position, Severity, Span
from amplint.rule import Rule

START = Span(Position(1, 1), Position(1, 1))


class SyntaxErrorFound(Rule):
    """The file is not a Python program, or no JSON or YAML, so it was not analysed.

    ## What it means
    The bytes cannot be decoded, contain NUL, are nested deeper than a parser can follow, or break Python's grammar.
    Nothing else is said about such a file; the other files are linted as usual.

    ## What to do
    Run the file with `python -m py_compile` and repair what it names. This diagnostic cannot be switched off; use
    `exclude` for files that are not meant to be Python.
    """

    code = "AMP001"
    name = "syntax-error"
    severity = Severity.ERROR
    screen = ()


class UnreadableFile(Rule):
    """A file or folder cannot be read or written.

    ## What it means
    Permissions are missing, a symbolic link points nowhere or back to a folder it lies in, the disk refused, what has
    the name is no regular file, or it is larger than `max-file-size` in the configuration allows.

    ## What to do
    Repair the link or the permissions, or add the path to `exclude`. This diagnostic cannot be switched off.
    """

    code = "AMP002"
    name = "unreadable-file"
    severity = Severity.ERROR
    screen = ()


class RuleCrashed(Rule):
    """A rule, or the analysis itself, failed on this file.

    ## What it means
    This is a defect in amplint or in a plug-in, not in the linted file. The findings of the other rules and of the
    other files are complete; the exit status is 2.

    ## What to do
    Report it together with the file. Until it is repaired, leave the rule out with `ignore`.
    """

    code = "AMP003"
    name = "rule-crashed"
    severity = Severity.ERROR
    screen = ()


class UnusedSuppression(Rule):
    """A suppression comment suppresses nothing, or names a rule that does not exist.

    ## Why is this bad?
    A suppression that outlives its finding hides the next, real one in that place.

    ## Example
    ```python
    scaler.update()  # amplint: ignore[AMP201]
    ```

    ## Use instead
    ```python
    scaler.update()
    ```

    A bare `# noqa` and codes of other tools are never reported, nor are rules that are not selected in this run. To
    keep a suppression that is not always needed, add this code to it: `# amplint: ignore[AMP201, AMP004]`.

    ## Fix safety
    Safe: the fix removes the comment, and is offered where nothing else stands in it.
    """

    code = "AMP004"
    name = "unused-suppression"
    severity = Severity.WARNING
    fixable = Applicability.SAFE
    screen = ()


class CutShort(Rule):
    """The analysis of a file took too long and was cut short.

    ## What it means
    The file was followed for as many statements, or as many processor seconds, as one file may take. What was found
    until then stands; what depends on the rest was not looked at, so findings can be missing. This is a notice: the
    exit status is what it would be without it, and `--fix` repairs what was found once. A file of more than 2 MB is not
    followed at all; where it holds nothing that any rule is about, nothing is said of it.

    ## What to do
    The message names the function in which the analysis stopped. Where there are many conditions or calls in it, code
    that is divided into smaller functions can be followed further. `max-seconds` in the configuration allows a file
    more time, and `exclude` is for files that need not be looked at. This diagnostic cannot be switched off.
    """

    code = "AMP005"
    name = "cut-short"
    severity = Severity.INFO
    screen = ()


DIAGNOSTICS: tuple[type[Rule], ...] = (SyntaxErrorFound, UnreadableFile, RuleCrashed, UnusedSuppression, CutShort)
ALWAYS_ON = frozenset({SyntaxErrorFound.code, UnreadableFile.code, RuleCrashed.code, CutShort.code})
NOTICES = frozenset({CutShort.code})
"""What does not count for the exit status."""


def diagnostic(kind: type[Rule], filename: str, message: str, *, span: Span = START, reason: str = "") -> Finding:
    """A finding of one of `DIAGNOSTICS`; `span` defaults to the start of the file."""
    return Finding(kind.code, kind.name, kind.severity, message, filename, span, reason)


def internal_error(filename: str, what: str, failure: BaseException) -> Finding:
    """The diagnostic for an internal `failure` during `what`."""
    reason = "This is a defect in amplint; please report it together with the file."
    return diagnostic(RuleCrashed, filename, f"{what} failed: {describe(failure)}", reason=reason)


def describe(failure: BaseException) -> str:
    """The type and the first line of the message of an exception."""
    message = str(failure).strip().partition("\n")[0]
    return f"{type(failure).__name__}: {message}" if message else type(failure).__name__
