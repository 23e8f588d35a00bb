"""Frameworks, as far as they are installed: two steps each, dry and on the CPU, and where findings point.

`docs/trace.md` says with which versions this was run last.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from amplint.trace.findings import findings
from amplint.trace.record import Record
from tests.trace.test_command import trace_afresh

PROGRAMS = Path(__file__).parent / "frameworks"
NEEDS = {
    "hf_trainer": ("transformers", "accelerate"),
    "trl_sft": ("trl", "datasets"),
    "peft_lora": ("peft", "transformers"),
    "accelerate_loop": ("accelerate",),
    "lightning_fit": ("lightning",),
    "diffusers_unet": ("diffusers",),
    "monai_unet": ("monai",),
    "timm_vit": ("timm", "torchvision"),
    "ultralytics_yolo": ("ultralytics", "torchvision"),
}
"""Program -> the packages that it imports."""
SPOILT = {
    "hf_trainer": ("h.1.mlp.c_proj", "transformers/pytorch_utils.py"),
    "trl_sft": ("layers.1.mlp", "transformers/models/llama/modeling_llama.py"),
    "peft_lora": ("layers.1.mlp", "transformers/models/llama/modeling_llama.py"),
    "accelerate_loop": ("model.3", "accelerate_loop.py"),
    "lightning_fit": ("head", "lightning_fit.py"),
    "diffusers_unet": ("mid_block.resnets.0.conv2", "diffusers/models/resnet.py"),
    "monai_unet": ("model.model.0.conv.unit0.conv", "monai/networks/blocks/convolutions.py"),
    "timm_vit": ("blocks.1.mlp.fc2", "timm/layers/mlp.py"),
    "ultralytics_yolo": ("model.4.cv2.conv", "ultralytics/nn/modules/conv.py"),
}
"""Program -> what its `--spoil` makes overflow: the end of the module's path, and the file in which that is."""

pytestmark = pytest.mark.frameworks


def test_every_program_is_run() -> None:
    assert set(NEEDS) == set(SPOILT) == {path.stem for path in PROGRAMS.glob("[a-z]*.py")}


def run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str, spoil: bool = False) -> Record:
    """The record of the first two steps."""
    missing = [package for package in NEEDS[name] if importlib.util.find_spec(package) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)}: not installed")
    for variable in ("HF_HUB_OFFLINE", "YOLO_OFFLINE"):
        monkeypatch.setenv(variable, "1")
    monkeypatch.setenv("YOLO_CONFIG_DIR", str(folder))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH")])))
    script = [str(PROGRAMS / f"{name}.py"), *(["--spoil"] if spoil else [])]
    ran = trace_afresh(folder, "--skip", "0", "--steps", "2", "--output", "trace.json", *options, *script)
    assert ran.returncode == 0, ran.stderr
    return Record.from_json((folder / "trace.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NEEDS)
@pytest.mark.parametrize("dry", [False, True], ids=["cpu", "dry"])
def test_two_steps(name: str, dry: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = run(name, tmp_path, monkeypatch, *(["--dry-run"] if dry else []))
    assert (record.steps, record.device, bool(record.gpu)) == (2, "cuda" if dry else "cpu", dry)
    assert not [found for found in findings(record) if found.code not in ("AMP807", "AMP808", "AMP810")]


@pytest.mark.parametrize("name", SPOILT)
def test_what_overflows_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, file = SPOILT[name]
    record = run(name, tmp_path, monkeypatch, "--dry-run", spoil=True)
    first, *_ = [found for found in findings(record) if found.code == "AMP803"]
    assert module in first.message
    assert file in first.message or first.filename.endswith(file)
