"""A record shows itself, in a text, a page and a notebook, and a watched block can believe in a GPU."""

from __future__ import annotations

import importlib.abc
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import amplint.trace
from amplint.reports.text import columns
from amplint.trace.dry import CannotFollow
from amplint.trace.record import Record
from tests.trace import records


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return records.record(tmp_path)


def test_the_summary_has_lines_and_findings(record: Record) -> None:
    text = record.summary(100)
    assert "line by line, worst first:" in text
    assert "AMP801 mm ran in float32" in " ".join(text.split())  # the path's length decides where lines break
    assert max(map(columns, text.splitlines())) <= 200


def test_the_page_is_that_of_the_command(record: Record, tmp_path: Path) -> None:
    record.to_html(tmp_path / "run.html")
    assert "<h1>train." in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_what_the_page_needs_is_named(record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, *_: object) -> None:
            if name == "jinja2":
                raise ImportError(name)

    for name in [one for one in sys.modules if one.startswith(("jinja2", "amplint.reports.page"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    with pytest.raises(ImportError, match=r"pip install .amplint\[report\]"):
        record.to_html(tmp_path / "run.html")


def test_a_notebook_shows_text_that_is_no_markup(record: Record) -> None:
    shown = record._repr_html_()
    assert shown.startswith("<pre>")
    assert "<script" not in shown
    assert "<img" not in shown
    assert len(repr(record)) < 80


def test_a_block_that_believes_in_a_gpu() -> None:
    with amplint.trace.watch(dry_run=True, gpu="t4") as record:
        model = nn.Linear(4, 4).cuda()
        with torch.autocast("cuda", dtype=torch.float16):
            model(torch.ones(2, 4, device="cuda")).exp()
    record.assert_dtype("model", torch.float16)
    assert (record.device, record.gpu) == ("cuda", "Tesla T4")
    assert {one.outputs for one in record.operations if one.op == "exp"} == {("float32",)}
    assert not torch.cuda.is_available() or torch.version.cuda


def test_a_block_that_needs_a_real_gpu_says_so() -> None:
    with pytest.raises(CannotFollow, match="CUDA graphs"), amplint.trace.watch(dry_run=True):
        torch.cuda.CUDAGraph()
    assert not torch.cuda.is_available() or torch.version.cuda


def test_gpus_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"gpu is one of p100, v100"):
        amplint.trace.watch(dry_run=True, gpu="zx81")
