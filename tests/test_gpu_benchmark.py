"""The script that measures on a GPU: refused without one, and its parts as far as a CPU can stand in."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from amplint.trace.data import Operation
from amplint.trace.gpus import GPUS
from amplint.trace.memory.estimates import Estimate, Variant
from amplint.trace.memory.running import estimate
from amplint.trace.record import Record
from benchmarks import gpu, trace


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_nothing_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["--output", str(tmp_path / "gpu.md")]) == 1
    assert "no CUDA device that PyTorch" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_parts_have_names(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        gpu.main(["--parts", "dtypes,speed"])
    assert "no part is called speed" in capsys.readouterr().err


def test_the_page_has_a_table_for_each_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    product = Operation("forward", "mm", "", "a.py", 3, "", ("float16",) * 2, ("float16",), "float16", "cuda")
    record = Record(operations=Counter([product]))
    monkeypatch.setattr(gpu, "record_of", lambda *_: record)
    monkeypatch.setattr(gpu, "estimates", lambda *_: [Estimate("as it is", {"parameters": 2**20})])
    monkeypatch.setattr(gpu, "SIZES", {"perceptron": perceptron})
    output = tmp_path / "gpu.md"
    parts = "dtypes,memory,overhead"
    assert gpu.main(["--device", "cpu", "--parts", parts, "--rounds", "1", "--output", str(output)]) == 0
    text = output.read_text(encoding="utf-8")
    assert text.startswith(gpu.HEAD)
    assert f"PyTorch {torch.__version__}" in text
    assert text.count("| 1 | 1 |  |") == len(gpu.PROGRAMS) == 10
    assert text.count("| 0.0 | 1.0 |  | 0.0 |") == len(gpu.MODELS) == 5
    assert text.count("| perceptron |") == 1
    assert all(title in text for part, title in gpu.TITLES.items() if part in parts)


def test_the_page_that_there_is_says_how_to_write_it() -> None:
    assert (gpu.ROOT / "docs" / "gpu.md").read_text(encoding="utf-8").startswith(gpu.HEAD)


def test_rows_of_both_records_count() -> None:
    product = Operation("forward", "mm", "", "a.py", 3, "", ("float16",) * 2, ("float16",), "float16", "cuda")
    sums = replace(product, op="sum")
    real, dry = (Counter([product, sums, replace(product, op=op)]) for op in ("flash", "math"))
    assert gpu.alike(Record(operations=real), Record(operations=dry)) == (2, 2, [])
    other = Record(operations=Counter([product, replace(sums, outputs=("float32",))]))
    assert gpu.alike(Record(operations=real), other) == (2, 1, ["forward sum, a.py:3"])


@pytest.mark.parametrize("name", ["language_model", "unet"])
def test_models_of_its_own_are_estimated(name: str) -> None:
    path = next(model for model in gpu.MODELS if name in model)
    found = estimate(str(gpu.ROOT / path), [], Variant("as it is"), GPUS["a100"])
    assert found.refused == ""
    assert found.total > 0


def perceptron() -> trace.Made:
    """A model so small that its steps cost nothing."""
    return torch.nn.Linear(4, 4), torch.ones(2, 4), torch.tensor([0, 1])
