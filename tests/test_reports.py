"""What findings look like in each format."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from amplint.engine.records import from_record, to_record
from amplint.findings import Applicability, Edit, Finding, Fix, Guessed, Note, Position, Severity, Span
from amplint.reports.context import Context, Sources
from amplint.reports.diff import unified
from amplint.reports.excerpt import excerpt
from amplint.reports.formats import FORMATS
from amplint.reports.text import columns, visible, wrap
from tests.test_config import RULES


def span(row: int, column: int, end_row: int, end_column: int) -> Span:
    """A span by its four numbers."""
    return Span(Position(row, column), Position(end_row, end_column))


SOURCE = """import torch

scaler.unscale_(optimizer)
clip_grad_norm_(model.parameters(), 1.0)
scaler.unscale_(optimizer)
scaler.step(optimizer)
"""
FINDING = Finding(
    code="AMP201",
    name="first-rule",
    severity=Severity.ERROR,
    message="unscale_() runs a second time for optimizer before update()",
    filename="train.py",
    span=span(5, 1, 5, 27),
    reason="PyTorch raises RuntimeError here: unscale_() has already been called on this optimizer since update().",
    advice="Leave out the second call:\n    scaler.step(optimizer)",
    notes=(Note("the gradients are unscaled here", span(3, 1, 3, 27)),),
    guesses=(Guessed("optim", "an optimizer"),),
    fix=Fix("Remove the second call.", (Edit(span(5, 1, 6, 1), ""),), imports=("import torch",)),
)
PLAIN = Finding("AMP202", "second-rule", Severity.INFO, "short", "train.py", span(1, 1, 1, 7))
CONTEXT = Context(RULES, Sources({"train.py": SOURCE.encode()}))


def report(name: str, *findings: Finding, source: str = SOURCE, width: int = 80, colour: bool = False) -> str:
    """The findings, all of them in train.py, in the format `name`."""
    return FORMATS[name](findings, Context(RULES, Sources({"train.py": source.encode()}), width, colour))


def test_full() -> None:
    assert report("full", FINDING) == (
        """\
train.py:5:1: AMP201 first-rule [error]
  unscale_() runs a second time for optimizer before update()

      4 | clip_grad_norm_(model.parameters(), 1.0)
    > 5 | scaler.unscale_(optimizer)
        | ^^^^^^^^^^^^^^^^^^^^^^^^^^
      6 | scaler.step(optimizer)

  How it comes about:
    1. line 3: the gradients are unscaled here
      3 | scaler.unscale_(optimizer)

  Guess: `optim` is taken for an optimizer by its name. See
    https://amplint.github.io/guesses#an-optimizer
  Why: PyTorch raises RuntimeError here: unscale_() has already been called on
    this optimizer since update().
  Instead: Leave out the second call:
        scaler.step(optimizer)
  Fix: Remove the second call (amplint --fix does this).

"""
    )


def test_full_without_extras_and_without_source() -> None:
    assert FORMATS["full"]([PLAIN], Context({})) == "train.py:1:1: AMP202 second-rule [info]\n  short\n\n"
    assert report("full", PLAIN).endswith("    > 1 | import torch\n        | ^^^^^^\n\n")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_full_keeps_to_the_width(width: int) -> None:
    long = "very_long_name, " * 30
    source = f"{long}\n" * 6
    finding = Finding(
        *("AMP201", "first-rule", Severity.ERROR, "word " * 40, "train.py", span(3, 300, 3, 310)),
        reason="reason " * 40,
        notes=(Note("note " * 40, span(1, 1, 1, 5)),),
    )
    lines = report("full", finding, source=source, width=width).splitlines()
    assert max(map(len, lines)) <= width
    (marks,) = (line for line in lines if "^" in line)
    marked = lines[lines.index(marks) - 1]
    assert marked[marks.index("^") : marks.rindex("^") + 1] == (long + "\n")[299:309].rstrip()


def test_full_shows_many_rows_in_part() -> None:
    source = "".join(f"row{number}\n" for number in range(1, 31))
    text = report("full", Finding(*("AMP201", "n", Severity.ERROR, "m", "train.py", span(5, 2, 25, 3))), source=source)
    shown = [int(number) for number in re.findall(r"> +(\d+) \|", text)]
    assert shown == [5, 6, 7, 23, 24, 25]
    assert "..." in text
    assert ">  5 | row5\n         |  ^^^\n" in text
    assert "> 25 | row25\n         | ^^\n" in text


def test_colour_is_only_added() -> None:
    plain = report("full", FINDING, PLAIN)
    coloured = report("full", FINDING, PLAIN, colour=True)
    assert coloured != plain
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain


def test_excerpt_marks_what_it_shows() -> None:
    assert excerpt("\tx = é + 1", 1, span(1, 6, 1, 7), 80) == ("    x = é + 1", " " * 8 + "^")
    assert excerpt("中文 = 1", 1, span(1, 4, 1, 5), 80) == ("中文 = 1", "     ^")
    assert excerpt("x", 1, span(1, 2, 1, 2), 80) == ("x", " ^")
    assert excerpt("", 1, span(1, 1, 1, 1), 80) == ("", "^")
    shown, marks = excerpt("a" * 500 + "BCD" + "e" * 500, 1, span(1, 501, 1, 504), 40)
    assert len(shown) <= 40
    assert shown[:3] == shown[-3:] == "..."
    assert shown[marks.index("^") : marks.rindex("^") + 1] == "BCD"
    shown, marks = excerpt("b" * 1000, 1, span(1, 1, 1, 1001), 40)
    assert (shown, marks) == ("b" * 37 + "...", "^" * 37)


def test_visible() -> None:
    assert visible("a\x1b[31m\tb\x9b\u202e\u200b\ud800é") == "a\\x1b[31m\\tb\\x9b\\u202e\\u200b\\ud800é"
    assert columns("é中e\u0301") == 4
    assert wrap("a b\x07\n  code\tc\n\nd", 20, "  ", "x ") == ["x a b\\x07", "    code  c", "", "  d"]


@pytest.mark.parametrize("name", ["full", "concise", "github"])
def test_control_characters_do_not_reach_the_terminal(name: str) -> None:
    evil = "\x1b]0;title\x07\r\u202e"
    finding = Finding(
        *("AMP201", "n", Severity.ERROR, f"m{evil}", f"train{evil}.py", span(1, 1, 1, 3)),
        reason=f"r{evil}",
        advice=f"  a{evil}",
        notes=(Note(f"n{evil}", span(1, 1, 1, 2)),),
        fix=Fix(f"f{evil}", ()),
    )
    sources = Sources({finding.filename: f"x = '{evil}'\n".encode()})
    text = FORMATS[name]([finding], Context(RULES, sources))
    assert not set(text).intersection("\x1b\x07\r\u202e")
    assert "\\x1b" in text


def test_concise() -> None:
    assert report("concise", FINDING, PLAIN) == (
        "train.py:5:1: AMP201[first-rule] error: unscale_() runs a second time for optimizer before update()\n"
        "train.py:1:1: AMP202[second-rule] info: short\n"
    )
    assert report("concise") == ""


def test_json() -> None:
    first, second = json.loads(report("json", FINDING, PLAIN))
    assert first == {
        "code": "AMP201",
        "name": "first-rule",
        "severity": "error",
        "message": FINDING.message,
        "filename": "train.py",
        "cell": None,
        "location": {"row": 5, "column": 1},
        "end_location": {"row": 5, "column": 27},
        "reason": FINDING.reason,
        "advice": FINDING.advice,
        "notes": [
            {
                "message": "the gradients are unscaled here",
                "filename": None,
                "cell": None,
                "location": {"row": 3, "column": 1},
                "end_location": {"row": 3, "column": 27},
            }
        ],
        "elsewhere": None,
        "fix": {
            "applicability": "safe",
            "message": "Remove the second call.",
            "imports": ["import torch"],
            "edits": [
                {
                    "content": "",
                    "cell": None,
                    "location": {"row": 5, "column": 1},
                    "end_location": {"row": 6, "column": 1},
                }
            ],
        },
        "guesses": [
            {
                "name": "optim",
                "meaning": "an optimizer",
                "message": "`optim` is taken for an optimizer by its name.",
                "url": "https://amplint.github.io/guesses#an-optimizer",
            }
        ],
        "url": "https://amplint.github.io/rules/AMP201",
        "fingerprint": first["fingerprint"],
        "trace": None,
    }
    assert second["fix"] is None
    assert second["guesses"] == []
    assert report("json") == "[]\n"


def test_records_come_back_as_they_were() -> None:
    unsafe = Finding(
        *("X1", "x", Severity.WARNING, "é\ud800", "a", span(1, 1, 1, 1)), fix=Fix("f", (), Applicability.UNSAFE)
    )
    for finding in (FINDING, PLAIN, unsafe):
        record = json.loads(json.dumps(to_record(finding)))
        assert from_record(record, finding.filename) == finding


def test_github() -> None:
    odd = Finding("AMP202", "n", Severity.INFO, "100% of\nit: a, b", "a,b:c%.py", span(1, 2, 3, 4))
    assert report("github", FINDING, odd).splitlines() == [
        "::error title=AMP201 first-rule,file=train.py,line=5,col=1,endLine=5,endColumn=27::"
        f"{FINDING.message}%0A`optim` is taken for an optimizer by its name. "
        f"See https://amplint.github.io/guesses#an-optimizer%0A{FINDING.reason}"
        "%0ALeave out the second call:%0A    scaler.step(optimizer)",
        "::notice title=AMP202 n,file=a%2Cb%3Ac%25.py,line=1,col=2,endLine=3,endColumn=4::100%25 of%0Ait: a, b",
    ]


def test_lines_of_files(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"# coding: latin-1\r\nx = '\xe9'\ry\x0c\n")
    sources = Sources()
    assert [sources.line(str(path), row) for row in range(6)] == [
        None,
        "# coding: latin-1",
        "x = 'é'",
        "y\x0c",
        "",
        None,
    ]
    path.write_bytes(b"\xffab\n")
    assert Sources().line(str(path), 1) == "\ufffdab"
    assert Sources().line(os.fspath(tmp_path / "gone.py"), 1) is None
    assert Sources().line("\0", 1) is None


def test_diff() -> None:
    text = unified("a.py", b"x = 1\r\ny\t= 2", b"x = 1\r\ny = '\x1b'", escape=False)
    assert text == (
        "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n x = 1\r\n"
        "-y\t= 2\n\\ No newline at end of file\n+y = '\x1b'\n\\ No newline at end of file\n"
    )
    shown = unified("a.py", b"x = 1\r\ny\t= 2", b"x = 1\r\ny = '\x1b'", escape=True)
    assert "\r" not in shown
    assert "+y = '\\x1b'\n" in shown
