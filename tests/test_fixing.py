"""`--fix` as a whole: rounds, refusals, and everything about a file that must not change."""

from __future__ import annotations

import os
import stat
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.engine.config import Settings
from amplint.engine.diagnostics import SyntaxErrorFound, diagnostic
from amplint.engine.discover import Target
from amplint.engine.fixing import ROUNDS, Repaired, repair, repair_file
from amplint.findings import Applicability, Edit, Finding, Fix, Position, Severity, Span
from amplint.notebooks.page import Page
from tests.conftest import Command
from tests.test_cli import BAD, GOOD


def replacing(
    old: str, new: str, *, unsafe: bool = False, imports: tuple[str, ...] = ()
) -> Callable[[str], list[Finding]]:
    """A check that finds `old` at the start of lines and repairs it to `new`."""

    def check(text: str) -> list[Finding]:
        found = []
        for row, line in enumerate(text.splitlines(), 1):
            if line.startswith(old):
                span = Span(Position(row, 1), Position(row, 1 + len(old)))
                kind = Applicability.UNSAFE if unsafe else Applicability.SAFE
                fix = Fix(f"{old} to {new}", (Edit(span, new),), kind, imports)
                found.append(Finding("TST001", "t", Severity.ERROR, old, "a.py", span, fix=fix))
        return found

    return check


class FakeLinter:
    """Finds what the `checks` find, and syntax errors."""

    def __init__(self, *checks: Callable[[str], list[Finding]]) -> None:
        self.checks = checks

    def check(self, target: Target, raw: bytes) -> list[Finding]:
        """What is found in `raw`."""
        text = raw.decode("latin-1" if b"latin-1" in raw else "utf-8")
        try:
            compile(raw, "a.py", "exec")
        except SyntaxError:
            return [diagnostic(SyntaxErrorFound, "a.py", "bad")]
        return [finding for check in self.checks for finding in check(text)]

    def check_page(self, target: Target, page: Page) -> list[Finding]:
        """What is found in the text of `page`."""
        return self.check(target, page.raw)


def repaired(text: str, *checks: Callable[[str], list[Finding]], unsafe: bool = False) -> Repaired:
    """The outcome of repairing `text`."""
    target = Target("a.py", os.path.abspath("a.py"), Settings(unsafe_fixes=unsafe))
    return repair(text.encode("latin-1" if "latin-1" in text else "utf-8"), target, FakeLinter(*checks))  # type: ignore[arg-type]


def test_rounds_until_nothing_is_left() -> None:
    outcome = repaired("a1\na1\n", replacing("a1", "b22"), replacing("b22", "c"))
    assert outcome.after == b"c\nc\n"
    assert outcome.before == b"a1\na1\n"
    assert (outcome.findings, outcome.fixed) == ([], 4)


def test_an_endless_repair_ends() -> None:
    outcome = repaired("a\n", replacing("a", "b"), replacing("b", "a"))
    assert outcome.fixed == ROUNDS


def test_a_fix_that_would_be_repeated_is_left_out() -> None:
    outcome = repaired("a1\nb1\n", replacing("a", "a(a)"), replacing("b", "c"))
    assert outcome.after == b"a1\nc1\n"
    assert [finding.message for finding in outcome.findings] == ["a"]


def test_unsafe_fixes_are_used_when_allowed() -> None:
    check = replacing("a", "b", unsafe=True)
    assert repaired("a\n", check).after == b"a\n"
    assert len(repaired("a\n", check).findings) == 1
    assert repaired("a\n", check, unsafe=True).after == b"b\n"


def test_a_fix_that_breaks_the_file_is_left_out() -> None:
    outcome = repaired("a\nx\na\n", replacing("a", "("), replacing("x", "y"))
    assert outcome.after == b"a\ny\na\n"
    assert outcome.fixed == 1
    assert len(outcome.findings) == 2


def test_fixes_that_break_only_each_other() -> None:
    def both(text: str) -> list[Finding]:
        if text != "x  = 1\n":
            return []
        edits = [
            Edit(Span(Position(1, 2), Position(1, 2)), ": int"),
            Edit(Span(Position(1, 4), Position(1, 4)), ", y "),
        ]
        return [
            Finding("TST001", "t", Severity.ERROR, "m", "a.py", edit.span, fix=Fix(edit.content, (edit,)))
            for edit in edits
        ]

    outcome = repaired("x  = 1\n", both)
    assert outcome.after == b"x: int  = 1\n"
    assert outcome.fixed == 1


NEW_REGION = """
import torch
from torch import nn
from torch.cuda.amp import autocast, GradScaler


class Trainer:
    def __init__(self, model, amp):
        self.model = model.cuda()
        self.amp = amp
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.scaler = GradScaler(enabled=amp)

    def train(self, loader):
        for inputs, targets in loader:
            self.optimizer.zero_grad()
            with autocast(enabled=self.amp):
                loss = nn.functional.mse_loss(self.model(inputs), targets)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def validate(self, loader):
        self.model.eval()
        with torch.no_grad():
            for inputs, targets in loader:
                outputs = self.model(inputs)
                print(nn.functional.mse_loss(outputs, targets))
"""


def test_a_region_that_is_copied_while_its_import_is_replaced(amplint: Command, project: Path) -> None:
    """AMP701 replaces the import, with another argument order; AMP111 writes the region once more."""
    file = project / "train.py"
    file.write_text(NEW_REGION)
    amplint("--fix", "--unsafe-fixes", "train.py")
    assert file.read_text().count('with autocast("cuda", enabled=self.amp):') == 2


def test_no_region_is_copied_that_a_condition_enters(amplint: Command, project: Path) -> None:
    file = project / "train.py"
    region = """            with autocast(enabled=self.amp):
                loss = nn.functional.mse_loss(self.model(inputs), targets)
"""
    chosen = """            if self.amp:
                with autocast():
                    loss = nn.functional.mse_loss(self.model(inputs), targets)
            else:
                loss = nn.functional.mse_loss(self.model(inputs), targets)
"""
    file.write_text(NEW_REGION.replace(region, chosen))
    amplint("--fix", "--unsafe-fixes", "train.py")
    assert file.read_text().count("autocast(") == 1


def test_a_name_that_is_only_looked_up_is_left(amplint: Command, project: Path) -> None:
    text = "import torch\n\ntry:\n    _ = torch.cpu.amp.autocast\nexcept AttributeError:\n    print('too old')\n"
    (project / "train.py").write_text(text)
    amplint("--fix", "train.py")
    assert (project / "train.py").read_text() == text


def test_a_conversion_is_removed_with_its_assignment(amplint: Command, project: Path) -> None:
    file = project / "train.py"
    head = "import torch\n\nmodel = torch.nn.Linear(4, 4)\n"
    tail = """optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for inputs in loader:
    optimizer.zero_grad()
    model(inputs.half()).float().mean().backward()
    optimizer.step()
"""
    file.write_text(head + "model = model.half()\n" + tail)
    amplint("--fix", "--unsafe-fixes", "train.py")
    assert file.read_text().startswith(head + tail.splitlines()[0])


def test_a_fix_that_cannot_be_encoded_is_left_out() -> None:
    text = "# coding: latin-1\na = '\xe9'\n"
    assert repaired(text, replacing("a", "\u4e2d")).after == text.encode("latin-1")
    assert repaired(text, replacing("a", "b")).after == text.replace("a = ", "b = ").encode("latin-1")


def test_a_fix_that_breaks_the_analysis_is_left_out() -> None:
    def fragile(text: str) -> list[Finding]:
        return [diagnostic(SyntaxErrorFound, "a.py", "bad")] if text.startswith("b") else []

    assert repaired("a\n", replacing("a", "b"), fragile).after == b"a\n"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: f"# -*- coding: latin-1 -*-\n# \xe9\n{text}".encode("latin-1"),
        lambda text: f"# caf\xe9 \u4e2d\n{text}    # the end".encode(),
    ],
    ids=["plain", "CRLF", "byte order mark", "cookie", "no end of line"],
)
def test_bytes_around_the_fix_are_kept(amplint: Command, project: Path, change: Callable[[str], bytes]) -> None:
    path = project / "train.py"
    path.write_bytes(change(BAD))
    os.chmod(path, 0o751)
    os.symlink("train.py", project / "link")
    assert amplint("--fix", "link").status == 0
    assert path.read_bytes() == change(GOOD)
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert (project / "link").is_symlink()
    assert amplint("--fix", "link").err == "Nothing found in 1 file.\n"


def test_suppressed_findings_are_not_fixed(amplint: Command, project: Path) -> None:
    text = BAD.replace("1.0)", "1.0)  # noqa: AMP205")
    (project / "train.py").write_text(text, encoding="utf-8")
    assert amplint("--fix").status == 0
    assert (project / "train.py").read_text(encoding="utf-8") == text


def test_a_file_that_cannot_be_written(amplint: Command, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    (project / "train.py").write_text(BAD, encoding="utf-8")
    monkeypatch.setattr("amplint.engine.fixing.replace_file", refuse)
    ran = amplint("--fix", "--output-format", "concise")
    assert ran.status == 1
    assert [line.split(": ")[:2] for line in ran.out.splitlines()] == [
        ["train.py:1:1", "AMP002[unreadable-file] error"],
        ["train.py:11:9", "AMP205[clip-without-unscale] error"],
    ]
    assert "cannot be written: Permission denied" in ran.out


def test_a_file_that_is_gone() -> None:
    target = Target("gone.py", os.path.abspath("gone.py"), Settings())
    (finding,) = repair_file(target, FakeLinter(), write=True).findings  # type: ignore[arg-type]
    assert finding.message == "cannot be read: No such file or directory"


def test_the_example_is_repaired_altogether(amplint: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU nothing of it is in half, so that it trains as before."""
    script = tmp_path / "train.py"
    before = (Path(__file__).parents[1] / "examples" / "train.py").read_text(encoding="utf-8")
    script.write_text(before, encoding="utf-8")
    assert amplint("--fix", str(script)).status == 0
    assert amplint(str(script)).status == 0
    assert _losses(before, monkeypatch) == pytest.approx(_losses(script.read_text(encoding="utf-8"), monkeypatch))


def _losses(text: str, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The losses that the example prints."""
    printed = list[str]()
    monkeypatch.setattr(sys, "argv", ["train.py"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(text, {"__name__": "__main__", "print": printed.append})
    return [float(line.rpartition(" ")[2]) for line in printed]


def test_a_repair_across_blocks_is_none(amplint: Command, project: Path) -> None:
    lines = (
        "import torch",
        "from torch.distributed.fsdp import FullyShardedDataParallel",
        "def work():",
        "    optimizer = torch.optim.AdamW(model.parameters())",
        "    try:",
        "        pass",
        "    finally:",
        "        model = FullyShardedDataParallel(model, device_id())",
        "        for _ in ():",
        "            optimizer.step()",
    )
    (project / "train.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    ran = amplint("check", "--select", "ALL", "--unsafe-fixes", "--output-format", "concise", "train.py")
    assert "AMP003" not in ran.out
