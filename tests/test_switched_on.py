"""Segments and steps under settings that nothing in a project switches on."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.engine.modules.switched import switches_on
from tests.test_unreached import lint

NAME = "use_checkpoint"


@pytest.mark.parametrize(
    ("text", "on"),
    [
        ("def make(a, use_checkpoint=False):", False),
        ("    use_checkpoint: bool = False,", False),
        ("    use_checkpoint: Optional[bool] = None)", False),
        ("self.use_checkpoint = use_checkpoint", False),
        ("Block(use_checkpoint=self.use_checkpoint)", False),
        ("Block(use_checkpoint=config.get('use_checkpoint', False))", False),
        ("if self.use_checkpoint:", False),
        ("Block(use_checkpoint=use_checkpoint, b=2)", False),
        ("Block(use_checkpoint=True)", True),
        ("Block(use_checkpoint=args.checkpoint)", True),
        ("use_checkpoint: true", True),
        ("use_checkpoint: false", True),
        ('{"use_checkpoint": false}', True),
        ("use_checkpoint: bool = False", True),
        ("parser.add_argument('--use-checkpoint')", True),
        ("# use_checkpoint=True", False),
    ],
)
def test_what_switches_a_setting_on(text: str, on: bool) -> None:
    assert switches_on(NAME, text.encode()) is on


@pytest.mark.parametrize(
    ("text", "on"),
    [
        ("module.gradient_checkpointing = value", False),
        ('"gradient_checkpointing": false', False),
        ("model.gradient_checkpointing_enable()", True),
        ("TrainingArguments(gradient_checkpointing=True)", True),
        ("`config.gradient_checkpointing=True` is not used", False),
    ],
)
def test_what_switches_on_the_attribute_of_a_library(text: str, on: bool) -> None:
    assert switches_on("gradient_checkpointing", text.encode()) is on


BLOCKS = """
import torch
from torch.utils.checkpoint import checkpoint


class Blocks(torch.nn.Module):
    def __init__(self, size, use_checkpoint=False, kind=1):
        super().__init__()
        self.block = torch.nn.Linear(size, size)
        self.use_checkpoint = use_checkpoint

    def forward(self, x):
        if self.use_checkpoint:
            x = checkpoint(self.block, x)
        return x
"""
NET = "from blocks import Blocks\n\n\ndef make(config):\n    return Blocks(4, use_checkpoint=config.use_checkpoint)\n"


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ({}, True),
        ({"net.py": "from blocks import Blocks\n\n\ndef make():\n    return Blocks(4, use_checkpoint=False)\n"}, False),
        ({"net.py": "from blocks import Blocks\n\n\ndef make():\n    return Blocks(4, use_checkpoint=True)\n"}, True),
        ({"net.py": "from blocks import Blocks\n\n\ndef make(some):\n    return Blocks(4, some)\n"}, True),
        ({"net.py": NET, "config.yaml": "model:\n  use_checkpoint: true\n"}, True),
        ({"net.py": NET, "pyproject.toml": "[project]\nname = 'blocks'\n"}, True),
        ({"net.py": NET, "other.py": "from timm import Blocks\n\nblocks = Blocks(4, use_checkpoint=True)\n"}, False),
    ],
)
def test_segments_under_a_setting_that_is_off(tmp_path: Path, others: dict[str, str], told: bool) -> None:
    files = {"blocks.py": BLOCKS, **others}
    assert bool(lint(tmp_path, files, "blocks.py", "AMP603")) is told


@pytest.mark.parametrize("more", ["", "\n\n\ndef is_one(one):\n    return isinstance(one, Blocks)\n"])
@pytest.mark.parametrize(("value", "told"), [("False", False), ("True", True)])
def test_classes_that_are_looked_at(tmp_path: Path, value: str, more: str, told: bool) -> None:
    made = f"\n\ndef make():\n    return Blocks(4, use_checkpoint={value})\n"
    text = BLOCKS.replace("super()", "super(Blocks, self)") + made + more
    assert bool(lint(tmp_path, {"blocks.py": text}, "blocks.py", "AMP603")) is told


@pytest.mark.parametrize(
    ("tried", "caught", "told"),
    [
        ("out = checkpoint(run, x, use_reentrant=False)", "TypeError", False),
        ("out = other(run, x)", "TypeError", True),
        ("out = checkpoint(run, x, use_reentrant=False)", "Exception", True),
        ("out = checkpoint(run, x, use_reentrant=False)", "(TypeError, ValueError)", True),
        ("from torch.utils.checkpoint import other", "ImportError", False),
        ("import apex", "ImportError", True),
    ],
)
def test_what_runs_where_another_version_has_refused(tmp_path: Path, tried: str, caught: str, told: bool) -> None:
    script = (
        "import torch\nfrom torch.utils.checkpoint import checkpoint\n\n\n"
        f"def segment(run, x):\n    try:\n        {tried}\n    except {caught}:\n        out = checkpoint(run, x)\n"
        "    return out\n"
    )
    assert bool(lint(tmp_path, {"blocks.py": script}, "blocks.py", "AMP603")) is told


ENCODER = """
import torch
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel


class Encoder(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.block = torch.nn.Linear(size, size)
        self.gradient_checkpointing = False

    def forward(self, x, mode):
        if self.gradient_checkpointing and self.training:
            return checkpoint(self.block, x, mode=mode)
        return self.block(x)


class Base(PreTrainedModel):
    base_model_prefix = "base"
{more}

class Model(Base):
    def __init__(self, config):
        super().__init__(config)
        self.encoder = Encoder(config.size)
"""
INSTALLED = "[project]\nname = 'encoders'\n"
USED = {"use.py": "from encoder import Model\n\nModel(1)\n"}
OTHER = "from transformers import AutoModel\n\nother = AutoModel.from_pretrained('x')\n{}\n"
ENABLES = OTHER.format("other.gradient_checkpointing_enable()")


@pytest.mark.parametrize(
    ("more", "others", "told"),
    [
        ("", USED, False),
        (
            "",
            {**USED, "pyproject.toml": INSTALLED, "other.py": ENABLES, "run.sh": "run.py --gradient_checkpointing\n"},
            False,
        ),
        ("    supports_gradient_checkpointing = True\n", {**USED, "pyproject.toml": INSTALLED}, True),
        ("", {"pyproject.toml": INSTALLED, "other.py": f"from encoder import Model\n{ENABLES}"}, True),
        ("", {"other.py": "from encoder import Model\n\nmodel.encoder.gradient_checkpointing = True\n"}, True),
    ],
)
def test_models_that_a_library_refuses_to_recompute(
    tmp_path: Path, more: str, others: dict[str, str], told: bool
) -> None:
    files = {"encoder.py": ENCODER.format(more=more), **others}
    assert bool(lint(tmp_path, files, "encoder.py", "AMP603")) is told


@pytest.mark.parametrize("told", [True, False])
def test_a_configuration_switches_on_what_a_library_refuses(tmp_path: Path, told: bool) -> None:
    text = ENCODER.format(more="").replace(
        "        self.gradient_checkpointing = False\n", "        self.config = size\n"
    )
    text = text.replace("self.gradient_checkpointing", 'getattr(self.config, "gradient_checkpointing", False)')
    files = {"encoder.py": text, **USED, **({"config.json": '{"gradient_checkpointing": true}\n'} if told else {})}
    assert bool(lint(tmp_path, files, "encoder.py", "AMP603")) is told


TRAINED = """import torch
from torch import nn
from constants import USE_AMP


def train(model, loader, optimizer):
    for x, y in loader:
        with torch.autocast("cuda", enabled=USE_AMP):
            loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


model = nn.Linear(4, 4).cuda()
train(model, [torch.ones(2, 2, 4).cuda()], torch.optim.SGD(model.parameters(), 0.1))
"""


@pytest.mark.parametrize(
    ("constants", "more", "told"),
    [
        ("USE_AMP = False\n", "", False),
        ("USE_AMP = True\n", "", True),
        ("USE_AMP = False\nif True:\n    USE_AMP = True\n", "", True),
        ("USE_AMP = False\n", "import constants\n\nconstants.USE_AMP = True\n", True),
    ],
    ids=["off", "on", "bound twice", "set from elsewhere"],
)
def test_regions_that_a_constant_of_another_file_disables(
    tmp_path: Path, constants: str, more: str, told: bool
) -> None:
    files = {"train.py": TRAINED, "constants.py": constants, "main.py": more}
    assert bool(lint(tmp_path, files, "train.py", "AMP208")) is told
