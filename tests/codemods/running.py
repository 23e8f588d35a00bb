"""Training programs of the tests: each is run, and converted for each wish, once."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import runpy
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import torch

from amplint.codemods import Conversion, Remark, Wish, convert

LOOP = """import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in [torch.ones(2, 4)]:
    optimizer.zero_grad()
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
"""
"""The shortest script that trains, of which tests make others."""
STEPS = 50
RESUME = (("--stop-after", "2"), ("--resume", "checkpoint.pt"))
"""How a program that understands it is run in two parts; others do so by themselves with `--interrupt`."""


def told(conversion: Conversion) -> list[Remark]:
    """The remarks on a conversion, those included that cures of other files leave out."""
    return [*conversion.left, *conversion.cured]


@functools.cache
def losses(text: str, *arguments: str) -> tuple[float, ...]:
    """The losses that a program records when it is run with these `arguments`."""
    return _ran(text, arguments)


def resumed(text: str) -> tuple[float, ...]:
    """The losses of a program that is interrupted, and goes on from a checkpoint."""
    return _ran(text, ("--interrupt",)) if "--interrupt" in text else _ran(text, *RESUME)


def resumes(text: str) -> bool:
    """Whether a program saves what it needs to go on later."""
    return "--interrupt" in text or "--resume" in text


def distance(after: tuple[float, ...], before: tuple[float, ...]) -> float:
    """How far losses are from those of before at most, relative to 1 plus their size."""
    assert len(before) == len(after) == STEPS
    return max(abs(a - b) / (1 + abs(b)) for a, b in zip(after, before, strict=True))


@functools.cache
def conversion(text: str, wish: Wish) -> Conversion:
    """What a codemod makes of a program."""
    return convert(text, wish)


def converted(text: str, wish: Wish) -> str:
    """What becomes of a program, of which nothing may be refused.

    Other files may have to know of logits, regions that were asked to be for CUDA run elsewhere, and penalties of
    gradients are float16.
    """
    found = conversion(text, wish)
    assert found.refused == ()
    expected = [
        "returns logits now",
        "these gradients are float16",
        *(["(AMP106)", "nothing here moves"] if wish.device == "cuda" else []),
    ]
    assert [remark for remark in found.left if not any(words in remark.text for words in expected)] == []
    assert found.text != text
    assert found.done
    return found.text


def _ran(text: str, *runs: tuple[str, ...]) -> tuple[float, ...]:
    """The losses of several runs of one program in a folder of their own."""
    found: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.py")
        path.write_text(text, encoding="utf-8")
        for arguments in runs:
            with _as_script(folder, arguments):
                found += runpy.run_path(str(path), run_name="__main__")["losses"]
    return tuple(found)


@contextlib.contextmanager
def _as_script(folder: str, arguments: tuple[str, ...]) -> Iterator[None]:
    """A fresh process, as far as a program can tell, whose scaler begins at a scale at which no step is skipped."""
    before, threads = Path.cwd(), torch.get_num_threads()
    gentle = functools.partialmethod(torch.amp.GradScaler.__init__, init_scale=256.0)
    os.chdir(folder)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    try:
        with (
            mock.patch.object(sys, "argv", ["program.py", *arguments]),
            mock.patch.object(torch.amp.GradScaler, "__init__", gentle),
            contextlib.redirect_stdout(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("error")
            yield
    finally:
        torch.set_num_threads(threads)
        os.chdir(before)
