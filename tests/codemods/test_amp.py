"""`--to amp`: every program is converted, lints clean, is a fixed point, and trains as it did."""

from __future__ import annotations

import contextlib
import functools
import io
import math
import runpy
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from amplint.codemods import Wish, convert
from tests.conftest import Command

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
STEPS = 50
FLOAT16_TOLERANCE, BFLOAT16_TOLERANCE = 0.003, 0.02
"""How far a loss may be from the one of the original, relative to 1 plus its size, on each of the 50 steps."""


@contextlib.contextmanager
def _alone(arguments: tuple[str, ...]) -> Iterator[None]:
    """Run a program as a script of its own, with these `arguments`."""
    before = sys.argv
    sys.argv = ["program.py", *arguments]
    torch.manual_seed(0)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    finally:
        sys.argv = before


@pytest.fixture(autouse=True)
def gentle_scaler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scaler that begins at a scale at which these programs skip no steps, as it would after a few of them."""
    made = torch.amp.GradScaler.__init__
    monkeypatch.setattr(torch.amp.GradScaler, "__init__", functools.partialmethod(made, init_scale=256.0))
    torch.set_num_threads(1)


def losses(path: Path, *arguments: str) -> list[float]:
    """The losses that a program records when it is run."""
    with _alone(arguments):
        return list(runpy.run_path(str(path), run_name="__main__")["losses"])


def converted(program: Path, folder: Path, wish: Wish) -> Path:
    """`program`, converted, in a file in `folder`."""
    text = program.read_text(encoding="utf-8")
    conversion = convert(text, wish)
    assert (conversion.refused, conversion.left) == ((), ())
    assert conversion.text != text
    assert conversion.done
    path = folder / program.name
    path.write_text(conversion.text, encoding="utf-8")
    return path


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_result_lints_clean_and_stays(
    amplint: Command, project: Path, program: Path, device: str, dtype: str
) -> None:
    wish = Wish(to="amp", device=device, dtype=dtype)
    path = converted(program, project, wish)
    ran = amplint("check", "--select", "ALL", "--ignore", "AMP9", "--output-format", "concise", path.name)
    assert (ran.status, ran.out) == (0, "")
    again = convert(path.read_text(encoding="utf-8"), wish)
    assert (again.text, again.done, again.refused) == (path.read_text(encoding="utf-8"), (), ())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [("float16", FLOAT16_TOLERANCE), ("bfloat16", BFLOAT16_TOLERANCE)],
    ids=["float16", "bfloat16"],
)
def test_the_result_trains_to_the_same_losses(tmp_path: Path, program: Path, dtype: str, tolerance: float) -> None:
    before = losses(program)
    after = losses(converted(program, tmp_path, Wish(to="amp", device="cpu", dtype=dtype)))
    assert len(before) == len(after) == STEPS
    assert all(math.isfinite(loss) for loss in after)
    assert before != after
    assert max(abs(a - b) / (1 + abs(b)) for a, b in zip(after, before, strict=True)) < tolerance


def test_training_resumes_bit_for_bit(tmp_path: Path) -> None:
    program = next(path for path in PROGRAMS if "--interrupt" in path.read_text(encoding="utf-8"))
    path = converted(program, tmp_path, Wish(to="amp", device="cpu"))
    assert losses(path, "--interrupt") == losses(path)


FLAGGED = [p for p in PROGRAMS if any(word in p.read_text(encoding="utf-8") for word in ("ArgumentParser", "click"))]


@pytest.mark.parametrize("program", FLAGGED, ids=lambda path: path.stem)
def test_a_flag_switches_it_all(amplint: Command, project: Path, program: Path) -> None:
    plain = losses(converted(program, project, Wish(to="amp", device="cpu")))
    wish = Wish(to="amp", device="cpu", add_flag=True)
    path = converted(program, project, wish)
    assert losses(path, "--no-amp") == losses(program)
    assert losses(path, "--amp") == losses(path) == plain
    ran = amplint("check", "--select", "ALL", "--ignore", "AMP9", "--output-format", "concise", path.name)
    assert (ran.status, ran.out) == (0, "")
    text = path.read_text(encoding="utf-8")
    assert convert(text, wish).text == text
