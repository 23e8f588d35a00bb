"""Suppression comments: which findings they drop, and which of them are reported as unused."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from amplint.engine.suppress import suppress
from amplint.findings import Finding, Position, Severity, Span
from amplint.source.suppressions import suppressions
from tests.conftest import Command
from tests.test_config import RULES

ACTIVE = frozenset(RULES) - {"AMP901"}


def finding(row: int, code: str = "AMP201") -> Finding:
    """A finding in `row`."""
    return Finding(code, RULES[code].name, Severity.ERROR, "bad", "a.py", Span(Position(row, 1), Position(row, 2)))


def left(text: str, *rows: int, code: str = "AMP201", active: frozenset[str] = ACTIVE) -> list[tuple[str, int]]:
    """Code and row of what remains of findings in `rows`, and of what is reported about the comments."""
    kept = suppress([finding(row, code) for row in rows], "a.py", text.encode(), RULES, active)
    return [(one.code, one.span.start.row) for one in kept]


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "# NOQA",
        "#noqa",
        "# noqa: AMP201",
        "# noqa:AMP201,E501",
        "# noqa: E501 AMP2",
        "# noqa: amp201",
        "# because  # noqa: AMP201",
        "# noqa: AMP201 because of this",
        "# type: ignore  # noqa",
        "# amplint: ignore",
        "# amplint: ignore[AMP201]",
        "# amplint:ignore[AMP2]",
        "# amplint: ignore[first-rule]",
        "# amplint: ignore[AMP201] the reason why",
        "# Amplint: Ignore [ First-Rule ]",
    ],
)
def test_a_line_is_suppressed(comment: str) -> None:
    assert left(f"x = 1  {comment}\ny = 2\n", 1) == []
    assert ("AMP201", 2) in left(f"x = 1  {comment}\ny = 2\n", 2)


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa: E501",
        "# noqa: AMP202",
        "# amplint: ignore[AMP202]",
        "# amplint: ignore[]",
        "# amplint: ignored",
        "# amplint: ignore-all",
        "# flake8: noqa",
        "# noqabc",
        "'# noqa'",
        "# see noqa",
    ],
)
def test_a_line_is_not_suppressed(comment: str) -> None:
    assert ("AMP201", 1) in left(f"x = 1, {comment}\n", 1)


def test_any_line_of_a_statement_counts() -> None:
    text = "x = f(\n    1,\n    # amplint: ignore[AMP201]\n    2,\n)\ny = 1\n"
    assert left(text, 1, 2, 5) == []
    assert ("AMP201", 6) in left(text, 6)
    assert left('x = """\n# noqa\n"""  # noqa\n', 1, 3) == []
    assert left("x = 1 + \\\n    2  # noqa\n", 1) == []


def test_the_header_of_a_compound_statement_counts_and_its_body_does_not() -> None:
    text = "with a(\n    1,  # noqa\n):\n    x = 1\n"
    assert left(text, 1, 3) == []
    assert left(text, 4) == [("AMP201", 4)]
    assert left("if a: b()  # noqa\n", 1) == []
    assert left("@d  # noqa\ndef f():\n    pass\n", 2) == [("AMP201", 2)]


def test_a_comment_between_statements_belongs_to_none() -> None:
    assert left("# amplint: ignore[AMP201]\nx = 1\n", 2) == [("AMP004", 1), ("AMP201", 2)]


def test_strings_are_no_comments() -> None:
    assert left('x = "# noqa"\n', 1) == [("AMP201", 1)]
    assert left('"""\n# amplint: ignore-file\n"""\nx = 1\n', 4) == [("AMP201", 4)]


@pytest.mark.parametrize("brackets", ["", "[AMP201]", "[first-rule, AMP202]"])
def test_whole_files(brackets: str) -> None:
    text = f"x = 1\n    # amplint: ignore-file{brackets}\ny = 2\n".replace("    #", "#")
    active = ACTIVE - {"AMP202"}
    assert left(text, 1, 3, active=active) == []


def test_ignore_file_after_code_is_misplaced() -> None:
    assert left("x = 1  # amplint: ignore-file\n", 1) == [("AMP201", 1), ("AMP004", 1)]


def test_diagnostics_cannot_be_suppressed() -> None:
    assert left("x = 1  # noqa\n", 1, code="AMP003") == [("AMP003", 1)]


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("# noqa: AMP201", "this suppression of AMP201 suppresses nothing"),
        ("# noqa: AMP2, E501", "this suppression of AMP2 suppresses nothing"),
        ("# amplint: ignore", "this suppression suppresses nothing"),
        ("# amplint: ignore[AMP201, AMP202]", "this suppression of AMP201, AMP202 suppresses nothing"),
        ("# amplint: ignore[first-rule]", "this suppression of first-rule suppresses nothing"),
        ("# amplint: ignore[]", "this suppression names no rule, so it suppresses nothing"),
        ("# amplint: ignore[AMO201]", 'no rule is called "AMO201" (did you mean "AMP201"?)'),
        ("# noqa: AMP777", 'no rule is called "AMP777"'),
        ("# amplint: ignore[frist-rule]", 'no rule is called "frist-rule" (did you mean "first-rule"?)'),
    ],
)
def test_unused(comment: str, message: str) -> None:
    (unused,) = suppress([], "a.py", f"x = 1  {comment}\n".encode(), RULES, ACTIVE)
    assert (unused.code, unused.name, unused.severity) == ("AMP004", "unused-suppression", Severity.WARNING)
    assert unused.message.startswith(message)
    assert unused.span.start == Position(1, 8)


@pytest.mark.parametrize(
    ("comment", "active"),
    [
        ("# noqa", ACTIVE),
        ("# noqa: E501, F401", ACTIVE),
        ("# amplint: ignore[AMP201]", ACTIVE - {"AMP201"}),
        ("# amplint: ignore[AMP2]", ACTIVE - {"AMP202"}),
        ("# amplint: ignore", ACTIVE - {"AMP202"}),
        ("# amplint: ignore[AMP901]", ACTIVE),
        ("# amplint: ignore[AMP201, AMP004]", ACTIVE),
        ("# noqa: AMP201", ACTIVE - {"AMP004"}),
    ],
)
def test_not_reported_as_unused(comment: str, active: frozenset[str]) -> None:
    assert suppress([], "a.py", f"x = 1  {comment}\n".encode(), RULES, active) == []


def test_nothing_is_called_unused_where_the_analysis_failed() -> None:
    assert left("x = 1  # noqa: AMP201\n", 1, code="AMP003") == [("AMP003", 1)]


def test_a_file_can_switch_the_report_off() -> None:
    assert left("# amplint: ignore-file[AMP004]\nx = 1  # noqa: AMP201\n") == []


def test_text_that_cannot_be_tokenized_has_none() -> None:
    assert suppressions(b"x = (  # noqa\n") == []
    assert suppressions(b"# coding: nonsense\n# noqa\n") == []
    assert suppressions(b"x = '\xff'  # noqa\n") == []


def test_encodings_and_line_ends() -> None:
    texts = [
        "# coding: latin-1\nx = 'é'  # noqa\n".encode("latin-1"),
        "\ufeff\nx = 'é'  # noqa\n".encode(),
        b"#\r\nx = 1  # noqa\r\n",
        b"#\rx = 1  # noqa\r",
        b"#\nx = 1  # noqa",
    ]
    for raw in texts:
        (comment,) = suppressions(raw)
        assert comment.rows == (2, 2)


@pytest.mark.parametrize("text", ["x = 1  # noqa: AMP201\n", "x  # noqa: AMP201\n,"], ids=["lines", "one statement"])
def test_many_findings_and_many_comments(text: str) -> None:
    """Each is not compared with each: that would be 400 million times."""
    many = 20_000
    started = time.process_time()
    assert left("(\n" * text.endswith(",") + text * many + ")\n" * text.endswith(","), *range(1, many + 1)) == []
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1  # noqa: AMP201\n", "x = 1\n"),
        ("x = 1  # noqa: AMP201  # type: ignore\n", "x = 1  # type: ignore\n"),
        ("x = 1\n# amplint: ignore-file[AMP201]\ny = 2\n", "x = 1\ny = 2\n"),
        ("x = 1\r\n# amplint: ignore\r\ny = 2\r\n", "x = 1\r\ny = 2\r\n"),
        ("x = 1  # amplint: ignore", "x = 1"),
        ("x = 1  # noqa: AMP201 because\n", None),
        ("x = 1  # noqa: AMP201, E501\n", None),
        ("x = 1  # why  # noqa: AMP201\n", None),
        ("x = 1  # amplint: ignore[AMP999]\n", None),
    ],
)
def test_the_fix_removes_the_comment(amplint: Command, project: Path, before: str, after: str | None) -> None:
    file = project / "a.py"
    file.write_bytes(before.encode())
    ran = amplint("--fix", "a.py")
    assert file.read_bytes() == (before if after is None else after).encode()
    assert ran.status == int(after is None)
