"""`--accumulate N`: windows of N batches train as batches that are N times as large do."""

from __future__ import annotations

import contextlib
import functools
import io
import runpy
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from amplint.codemods import Conversion, Wish, convert
from amplint.codemods.repairs import all_rules, findings_of
from tests.codemods.larger_batches import MANY
from tests.codemods.running import conversion

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "micro_batches").glob("*.py"))
STEPS = 50
TOLERANCE, MIXED_TOLERANCE = 2e-5, 0.02


@pytest.fixture(autouse=True)
def gentle_scaler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scaler that begins at a scale at which these programs skip no steps, as it would after a few of them."""
    made = torch.amp.GradScaler.__init__
    monkeypatch.setattr(torch.amp.GradScaler, "__init__", functools.partialmethod(made, init_scale=256.0))
    torch.set_num_threads(1)


@contextlib.contextmanager
def _weights() -> Iterator[list[torch.Tensor]]:
    """The weights after each step of an optimizer, while this is entered."""
    found: list[torch.Tensor] = []

    def note(optimizer: torch.optim.Optimizer, *_: object) -> None:
        found.append(torch.cat([p.detach().flatten() for group in optimizer.param_groups for p in group["params"]]))

    handle = register_optimizer_step_post_hook(note)
    try:
        yield found
    finally:
        handle.remove()


def run(
    text: str, folder: Path, names: Mapping[str, Any] = MappingProxyType({})
) -> tuple[list[torch.Tensor], dict[str, Any]]:
    """The weights after each step, and what the program, which knows `names`, leaves behind."""
    path = folder / "program.py"
    path.write_text(text, encoding="utf-8")
    torch.manual_seed(0)
    with _weights() as weights, contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("error")
        return weights, runpy.run_path(str(path), init_globals=dict(names), run_name="__main__")


def larger(text: str) -> str:
    """The program with batches that are as large as a window."""
    assert "BATCH = 4\n" in text
    return text.replace("BATCH = 4\n", f"BATCH = {4 * MANY}\n")


def converted(text: str, **wishes: Any) -> Conversion:
    """What becomes of a program, of which nothing may be refused."""
    found = conversion(text, Wish(accumulate=MANY, **wishes))
    assert found.refused == ()
    assert found.text != text
    assert found.done
    return found


def difference(some: list[torch.Tensor], others: list[torch.Tensor], steps: int = STEPS) -> float:
    """How far weights of at least so many `steps` are from each other at most, relative to 1 plus their size."""
    assert len(some) == len(others) >= steps
    return max(float(((a - b).abs() / (1 + b.abs())).max()) for a, b in zip(some, others, strict=True))


@functools.cache
def with_larger(text: str) -> tuple[list[torch.Tensor], dict[str, Any]]:
    """What the program does with larger batches."""
    with tempfile.TemporaryDirectory() as folder:
        return run(larger(text), Path(folder))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_windows_train_as_larger_batches(program: Path, tmp_path: Path) -> None:
    text = program.read_text(encoding="utf-8")
    some, left = run(converted(text).text, tmp_path)
    others, expected = with_larger(text)
    assert difference(some, others) < (MIXED_TOLERANCE if "autocast" in text else TOLERANCE)
    if "result" in expected:
        torch.testing.assert_close(left["result"], expected["result"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_in_mixed_precision_too(program: Path, dtype: str, tmp_path: Path) -> None:
    text = program.read_text(encoding="utf-8")
    if "autocast" in text:
        return
    new = converted(text, to="amp", device="cpu", dtype=dtype).text
    assert "autocast(" in new
    some, _ = run(new, tmp_path)
    assert difference(some, with_larger(text)[0]) < MIXED_TOLERANCE


@pytest.mark.parametrize("to", [None, "amp"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_the_result_lints_clean_and_stays(program: Path, to: str | None) -> None:
    text = program.read_text(encoding="utf-8")
    check(text, converted(text, to=to).text, Wish(to=to, accumulate=MANY))


def check(before: str, after: str, wish: Wish) -> None:
    """Nothing is found in `after` that is not there without accumulation, and converting it again does nothing."""
    plain = conversion(before, replace(wish, accumulate=None)).text if wish.to is not None else before
    assert findings(after) <= findings(plain)
    again = convert(after, wish)
    assert (again.text, again.done, again.refused) == (after, (), ())


@functools.cache
def findings(text: str) -> set[str]:
    """What all rules find in a program, opportunities apart."""
    rules = all_rules()
    codes = frozenset(rule.code for rule in rules if rule.assumed)
    return {f"{one.code} {one.message}" for one in findings_of(rules, text, "", codes)}
