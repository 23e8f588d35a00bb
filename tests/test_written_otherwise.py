"""The same mistake in the forms that people write it in: what is told, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.engine.cache import Cache
from amplint.engine.config import Settings
from amplint.engine.discover import Target
from amplint.engine.projects import Projects
from amplint.engine.registry import load_registry
from amplint.engine.run import Linter

SETTINGS = Settings(select=("ALL",))
LOOP = """
import torch
import torch.nn.functional as F

def train(model, optimizer, scaler, loader, amp):
    for x, y in loader:
        optimizer.zero_grad()
        {forward}
        loss = F.cross_entropy(out, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
REGION = 'torch.autocast("cuda", dtype=torch.float16)'
OUTPUTS = {
    "as_it_is": f"with {REGION}: out = model(x)",
    "unpacked": f"with {REGION}: out = model(x)\n        if isinstance(out, tuple): out = out[0]",
    "unpacked_by_expression": f"with {REGION}: out = model(x)\n        out = out[0] if isinstance(out, tuple) else out",
    "of_a_dictionary": f"with {REGION}: res = model(x)\n        out = res['logits'] if isinstance(res, dict) else res",
    "on_one_path": f"if amp:\n            with {REGION}: out = model(x)\n        else:\n            out = model(x)",
    "region_kept": f"context = {REGION}\n        with context: out = model(x)",
    "entered": f"context = {REGION}\n        context.__enter__()\n        out = model(x)\n"
    "        context.__exit__(None, None, None)",
}
OPTIMIZERS = """
import torch

class Trainer:
    def __init__(self, g, d):
        self.g, self.d = g, d
        self.by_name = {{"g": torch.optim.Adam(g.parameters()), "d": torch.optim.Adam(d.parameters())}}
        self.optimizers = [self.by_name["g"], self.by_name["d"]]
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, loss):
        self.scaler.scale(loss).backward()
        {steps}
"""
STEPS = {
    "for optimizer in self.optimizers: self.scaler.step(optimizer); self.scaler.update()": {"AMP215"},
    "for optimizer in self.by_name.values(): self.scaler.step(optimizer); self.scaler.update()": {"AMP215"},
    "for name, optimizer in self.by_name.items(): self.scaler.step(optimizer); self.scaler.update()": {"AMP215"},
    "for i, optimizer in enumerate(self.optimizers): self.scaler.step(optimizer); self.scaler.update()": {"AMP215"},
    "for o in self.optimizers: self.scaler.unscale_(o)\n        for o in self.optimizers: self.scaler.unscale_(o)": {
        "AMP201"
    },
    "for o in self.optimizers: self.scaler.step(o)\n        self.scaler.update()": set[str](),
    "for net, o in zip([self.g, self.d], self.optimizers):\n"
    "            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0); self.scaler.step(o)\n"
    "        self.scaler.update()": {"AMP205"},
    "for net, o in zip([self.g, self.d], self.optimizers):\n"
    "            self.scaler.unscale_(o); torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0); self.scaler.step(o)\n"
    "        self.scaler.update()": set(),
}
EMBEDDINGS = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.proj = nn.Linear(d, d)

    def forward(self, x, t):
        {lines}
"""
MADE = {
    "freqs = torch.exp(-torch.arange(8, device=x.device) / 8); return self.proj(freqs[None].cos())": True,
    "freqs = torch.exp(-torch.arange(8, device=x.device) / 8); return self.proj((t.float() * freqs).sin())": True,
    "freqs = torch.exp(-torch.arange(8, device=x.device) / 8); return self.proj(freqs[None].to(x.dtype))": False,
}
DEVICES = {
    'DEV = "cuda" if torch.cuda.is_available() else "cpu"': "DEV",
    'dev = torch.device("cpu" if not torch.cuda.is_available() else "cuda")': "dev",
    'fast = "cuda"': None,
    "slow = 3 if torch.cuda.is_available() else 4": None,
}
POSITIONS = {
    "torch.arange(x.size(1), device=x.device, dtype=x.dtype)": True,
    "torch.arange(x.size(1), device=x.device).to(x.dtype)": True,
    "torch.arange(x.size(1)).type_as(x)": True,
    "torch.arange(x.size(1)).to(x)": True,
    "torch.arange(x.size(1), device=x.device).type(x.type())": True,
    "torch.arange(x.size(1)).to(x.device)": False,
    "torch.arange(x.size(1)).float()": False,
    "torch.arange(64).to(x)": False,
}

GUARDS = {
    "x / (y.sum(1) + 1e-10)": True,
    "union = x.sum((1, 2)) + y.sum((1, 2))\n        return x / (union + 1e-10)": True,
    "x / (self.weights.sum(1) + 1e-10)": False,
    "x / (y.float().sum(1) + 1e-10)": False,
    "x / (len(y) + 1e-10)": False,
}


def told(text: str, folder: Path, code: str = "") -> set[str]:
    """The codes of what is found in `text`, those that begin with `code`."""
    path = folder / "main.py"
    path.write_text(text, encoding="utf-8")
    linter = Linter(Projects(load_registry().rules, fixed=SETTINGS), Cache(None))
    findings = linter.check(Target("main.py", str(path), SETTINGS), text.encode())
    return {finding.code for finding in findings if finding.code.startswith(code)}


@pytest.mark.parametrize("forward", OUTPUTS.values(), ids=list(OUTPUTS))
def test_loss_of_a_half_output(forward: str, tmp_path: Path) -> None:
    assert "AMP408" in told(LOOP.format(forward=forward), tmp_path)


def test_loss_of_an_output_in_float32(tmp_path: Path) -> None:
    forward = f"with {REGION}: out = model(x)\n        out = out[0].float() if amp else out.float()"
    assert "AMP408" not in told(LOOP.format(forward=forward), tmp_path)


@pytest.mark.parametrize(("steps", "codes"), STEPS.items(), ids=range(len(STEPS)))
def test_several_optimizers(steps: str, codes: set[str], tmp_path: Path) -> None:
    found = told(OPTIMIZERS.format(steps=steps), tmp_path, "AMP2")
    assert found - {"AMP203", "AMP211"} == codes


@pytest.mark.parametrize(("lines", "wrong"), MADE.items(), ids=range(len(MADE)))
def test_float32_made_of_whole_numbers(lines: str, wrong: bool, tmp_path: Path) -> None:
    assert ("AMP502" in told(EMBEDDINGS.format(lines=lines), tmp_path)) is wrong


@pytest.mark.parametrize(("line", "name"), DEVICES.items(), ids=range(len(DEVICES)))
def test_device_by_its_value(line: str, name: str | None, tmp_path: Path) -> None:
    moved = line.partition(" ")[0]
    work = f'def work(model, x):\n    with torch.autocast("cuda"):\n        return model(x.to({moved}))\n'
    assert ("AMP106" in told(f"import torch\n\n{line}\n\n\n{work}", tmp_path)) is (name is not None)


@pytest.mark.parametrize(("positions", "wrong"), POSITIONS.items(), ids=range(len(POSITIONS)))
def test_positions_in_the_dtype_of_another(positions: str, wrong: bool, tmp_path: Path) -> None:
    head = "import torch\nfrom torch import nn\n\nclass P(nn.Module):\n    def forward(self, x):\n"
    text = f"{head}        return {positions} * 4\n"
    assert ("AMP406" in told(text, tmp_path)) is wrong


@pytest.mark.parametrize(("guarded", "wrong"), GUARDS.items(), ids=range(len(GUARDS)))
def test_guards_of_what_a_layer_is_given(guarded: str, wrong: bool, tmp_path: Path) -> None:
    head = "import torch\nfrom torch import nn\n\nclass P(nn.Module):\n    def forward(self, x, y):\n        "
    text = head + (guarded if "return" in guarded else f"return {guarded}") + "\n"
    assert ("AMP402" in told(text, tmp_path)) is wrong


def test_own_weights_behind_a_region(tmp_path: Path) -> None:
    inside = 'with torch.autocast("cuda", dtype=torch.float16): h = self.proj(x)'
    assert "AMP502" in told(EMBEDDINGS.format(lines=f"{inside}\n        return self.proj(h)"), tmp_path)
    assert "AMP502" not in told(EMBEDDINGS.format(lines=f"{inside}\n        return self.proj(h.float())"), tmp_path)


def test_helper_without_a_word_of_the_topic(tmp_path: Path) -> None:
    text = (
        "import torch\n\ndef lowered(noise):\n    return -torch.log(noise)\n\n"
        "def gumbel(size):\n    return lowered(torch.rand(size, dtype=torch.bfloat16))\n"
    )
    assert "AMP414" in told(text, tmp_path)


@pytest.mark.parametrize(
    ("drawn", "wrong"),
    {
        "torch.rand_like(x) > 0.001": True,
        "torch.rand(x.shape, dtype=x.dtype, device=x.device) < 0.001": True,
        "torch.rand(x.shape, device=x.device) < 0.001": False,
        "torch.rand_like(x, dtype=torch.float32) < 0.001": False,
        "torch.rand_like(x.float()) < 0.001": False,
        "torch.rand_like(x) == 1": False,
    }.items(),
)
def test_random_numbers_in_the_dtype_of_another(drawn: str, wrong: bool, tmp_path: Path) -> None:
    head = "import torch\nfrom torch import nn\n\nclass P(nn.Module):\n    def forward(self, x):\n"
    assert ("AMP414" in told(f"{head}        return x * ({drawn})\n", tmp_path)) is wrong


def test_block_of_a_manager_forgets_nothing(tmp_path: Path) -> None:
    text = LOOP.format(forward="with half(): out = model(x)").replace("        scaler.update()\n", "")
    manager = f"\nimport contextlib\n\n@contextlib.contextmanager\ndef half():\n    with {REGION}:\n        yield\n"
    assert "AMP203" in told(text + manager, tmp_path)
