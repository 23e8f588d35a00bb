"""`--to amp`: programs converted in all the ways they allow lint clean, are fixed points, and train as they did."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from amplint.codemods import Wish, convert
from tests.codemods.expected import HALF, NARROWED, Case, in_pairs, of_programs
from tests.codemods.running import converted, distance, losses, resumed, resumes
from tests.conftest import Command

PROGRAMS = {path.stem: path.read_text(encoding="utf-8") for path in (Path(__file__).parent / "programs").glob("*.py")}
NAMES = sorted(PROGRAMS)
FLAGGED = [name for name in NAMES if any(word in PROGRAMS[name] for word in ("ArgumentParser", "click"))]
TOLERANCE = {"float16": 0.003, "bfloat16": 0.02}
"""How far a loss may be from the one of the original, relative to 1 plus its size, on each of the 50 steps."""


def check(amplint: Command, project: Path, text: str, wish: Wish) -> None:
    """What was converted lints clean, and stays as it is.

    Opportunities are left apart and, where the regions were asked to be for CUDA, that the program runs elsewhere too.
    Rules that are asked for by name may suppose a region around functions that now run outside of any.
    """
    (project / "program.py").write_text(text, encoding="utf-8")
    ignored = "AMP9,AMP106" if wish.device == "cuda" else "AMP9"
    ran = amplint("check", "--ignore", ignored, "--output-format", "concise", "program.py")
    assert (ran.status, ran.out) == (0, "")
    ran = amplint("check", "--select", "ALL", "--ignore", ignored, "--output-format", "concise", "program.py")
    assert all(" info: " in line for line in ran.out.splitlines())
    again = convert(text, wish)
    assert (again.text, again.done, again.refused) == (text, (), ())


@pytest.mark.parametrize("case", [*of_programs()], ids=str)
def test_the_result_is_the_one_that_is_kept(case: Case) -> None:
    assert case.now() == case.kept()


@pytest.mark.parametrize("name", NAMES)
def test_the_result_lints_clean_and_stays(amplint: Command, project: Path, name: str) -> None:
    for wish in in_pairs(name):
        text = converted(PROGRAMS[name], wish)
        assert text.count("GradScaler(") == (wish.dtype == "float16")
        check(amplint, project, text, wish)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", NAMES)
def test_the_result_trains_to_the_same_losses(name: str, dtype: str) -> None:
    before = losses(PROGRAMS[name])
    after = losses(converted(PROGRAMS[name], Wish(to="amp", device="cpu", dtype=dtype)))
    assert all(math.isfinite(loss) for loss in after)
    assert before != after
    assert distance(after, before) < TOLERANCE[dtype]


@pytest.mark.parametrize("name", [name for name in NAMES if "torch.device(" in PROGRAMS[name]])
def test_the_device_of_the_script_decides(name: str) -> None:
    (wish,) = (wish for wish in in_pairs(name) if wish.device == "auto")
    text = converted(PROGRAMS[name], wish)
    assert text.count('"cpu"') == PROGRAMS[name].count('"cpu"')
    for_cpu = converted(PROGRAMS[name], replace(wish, device="cpu"))
    assert distance(losses(text), losses(for_cpu)) < TOLERANCE[wish.dtype]


@pytest.mark.parametrize("name", [name for name in NAMES if resumes(PROGRAMS[name])])
def test_training_resumes_bit_for_bit(name: str) -> None:
    for text in (PROGRAMS[name], converted(PROGRAMS[name], HALF)):
        assert resumed(text) == losses(text)


@pytest.mark.parametrize("name", FLAGGED)
def test_a_flag_switches_it_all(name: str) -> None:
    text = converted(PROGRAMS[name], Wish(to="amp", device="cpu", add_flag=True))
    assert losses(text, "--no-amp") == losses(PROGRAMS[name])
    assert losses(text, "--amp") == losses(text) == losses(converted(PROGRAMS[name], HALF))


@pytest.mark.parametrize("name", NAMES)
def test_float16_becomes_bfloat16(amplint: Command, project: Path, name: str) -> None:
    text = converted(converted(PROGRAMS[name], HALF), NARROWED)
    assert "scaler." not in text
    check(amplint, project, text, NARROWED)
    assert distance(losses(text), losses(PROGRAMS[name])) < TOLERANCE["bfloat16"]
    if resumes(text):
        assert resumed(text) == losses(text)
