"""Fingerprints: the same for what moved, different for what is not the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import amplint
from amplint.engine.fingerprints import fingerprints, from_root
from amplint.reports.context import Sources

LINES = ["import torch", "", "region = torch.cuda.amp.autocast()", "other = torch.cuda.amp.autocast()"]


def marks(lines: list[str], filename: str = "train.py", root: str | None = None) -> dict[str, int]:
    """Fingerprint -> row, of what is found in a file with these lines."""
    text = "\n".join(lines) + "\n"
    findings = amplint.check(text, filename=filename)
    found = fingerprints(findings, Sources({filename: text.encode()}).line, root)
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in found)
    return {each: finding.span.start.row for each, finding in zip(found, findings, strict=True)}


def test_lines_move(project: Path) -> None:
    before = marks(LINES)
    assert [*before.values()] == [3, 4]
    moved = marks([LINES[0], "x = 1", "", "y = 2", *LINES[2:]])
    assert [*moved] == [*before]
    indented = marks([LINES[0], "if True:", f"    {LINES[2]}", f"\t{LINES[3]}".replace("\t", "    ")])
    assert [*indented] == [*before]
    swapped = marks([*LINES[:2], LINES[3], LINES[2]])
    assert [*swapped] == [*before][::-1]


def test_what_differs(project: Path) -> None:
    before = set(marks(LINES))
    assert not before & set(marks(LINES, filename="other.py"))
    assert not before & set(marks([*LINES[:2], "region = torch.cuda.amp.autocast(True)"]))


def test_equal_findings_are_counted(project: Path) -> None:
    one, two, three = (marks([LINES[0], *[LINES[2]] * count]) for count in (1, 2, 3))
    assert [len(each) for each in (one, two, three)] == [1, 2, 3]
    assert [*three][:2] == [*two]
    assert [*two][:1] == [*one]


def test_the_same_file_by_another_name(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = marks(LINES, filename="a/train.py")
    assert marks(LINES, filename=str(project / "a" / "train.py")) == before
    monkeypatch.chdir(project.parent)
    assert marks(LINES, filename="project/a/train.py", root="project") == before
    assert marks(LINES, filename="project/a/train.py") != before


def test_paths(project: Path) -> None:
    assert from_root("a/../b.py") == "b.py"
    assert from_root("..b.py") == "..b.py"
    assert from_root(str(project.parent / "x.py")) == (project.parent / "x.py").as_posix()
    assert from_root("a/b.py", "a") == "b.py"


def test_lines_that_cannot_be_read(project: Path) -> None:
    findings = amplint.check("\ud800", filename="evil\ud800.py") * 2
    assert len(set(fingerprints(findings, Sources().line))) == 2
