"""`--to bfloat16`: regions, scalers, casts and switches move together, and files of settings are named."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from amplint.codemods import Wish, convert
from tests.codemods.test_bfloat16 import CONVERTED, SCRIPT

BFLOAT16 = Wish(to="bfloat16")


def test_a_script_moves_as_from_float16_and_casts_with_it() -> None:
    cast = "    model = model.half()\n    scaler = "
    conversion = convert(SCRIPT.replace("    scaler = ", cast, 1), BFLOAT16)
    assert conversion.refused == ()
    assert conversion.text == CONVERTED.replace(
        "use_amp, path=None):\n", "use_amp, path=None):\n    model = model.bfloat16()\n"
    )
    assert [one.text for one in conversion.left if "float16" in one.text and "AMP" not in one.text] == []
    assert convert(conversion.text, BFLOAT16).text == conversion.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "import torch\nx = torch.zeros(2, dtype=torch.half)\n",
            "import torch\nx = torch.zeros(2, dtype=torch.bfloat16)\n",
        ),
        ("import numpy as np\nx = np.zeros(2, np.float16)\n", "import numpy as np\nx = np.zeros(2, np.float16)\n"),
        (
            "from transformers import TrainingArguments\na = TrainingArguments('o', fp16=True)\n",
            "from transformers import TrainingArguments\na = TrainingArguments('o', bf16=True)\n",
        ),
        (
            "import lightning as L\nt = L.Trainer(precision=16)\n",
            'import lightning as L\nt = L.Trainer(precision="bf16-mixed")\n',
        ),
        (
            "from accelerate import Accelerator\na = Accelerator(mixed_precision='fp16')\n",
            'from accelerate import Accelerator\na = Accelerator(mixed_precision="bf16")\n',
        ),
        (
            'settings = {"fp16": {"enabled": True, "loss_scale": 0}, "seed": 1}\n',
            'settings = {"bf16": {"enabled": True}, "seed": 1}\n',
        ),
        (
            "import torch\nd = {'fp16': torch.half}[name]\nd = torch.half if name == 'fp16' else d\n",
            "import torch\nd = {'fp16': torch.half}[name]\nd = torch.half if name == 'fp16' else d\n",
        ),
        (
            "import torch\nif k == 'fp32': pass\nelse: model.half()\nif config['fp16']:\n    model.half()\n",
            "import torch\nif k == 'fp32': pass\nelse: model.half()\nif config['fp16']:\n    model.bfloat16()\n",
        ),
        (
            "import torch\nwith torch.cuda.amp.autocast():\n    pass\n",
            'import torch\nwith torch.amp.autocast("cuda", dtype=torch.bfloat16):\n    pass\n',
        ),
        ("class Dog:\n    def half(self): ...\nDog().half()\n", "class Dog:\n    def half(self): ...\nDog().half()\n"),
    ],
    ids=["dtype", "numpy", "trainer", "lightning", "accelerate", "deepspeed", "chosen", "branch", "old", "own"],
)
def test_what_else_moves(text: str, expected: str) -> None:
    conversion = convert(text, BFLOAT16)
    assert (conversion.text, conversion.refused) == (expected, ())
    assert convert(expected, BFLOAT16).text == expected


def test_what_is_refused_from_float16_moves_in_no_part() -> None:
    text = SCRIPT.replace("torch.float16", "dtype").replace("    scaler = ", "    model.half()\n    scaler = ", 1)
    conversion = convert(text, BFLOAT16)
    assert conversion.text == text
    assert "which dtype dtype is cannot be told" in conversion.refused[0].text


def test_files_of_settings_are_named(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text('{"fp16": {"enabled": true}}')
    text = "import torch\nhalf = torch.zeros(1).half()\nlaunch('ds.json')\n"
    conversion = convert(text, BFLOAT16, str(tmp_path / "train.py"))
    assert "torch.zeros(1).bfloat16()" in conversion.text
    assert [(one.row, one.text) for one in conversion.left] == [(3, "ds.json speaks of float16 as well")]


def test_the_result_computes_in_bfloat16() -> None:
    text = "import torch\nlayer = torch.nn.Linear(4, 2).half()\nout = layer(torch.ones(1, 4, dtype=torch.float16))\n"
    module: dict[str, torch.Tensor] = {}
    exec(convert(text, BFLOAT16).text, module)
    assert module["out"].dtype is torch.bfloat16
