"""`amplint convert`: what is shown, written and refused, and with which exit status."""

from __future__ import annotations

import ast
import codecs
from pathlib import Path

import pytest

from amplint.codemods import Remark, Wish, convert
from tests.conftest import Command

OLD = """import torch
from torch.cuda.amp import GradScaler, autocast


def train(model, optimizer, batches, use_amp):
    scaler = GradScaler(enabled=use_amp)  # é
    for batch in batches:
        with autocast(use_amp):
            loss = model(batch).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
NEW = (
    OLD.replace("torch.cuda.amp", "torch.amp")
    .replace("(enabled=use_amp)", '("cuda", enabled=use_amp)')
    .replace("(use_amp)", '("cuda", enabled=use_amp)')
)
REFUSED = """import torch

SCALERS = {"cuda": torch.cuda.amp.GradScaler}
"""
FROM = ("--from", "cuda-amp")
WHY = "torch.cuda.amp.GradScaler is deprecated, and nothing certain can take its place here"
DONE = "train.py: Use torch.amp.GradScaler, Use torch.amp.autocast\n"


@pytest.fixture
def script(project: Path) -> Path:
    """A script that can be converted."""
    path = project / "train.py"
    path.write_text(OLD, encoding="utf-8")
    return path


def test_the_changes_are_shown_and_not_written(amplint: Command, script: Path) -> None:
    ran = amplint("convert", *FROM, "train.py")
    assert ran.status == 1
    assert ran.out.startswith("--- train.py\n+++ train.py\n")
    assert "-    scaler = GradScaler(enabled=use_amp)  # é\n" in ran.out
    assert '+    scaler = GradScaler("cuda", enabled=use_amp)  # é\n' in ran.out
    assert ran.err == f"{DONE}1 file would be converted.\n"
    assert script.read_text(encoding="utf-8") == OLD


def test_the_file_is_replaced(amplint: Command, script: Path) -> None:
    script.chmod(0o750)
    ran = amplint("convert", *FROM, "--write", ".")
    assert (ran.status, ran.out, ran.err) == (0, "", f"{DONE}1 file converted.\n")
    assert script.read_text(encoding="utf-8") == NEW
    assert script.stat().st_mode & 0o777 == 0o750
    again = amplint("convert", *FROM, "--write", ".")
    assert (again.status, again.out, again.err) == (0, "", "Nothing to convert.\n")


def test_what_is_written_can_be_shown(amplint: Command, script: Path) -> None:
    ran = amplint("convert", *FROM, "--write", "--diff", "train.py")
    assert ran.status == 0
    assert ran.out.startswith("--- train.py\n+++ train.py\n")
    assert script.read_text(encoding="utf-8") == NEW


def test_a_refused_file_stays_and_the_others_are_converted(amplint: Command, script: Path) -> None:
    other = script.with_name("other.py")
    other.write_text(REFUSED, encoding="utf-8")
    ran = amplint("convert", *FROM, "--write", ".")
    assert ran.status == 1
    assert ran.err == f"{DONE}other.py:3: refused: {WHY}\n1 file converted, 1 file refused.\n"
    quiet = amplint("convert", *FROM, "-q", ".")
    assert quiet.err.splitlines()[0].startswith("other.py:3: refused: ")
    assert other.read_text(encoding="utf-8") == REFUSED
    assert script.read_text(encoding="utf-8") == NEW


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_encoding_and_line_ends_are_kept(amplint: Command, script: Path, encoding: str, newline: str) -> None:
    cookie = "" if encoding.startswith("utf-8") else f"# coding: {encoding}\n"
    script.write_bytes((cookie + OLD).replace("\n", newline).encode(encoding))
    assert amplint("convert", *FROM, "--write", "train.py").status == 0
    assert script.read_bytes() == (cookie + NEW).replace("\n", newline).encode(encoding)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"def broken(:\n    torch.cuda.amp.autocast\n", "train.py:1: refused: syntax error"),
        (b"\0torch.cuda.amp.autocast", "train.py:1: refused: the file contains NUL bytes"),
        (b"torch.cuda.amp.autocast # \xff", "train.py:1: refused: the text cannot be decoded"),
        (b"# coding: nonsense\ntorch.cuda.amp.autocast", "train.py:1: refused: the text cannot be decoded"),
        (b"torch.cuda.amp.autocast" + b"(" * 3000 + b")" * 3000, "train.py:"),
        (
            codecs.BOM_UTF16_LE + "torch.cuda.amp".encode("utf-16-le"),
            "train.py:1: refused: the file contains NUL bytes",
        ),
    ],
)
def test_any_bytes_are_taken(amplint: Command, script: Path, raw: bytes, why: str) -> None:
    script.write_bytes(raw)
    ran = amplint("convert", *FROM, "--write", "train.py")
    assert ran.status == 1
    assert ran.err.startswith(why)
    assert script.read_bytes() == raw


@pytest.mark.parametrize(
    "arguments", [[], [*FROM], ["train.py"], ["--from", "elsewhere", "train.py"], ["--to", "moon", "train.py"]]
)
def test_wrong_usage(amplint: Command, script: Path, arguments: list[str]) -> None:
    ran = amplint("convert", *arguments)
    assert (ran.status, ran.out) == (2, "")
    assert "Error: " in ran.err


def test_a_missing_path_does_not_stop_the_others(amplint: Command, script: Path) -> None:
    ran = amplint("convert", *FROM, "--write", "gone.py", "train.py")
    assert ran.status == 2
    assert "Error: gone.py: no such file or folder\n" in ran.err
    assert script.read_text(encoding="utf-8") == NEW


def test_from_text_to_text() -> None:
    done = convert(OLD, Wish(source="cuda-amp"))
    assert done.text == NEW
    assert not done.refused
    assert {remark.row for remark in done.done} == {2}
    assert convert(NEW, Wish(source="cuda-amp")).done == ()
    ast.parse(done.text)
    refused = convert(REFUSED, Wish(source="cuda-amp"))
    assert (refused.text, refused.done) == (REFUSED, ())
    assert refused.refused == (Remark(3, WHY),)


def test_a_wish_nobody_fulfils() -> None:
    with pytest.raises(ValueError, match="no codemod"):
        convert(OLD, Wish(source="elsewhere"))


FLOAT32 = """import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
args = parser.parse_args()
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in [torch.ones(2, 4)]:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""


def test_the_options_of_mixed_precision(amplint: Command, script: Path) -> None:
    script.write_text(FLOAT32, encoding="utf-8")
    ran = amplint("convert", "--to", "amp", "--dtype", "bfloat16", "--device", "cpu", "--add-flag", "--write", ".")
    assert (ran.status, ran.out) == (0, "")
    assert ran.err == (
        "train.py: give the loss a variable, add the option --amp/--no-amp, "
        "run the forward pass in an autocast region\n"
        "1 file converted.\n"
    )
    text = script.read_text(encoding="utf-8")
    assert 'with torch.autocast(device_type="cpu", dtype=torch.bfloat16, enabled=args.amp):' in text
    assert 'parser.add_argument("--amp", action=argparse.BooleanOptionalAction' in text
    assert "GradScaler" not in text
    again = amplint("convert", "--to", "amp", "--dtype", "bfloat16", "--write", ".")
    assert (again.status, again.err) == (0, "Nothing to convert.\n")


def test_what_a_person_has_to_look_at_comes_last(amplint: Command, script: Path) -> None:
    text = FLOAT32.replace("model = ", "torch.autograd.set_detect_anomaly(True)\nmodel = ", 1)
    script.write_text(text, encoding="utf-8")
    other = FLOAT32.replace("optimizer.step()", "optimizer.step(lambda: 0)")
    script.with_name("other.py").write_text(other, encoding="utf-8")
    ran = amplint("convert", "--to", "amp", ".")
    done, check, nowhere, refused, summary = ran.err.splitlines()
    assert "check: nothing here moves to CUDA" in nowhere
    assert done.startswith("train.py: give the loss a variable, make or hand on the scaler, run the forward pass")
    assert check.startswith("train.py:")
    assert ": check: anomaly mode raises for the infinite gradients of an overflow" in check
    assert refused.startswith("other.py:13: refused: the optimizer runs a closure")
    assert summary == "1 file would be converted, 1 file refused, 2 places to check."
