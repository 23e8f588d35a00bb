"""`--from cuda-amp`: programs train as before, also where another tool's repair of the same names breaks them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from amplint.codemods import Wish, convert
from tests.codemods.expected import CUDA_AMP, Case, of_cuda_amp
from tests.codemods.running import converted, distance, losses, resumed, resumes
from tests.conftest import Command

PROGRAMS = {
    path.stem: path.read_text(encoding="utf-8") for path in (Path(__file__).parent / "cuda_amp_programs").glob("*.py")
}
TOLERANCE = 0.02
"""How far a loss in bfloat16 may be from that of float32, relative to 1 plus its size, on each of the 50 steps."""

FLAG = """import torch
from torch.cuda.amp import autocast


def run(use_amp):
    with autocast(use_amp):
        return torch.is_autocast_enabled("cuda")
"""
NO_TORCH = """from torch.cuda.amp import GradScaler as Scaler


def run(use_amp):
    return Scaler(enabled=use_amp).is_enabled()
"""
CALLED_WITHOUT_TORCH = """import torch.nn as nn
from torch.cuda import amp


def run(use_amp):
    with amp.autocast(enabled=use_amp):
        return nn.Module() is not None and bool(use_amp)
"""
MODULE = """import torch
import torch.cuda.amp as amp


def run(use_amp):
    with amp.autocast(enabled=use_amp):
        return torch.is_autocast_enabled("cuda")
"""
SWITCH_THAT_IS_OFF = """import torch

fp16 = False
if fp16:
    from torch.cuda.amp import GradScaler as GradScaler

    scaler = GradScaler()
else:
    scaler = None


def run(use_amp):
    if fp16:
        from torch.cuda.amp import autocast

        with autocast():
            return scaler.is_enabled()
    with torch.amp.autocast("cuda", enabled=use_amp):
        if fp16:
            return torch.cuda.amp.GradScaler().is_enabled()
        return torch.is_autocast_enabled("cuda")
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (SWITCH_THAT_IS_OFF, 'scaler = GradScaler("cuda")'),
        (SWITCH_THAT_IS_OFF, 'with autocast("cuda")'),
        (SWITCH_THAT_IS_OFF, 'torch.amp.GradScaler("cuda").is_enabled()'),
        (FLAG, 'autocast("cuda", enabled=use_amp)'),
        (NO_TORCH, 'Scaler("cuda", enabled=use_amp)'),
        (CALLED_WITHOUT_TORCH, 'torch.amp.autocast("cuda", enabled=use_amp)'),
        (MODULE, 'torch.amp.autocast("cuda", enabled=use_amp)'),
    ],
    ids=[
        "dead scaler",
        "dead autocast",
        "dead attribute",
        "a flag by position",
        "no import of torch",
        "a module of torch",
        "a module's own name",
    ],
)
def test_the_result_means_the_same(old: str, new: str) -> None:
    conversion = convert(old, Wish(source="cuda-amp"))
    assert conversion.refused == ()
    assert new in conversion.text
    assert "amp.amp" not in conversion.text
    assert "cuda.amp" not in conversion.text
    module: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says that there is no GPU
        exec(conversion.text, module)
        run = module["run"]
        assert callable(run)
        assert not run(False)
        assert run(True) is (torch.cuda.is_available() or old is CALLED_WITHOUT_TORCH)
    assert convert(conversion.text, Wish(source="cuda-amp")).text == conversion.text


HANDED_ON = """import contextlib
import torch

region = contextlib.nullcontext
if getattr(torch.cuda.amp, "autocast") is not None:
    region = torch.cuda.amp.autocast


def run(use_amp):
    with region(enabled=use_amp):
        return torch.is_autocast_enabled("cuda")
"""


def test_a_class_of_regions_can_be_handed_on() -> None:
    conversion = convert(HANDED_ON, CUDA_AMP)
    assert conversion.refused == ()
    assert 'if torch.amp.autocast is not None:\n    region = functools.partial(torch.amp.autocast, "cuda")\n' in (
        conversion.text
    )
    assert conversion.text.startswith("import contextlib\nimport functools\n")
    module: dict[str, Callable[[bool], bool]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says that there is no GPU
        exec(conversion.text, module)
        assert module["run"](True) is torch.cuda.is_available()
    for old, new in (("region(enabled=use_amp)", "region(use_amp)"), ("def run(", "use(region)\n\n\ndef run(")):
        assert convert(HANDED_ON.replace(old, new), CUDA_AMP).refused


GUARDED = """import torch
if torch.__version__ >= "1.6":
    from torch.cuda.amp import autocast
else:
    from dummies import autocast


def run(model, x):
    with autocast():
        return model(x)
"""


def test_a_name_that_can_mean_two_things_is_refused() -> None:
    conversion = convert(GUARDED, CUDA_AMP)
    why = "torch.cuda.amp.autocast is deprecated, and what autocast stands for where it is called cannot be told"
    assert [(remark.row, remark.text) for remark in conversion.refused] == [(3, why)]
    migrated = GUARDED.replace("from torch.cuda.amp", "from torch.amp").replace("from dummies", "from torch.cuda.amp")
    assert convert(migrated, CUDA_AMP).refused == ()


@pytest.mark.parametrize("end", ["", 'if __name__ == "__main__":\n    run(True)\n'], ids=["module", "script"])
def test_an_import_that_only_others_could_use_stops_a_module_and_no_script(end: str) -> None:
    text = f"from torch.cuda.amp import GradScaler, autocast\n\n\ndef run(x):\n    with autocast():\n        x()\n{end}"
    conversion = convert(text, CUDA_AMP)
    assert bool(conversion.refused) is not bool(end)
    assert ("from torch.amp import GradScaler, autocast\n" in conversion.text) is bool(end)


@pytest.mark.parametrize("case", [*of_cuda_amp()], ids=str)
def test_the_result_is_the_one_that_is_kept(case: Case) -> None:
    assert case.now() == case.kept()


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_programs_lint_clean_and_train_as_before(amplint: Command, project: Path, name: str) -> None:
    text = converted(PROGRAMS[name], CUDA_AMP)
    assert "cuda.amp" not in text.partition("import torch")[2]
    assert convert(text, CUDA_AMP).text == text
    (project / "program.py").write_text(text, encoding="utf-8")
    ran = amplint("check", "--select", "ALL", "--ignore", "AMP106,AMP9", "--output-format", "concise", "program.py")
    assert (ran.status, ran.out) == (0, "")
    # without a GPU the original runs in float32, and the CPU's autocast is in bfloat16
    before = losses(f"import warnings\nwarnings.simplefilter('ignore')\n{PROGRAMS[name]}")
    on_cpu = text.replace('"cuda"', '"cpu"')
    after = losses(on_cpu)
    assert all(math.isfinite(loss) for loss in after)
    assert before != after
    assert distance(after, before) < TOLERANCE
    if resumes(text):
        assert resumed(on_cpu) == after
