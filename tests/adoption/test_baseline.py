"""`--baseline`: what is known stays quiet, what is new does not, and what is gone is told."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import Command

BAD = """import torch


def train(model, optimizer, batches):
    scaler = torch.amp.GradScaler("cuda")
    for batch, target in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(batch), target)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
CLIP = "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
GOOD = BAD.replace(CLIP, f"        scaler.unscale_(optimizer)\n{CLIP}")
OLD_API = "scaler = torch.cuda.amp.GradScaler()\n"


@pytest.fixture
def old(project: Path, amplint: Command) -> Path:
    """A project with two findings in two files, and a baseline that knows them."""
    (project / "models").mkdir()
    (project / "train.py").write_text(BAD, encoding="utf-8")
    (project / "models" / "net.py").write_text(BAD, encoding="utf-8")
    recorded = amplint("--baseline", "known.txt", "--update-baseline")
    assert recorded.status == 0, recorded.err
    assert "2 known findings, 2 new, 0 gone" in recorded.err
    return project


def test_what_is_known_stays_quiet(old: Path, amplint: Command) -> None:
    ran = amplint("--baseline", "known.txt")
    assert (ran.status, ran.out) == (0, "")
    assert "2 findings known by the baseline." in ran.err
    assert "Nothing else found in 2 files." in ran.err


def test_lines_that_move_are_known_and_a_new_mistake_is_not(old: Path, amplint: Command) -> None:
    moved = BAD.replace("import torch\n", "import math\n\nimport torch\n\nSIZE = math.inf\n")
    (old / "train.py").write_text(moved + OLD_API, encoding="utf-8")
    ran = amplint("--baseline", "known.txt", "--output-format", "concise")
    assert ran.status == 1
    assert [line.split()[1] for line in ran.out.splitlines()] == ["AMP701[deprecated-amp-api]"]


def test_a_second_mistake_in_an_equal_line_is_new(old: Path, amplint: Command) -> None:
    (old / "train.py").write_text(BAD.replace(CLIP, CLIP * 2), encoding="utf-8")
    ran = amplint("--baseline", "known.txt", "--output-format", "concise")
    assert (ran.status, len(ran.out.splitlines())) == (1, 1)


def test_what_is_gone_is_told_and_dropped(old: Path, amplint: Command) -> None:
    (old / "train.py").write_text(GOOD + OLD_API, encoding="utf-8")
    before = (old / "known.txt").read_text(encoding="utf-8")
    assert "1 old finding gone; --shrink-baseline" in amplint("--baseline", "known.txt").err
    assert (old / "known.txt").read_text(encoding="utf-8") == before
    shrunk = amplint("--baseline", "known.txt", "--shrink-baseline")
    assert shrunk.status == 1  # the new one is not taken in
    assert "1 old finding gone, and dropped from the baseline." in shrunk.err
    assert len((old / "known.txt").read_text(encoding="utf-8").splitlines()) == 2
    updated = amplint("--baseline", "known.txt", "--update-baseline")
    assert updated.status == 0
    assert "2 known findings, 1 new, 0 gone" in updated.err


def test_a_deleted_file_is_gone_where_its_folder_was_linted(old: Path, amplint: Command) -> None:
    (old / "models" / "net.py").unlink()
    assert "gone" not in amplint("--baseline", "known.txt", "train.py").err
    assert "1 old finding gone" in amplint("--baseline", "known.txt", ".").err


def test_part_of_the_files_and_rules_says_nothing_of_the_others(old: Path, amplint: Command) -> None:
    before = (old / "known.txt").read_bytes()
    for arguments in (["train.py"], ["--select", "AMP701"], ["--min-severity", "error", "models"]):
        ran = amplint("--baseline", "known.txt", "--update-baseline", *arguments)
        assert ran.status == 0
        assert (old / "known.txt").read_bytes() == before


def test_a_syntax_error_does_not_make_the_findings_of_its_file_gone(old: Path, amplint: Command) -> None:
    (old / "train.py").write_text(BAD + "def\n", encoding="utf-8")
    ran = amplint("--baseline", "known.txt")
    assert ran.status == 1
    assert "gone" not in ran.err


def test_paths_count_from_the_folder_of_the_baseline(
    old: Path, amplint: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(old / "models")
    ran = amplint("--baseline", "../known.txt", "net.py")
    assert (ran.status, ran.out) == (0, "")
    monkeypatch.chdir(old)
    (old / "ci").mkdir()
    amplint("--baseline", "ci/known.txt", "--update-baseline")
    assert '["../' not in (old / "ci" / "known.txt").read_text(encoding="utf-8")
    assert amplint("--baseline", "ci/known.txt").status == 0


def test_the_text_is_sorted_and_the_same_each_time(old: Path, amplint: Command) -> None:
    first = (old / "known.txt").read_bytes()
    lines = first.decode("ascii").splitlines()
    assert lines[0].startswith("# ")
    assert lines[1:] == sorted(lines[1:])
    (old / "known.txt").unlink()
    amplint("--baseline", "known.txt", "--update-baseline", "train.py", "models")
    assert (old / "known.txt").read_bytes() == first


def test_standard_input_is_compared(old: Path, amplint: Command) -> None:
    ran = amplint("-", "--stdin-filename", "train.py", "--baseline", "known.txt", stdin=f"# new\n{BAD}".encode())
    assert (ran.status, ran.out) == (0, "")


def test_what_is_told_of_another_file_is_known_by_its_place_there(project: Path, amplint: Command) -> None:
    """A hook may be given the calling file alone, of which the finding is told then."""
    helper = "import torch\n\n\ndef clip(model):\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    (project / "helper.py").write_text(helper, encoding="utf-8")
    call = BAD.replace("torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "clip(model)")
    (project / "train.py").write_text(f"from helper import clip\n{call}", encoding="utf-8")
    assert amplint("train.py").status == 1
    assert amplint("--baseline", "known.txt", "--update-baseline").status == 0
    assert amplint("--baseline", "known.txt", "train.py").status == 0
    assert amplint("--baseline", "known.txt", "helper.py", "train.py").status == 0


def test_a_notebook_is_known_by_its_cells(project: Path, amplint: Command) -> None:
    import nbformat

    cells = [nbformat.v4.new_code_cell("import torch"), nbformat.v4.new_code_cell(OLD_API)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), project / "a.ipynb")
    assert amplint("--baseline", "known.txt", "--update-baseline").status == 0
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1"), *cells]), project / "a.ipynb")
    assert amplint("--baseline", "known.txt").status == 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"<<<<<<< ours\n", "known.txt:1: a merge conflict"),
        (b"# fine\nnonsense\n", "known.txt:2: not a line of a baseline"),
        (b'["a", "b"]\n', "known.txt:1: not a line of a baseline"),
        (b'["a", "b", 3]\n', "known.txt:1: not a line of a baseline"),
        (b'["a\\u0000", "b", "c"]\n', "known.txt:1: not a line of a baseline"),
        (b"[" * 100_000, "known.txt:1: not a line of a baseline"),
        (b"\xff\xfe", "known.txt: cannot be read"),
    ],
)
def test_a_broken_baseline(project: Path, amplint: Command, text: bytes, complaint: str) -> None:
    (project / "known.txt").write_bytes(text)
    for option in ([], ["--update-baseline"], ["--shrink-baseline"]):
        ran = amplint("--baseline", "known.txt", *option)
        assert (ran.status, ran.out) == (2, "")
        assert complaint in ran.err
        assert len(ran.err.splitlines()) == 1
    assert (project / "known.txt").read_bytes() == text


def test_a_hostile_baseline(old: Path, amplint: Command) -> None:
    """Its words are compared and never shown, opened or believed."""
    with (old / "known.txt").open("a", encoding="utf-8") as file:
        file.write('["/etc/passwd", "AMP101", "0"]\n["..", "\\u001b[31m", "::set-output"]\n["\\ud800", "x", "y"]\n')
    ran = amplint("--baseline", "known.txt", "--update-baseline")
    assert ran.status == 0
    assert "\x1b" not in ran.err
    assert "set-output" not in ran.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
def test_a_baseline_that_is_no_file(project: Path, amplint: Command) -> None:
    os.mkfifo(project / "known.txt")
    assert "not a regular file" in amplint("--baseline", "known.txt").err


def test_a_baseline_that_does_not_exist(project: Path, amplint: Command) -> None:
    ran = amplint("--baseline", "known.txt")
    assert ran.status == 2
    assert "record it with --update-baseline" in ran.err
    assert amplint("--baseline", "nowhere/known.txt", "--update-baseline").status == 2


def test_both_sides_of_a_merge_can_be_kept(old: Path, amplint: Command) -> None:
    lines = (old / "known.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    (old / "known.txt").write_text("".join([*lines[::-1], *lines]), encoding="utf-8")
    assert amplint("--baseline", "known.txt").status == 0


def test_files_that_cannot_be_read_are_never_known(old: Path, amplint: Command) -> None:
    (old / "loop.py").symlink_to("loop.py")
    assert amplint("--baseline", "known.txt", "--update-baseline").status == 1
    assert amplint("--baseline", "known.txt").status == 1


@pytest.mark.parametrize(
    "options",
    [
        ["--update-baseline"],
        ["--baseline", "b", "--update-baseline", "--shrink-baseline"],
        ["--baseline", "b", "--update-baseline", "--fix"],
        ["--baseline", "b", "--update-baseline", "-"],
        ["--isolated", "--config", "amplint.toml"],
        ["--show-fixes"],
        ["--diff-base", "HEAD", "--fix"],
        ["--add-ignore", "--diff"],
        ["--watch", "--fix"],
    ],
)
@pytest.mark.usefixtures("project")
def test_options_that_exclude_each_other(amplint: Command, options: list[str]) -> None:
    ran = amplint(*options)
    assert ran.status == 2
    assert ran.err.startswith("Usage: ")


def test_the_project_may_lie_elsewhere(old: Path, amplint: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    other = old.parent / "elsewhere"
    shutil.copytree(old, other)
    monkeypatch.chdir(other)
    assert amplint("--baseline", "known.txt").status == 0
