"""`--from float16`: regions turn to bfloat16, scalers go, checkpoints stay readable."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest
import torch

from amplint.codemods import Wish, convert
from tests.codemods.expected import NARROWED
from tests.codemods.running import conversion
from tests.codemods.test_apex import PROGRAMS, STEPS, losses
from tests.conftest import Command

TOLERANCE = 0.1
"""How far a loss may be from the one in float16, relative to 1 plus its size, on each of the 50 steps."""
NAMES = [path.stem for path in PROGRAMS if path.stem != "off"]


def in_float16(name: str, device: str) -> str:
    """A program in float16: what becomes of a program that used apex."""
    program = next(path for path in PROGRAMS if path.stem == name)
    return conversion(program.read_text(encoding="utf-8"), Wish(source="apex", device=device)).text


def in_bfloat16(name: str, device: str) -> str:
    """The same program in bfloat16."""
    text = in_float16(name, device)
    found = conversion(text, NARROWED)
    assert found.refused == ()
    assert found.text != text
    return found.text


@pytest.mark.parametrize("name", NAMES)
def test_the_result_lints_clean_and_stays(amplint: Command, project: Path, name: str) -> None:
    new = in_bfloat16(name, "cuda")
    assert "GradScaler" not in new
    assert "scaler." not in new
    (project / "program.py").write_text(new, encoding="utf-8")
    ran = amplint("check", "--select", "ALL", "--ignore", "AMP106,AMP9", "--output-format", "concise", "program.py")
    assert (ran.status, ran.out) == (0, "")
    again = convert(new, NARROWED)
    assert (again.text, again.done, again.refused) == (new, (), ())


@pytest.mark.parametrize("name", NAMES)
def test_the_result_trains_as_before(tmp_path: Path, name: str) -> None:
    before, after = tmp_path / "before.py", tmp_path / "after.py"
    before.write_text(in_float16(name, "cpu"), encoding="utf-8")
    after.write_text(in_bfloat16(name, "cpu"), encoding="utf-8")
    old, new = losses(before), losses(after)
    assert len(old) == len(new) == STEPS
    assert all(math.isfinite(loss) for loss in new)
    assert [step for step in range(STEPS) if abs(new[step] - old[step]) > TOLERANCE * (1 + abs(old[step]))] == []


SCRIPT = """import torch
from torch.amp import GradScaler, autocast


def save(model, optimizer, scaler, path):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, path)


def load(model, optimizer, scaler, path):
    checkpoint = torch.load(path)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    if "scaler" in checkpoint:
        scaler.load_state_dict(checkpoint["scaler"])


def train(model, optimizer, scheduler, batches, use_amp, path=None):
    scaler = GradScaler("cpu", enabled=use_amp)
    if path is not None:
        load(model, optimizer, scaler, path)
        path.seek(0)
    for batch in batches:
        with autocast("cpu", torch.float16, use_amp):
            loss = model(batch).square().mean()
        if use_amp:
            # all of it
            scaler.scale(loss).backward()  # scaled
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scale_before = scaler.get_scale()
            scaler.update()
            if scale_before <= scaler.get_scale():
                scheduler.step()
        else:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
    if path is not None:
        save(model, optimizer, scaler, path)
"""
CONVERTED = """import torch
from torch.amp import autocast


def save(model, optimizer, path):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


def load(model, optimizer, path):
    checkpoint = torch.load(path)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])


def train(model, optimizer, scheduler, batches, use_amp, path=None):
    if path is not None:
        load(model, optimizer, path)
        path.seek(0)
    for batch in batches:
        with autocast("cpu", torch.bfloat16, use_amp):
            loss = model(batch).square().mean()
        # all of it
        loss.backward()  # scaled
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    if path is not None:
        save(model, optimizer, path)
"""


def test_a_whole_conversion() -> None:
    conversion = convert(SCRIPT, NARROWED)
    assert conversion.refused == conversion.left == ()
    assert conversion.text == CONVERTED
    assert convert(SCRIPT.replace("\n", "\r\n"), NARROWED).text == CONVERTED.replace("\n", "\r\n")


def test_a_method_may_have_the_name_of_the_scale() -> None:
    conversion = convert(SCRIPT.replace("scale_before", "scale"), NARROWED)
    assert (conversion.text, conversion.refused) == (CONVERTED, ())


def test_annotations_and_keywords_go_with_the_scaler() -> None:
    text = SCRIPT.replace("optimizer, scaler, path):", "optimizer, scaler: GradScaler, path):")
    text = text.replace(
        '"optimizer": optimizer.state_dict(), "scaler": scaler',
        "**dict(optimizer=optimizer.state_dict(), scaler=scaler",
    )
    text = text.replace("}, path)", ")}, path)")
    expected = CONVERTED.replace('"optimizer": optimizer.state_dict()}', "**dict(optimizer=optimizer.state_dict())}")
    conversion = convert(text, NARROWED)
    assert (conversion.text, conversion.refused) == (expected, ())


def test_a_checkpoint_with_a_scaler_can_still_be_loaded() -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    old: dict[str, object] = {}
    new: dict[str, object] = {}
    exec(SCRIPT, old)
    exec(CONVERTED, new)
    file = io.BytesIO()
    old["save"](model, optimizer, torch.amp.GradScaler("cpu"), file)  # type: ignore[operator]
    assert b"scale" in file.getvalue()
    file.seek(0)
    new["train"](model, optimizer, scheduler, [torch.randn(8, 4)], True, file)  # type: ignore[operator]
    file.seek(0)
    assert set(torch.load(file)) == {"model", "optimizer"}


REFUSALS = {
    "dtype": ("torch.float16", "dtype", 23, "which dtype dtype is cannot be told"),
    "old": (
        "from torch.amp import GradScaler, autocast",
        "from torch.cuda.amp import GradScaler, autocast",
        18,
        "cuda-amp",
    ),
    "handed on": ("    for batch in", "    register(scaler)\n    for batch in", 22, "not in this file"),
    "read": ("    for batch in", "    print(scaler.get_scale())\n    for batch in", 22, "not understood"),
    "growth": ("    for batch in", "    scaler.set_growth_factor(3.0)\n    for batch in", 22, "not understood"),
    "only the scaler": ('autocast("cpu", torch.float16, use_amp)', "region(use_amp)", 18, "not in sight"),
    "annotation": ("\n\ndef save", "\n\ndef step(scaler: GradScaler):\n    ...\n\n\ndef save", 5, "out of sight"),
    "other scaler": ("    for batch in", "    other.unscale_(optimizer)\n    for batch in", 22, "other is made"),
}


@pytest.mark.parametrize(("old", "new", "row", "why"), REFUSALS.values(), ids=list(REFUSALS))
def test_refusals_leave_the_text(old: str, new: str, row: int, why: str) -> None:
    assert old in SCRIPT
    text = SCRIPT.replace(old, new)
    conversion = convert(text, NARROWED)
    assert conversion.text == text
    assert conversion.done == conversion.left == ()
    assert [remark.row for remark in conversion.refused] == [row]
    assert why in conversion.refused[0].text


def test_two_sides_that_differ_stay_two() -> None:
    text = SCRIPT.replace("            optimizer.step()\n            scheduler", "            scheduler")
    conversion = convert(text, NARROWED)
    assert conversion.refused == ()
    assert "        if use_amp:\n            # all of it\n            loss.backward()  # scaled\n" in conversion.text
    assert "scaler" not in conversion.text


def test_what_speaks_of_float16_elsewhere_is_named() -> None:
    text = SCRIPT.replace("    for batch in", "    model.buffer = model.buffer.half()\n    for batch in")
    conversion = convert(text, NARROWED)
    assert [(remark.row, remark.text) for remark in conversion.left] == [(19, "this still speaks of float16")]


def test_what_may_hand_bfloat16_to_numpy_is_named() -> None:
    text = SCRIPT.replace(
        "        if use_amp:\n", "        log(batch.numpy(), loss.float().numpy())\n        if use_amp:\n"
    )
    told = [remark for remark in convert(text, NARROWED).left if "numpy()" in remark.text]
    assert [remark.row for remark in told] == [22]


@pytest.mark.parametrize("text", [CONVERTED, "import torch\n", "with torch.autocast('cpu'):\n    pass\n"])
def test_what_is_not_in_float16_is_left_alone(text: str) -> None:
    conversion = convert(text, NARROWED)
    assert (conversion.text, conversion.done, conversion.refused) == (text, (), ())
