"""`--accumulate N`: the training programs of `--to amp` train as with batches that are N times as large."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from amplint.codemods import Wish
from tests.codemods.expected import ACCUMULATED, Case, of_accumulation
from tests.codemods.larger_batches import DOUBLE, EDITS, HELPERS, MANY, REFUSED, TOGETHER, with_larger_batches
from tests.codemods.running import conversion
from tests.codemods.test_accumulation import check, difference, findings, gentle_scaler, run

PROGRAMS = {path.stem: path.read_text(encoding="utf-8") for path in (Path(__file__).parent / "programs").glob("*.py")}
ACCUMULATES = "accumulate"
ROUNDS, STEPS = 50, 13
"""How many batches each program has, and how many windows of 4 that is at least."""
TOLERANCE, MIXED_TOLERANCE = 2e-5, 0.02
MIXED = {
    "float16": ("actor_critic_dict", "factorization", "helper_step", "language_model", "mixture_density"),
    "bfloat16": ("classify_argparse", "classify_click", "diffusion_ema", "segment_trainer", "weight_averaging"),
}
"""Programs that are converted to mixed precision in one go, of all kinds of loops."""

__all__ = ["gentle_scaler"]


@pytest.fixture(autouse=True)
def as_script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder to save checkpoints in, and no arguments."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["program.py"])


@contextlib.contextmanager
def precision(dtype: torch.dtype) -> Iterator[None]:
    """What tensors are made of while this is entered."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def both(name: str, wish: Wish, folder: Path) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The weights after each step of a program that accumulates, and of the one with larger batches."""
    found = conversion(PROGRAMS[name], wish)
    assert found.refused == ()
    check(PROGRAMS[name], found.text, wish)
    assert wish.to is None or findings(found.text) == set()
    some, left = run(found.text, folder)
    assert len(left["losses"]) == ROUNDS
    assert all(math.isfinite(loss) for loss in left["losses"])
    return some, run(with_larger_batches(name, PROGRAMS[name]), folder, HELPERS)[0]


def test_every_program_is_accounted_for() -> None:
    assert sorted([*EDITS, *REFUSED, ACCUMULATES]) == sorted(PROGRAMS)
    assert TOGETHER.keys() | DOUBLE.keys() <= EDITS.keys()


@pytest.mark.parametrize("case", [*of_accumulation()], ids=str)
def test_the_result_is_the_one_that_is_kept(case: Case) -> None:
    assert case.now() == case.kept()


@pytest.mark.parametrize("name", sorted(EDITS))
def test_windows_train_as_larger_batches(name: str, tmp_path: Path) -> None:
    with precision(torch.float64 if name in DOUBLE else torch.float32):
        some, others = both(name, ACCUMULATED, tmp_path)
    assert difference(some, others, STEPS) < TOLERANCE


@pytest.mark.parametrize(("dtype", "name"), [(dtype, name) for dtype, names in MIXED.items() for name in names])
def test_in_mixed_precision_too(dtype: Any, name: str, tmp_path: Path) -> None:
    some, others = both(name, Wish(to="amp", device="cpu", dtype=dtype, accumulate=MANY), tmp_path)
    assert difference(some, others, STEPS) < MIXED_TOLERANCE


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused(name: str) -> None:
    found = conversion(PROGRAMS[name], ACCUMULATED)
    assert [REFUSED[name] in remark.text for remark in found.refused] == [True]
    assert (found.text, found.done) == (PROGRAMS[name], ())


def test_what_accumulates_is_left_alone() -> None:
    found = conversion(PROGRAMS[ACCUMULATES], ACCUMULATED)
    assert (found.text, found.done, found.refused) == (PROGRAMS[ACCUMULATES], (), ())
