"""Compares what `amplint trace` costs with PyTorch's own ways to look into a step, on a CNN and a transformer.

    python -m benchmarks.trace [--rounds N] [--threads N] [--device cpu|cuda] [--growth STEPS]

Every way runs the same training steps in bfloat16 autocast, on models of its own. The ways alternate within a round, so
that a busy moment of the machine does not hit one of them alone; of each the fastest step counts. `--growth` watches
that many further steps of a small model and prints how much memory the process has gained.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn import functional as F
from torch.utils._debug_mode import DebugMode
from torch.utils.flop_counter import FlopCounterMode

import amplint.trace

Step = Callable[[], None]
Way = Callable[[], contextlib.AbstractContextManager[Any]]

WAYS: dict[str, Way] = {
    "plain": contextlib.nullcontext,
    "amplint, dtypes": lambda: amplint.trace.watch(numerics="off"),
    "amplint, numerics sampled": lambda: amplint.trace.watch(numerics="sample"),
    "amplint, all numerics": lambda: amplint.trace.watch(numerics="full"),
    "FlopCounterMode": lambda: FlopCounterMode(display=False),
    "DebugMode": DebugMode,
    "DebugMode with stacks": lambda: DebugMode(record_stack_trace=True),
    "profiler": torch.profiler.profile,
    "detect_anomaly": torch.autograd.detect_anomaly,
}
STEPS = 3
"""Steps that each way runs in a round; the first is left out, since it sets things up."""


class Block(nn.Module):
    """Two convolutions with a shortcut."""

    def __init__(self, width: int, out: int, stride: int = 1) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(width, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out))
        self.second = nn.Sequential(nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out))
        self.shortcut = nn.Conv2d(width, out, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, width, H, W) -> (N, out, H / stride, W / stride)."""
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


class Transformer(nn.Module):
    """An embedding, four encoder layers and a head over the vocabulary."""

    def __init__(self, words: int = 1000, width: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True) for _ in range(4)
        )
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(N, L) -> (N, words, L)."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x).transpose(1, 2)


def cnn() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A residual network of ten convolutions, 32 images of 32 by 32 pixels, and their classes."""
    blocks = [Block(3, 32), Block(32, 64, 2), Block(64, 128, 2), Block(128, 128)]
    model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))
    return model, torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))


def transformer() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A transformer, 8 texts of 128 tokens, and the tokens to predict."""
    tokens = torch.randint(0, 1000, (8, 128))
    return Transformer(), tokens, tokens


def training(make: Callable[[], tuple[nn.Module, torch.Tensor, torch.Tensor]], device: str) -> Step:
    """A training step of a new model."""
    torch.manual_seed(0)
    model, batch, target = make()
    model, batch, target = model.to(device), batch.to(device), target.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(batch), target)
        loss.backward()
        optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return step


def measure(steps: dict[str, Step], rounds: int, note: Callable[[str], object]) -> dict[str, float]:
    """The seconds of the fastest step of each way."""
    best = dict.fromkeys(steps, float("inf"))
    for number in range(rounds):
        for name, step in steps.items():
            note(f"round {number + 1} of {rounds}: {name}")
            with WAYS[name]():
                for index in range(STEPS):
                    started = time.perf_counter()
                    step()
                    if index:
                        best[name] = min(best[name], time.perf_counter() - started)
    return best


def growth(steps: int) -> float:
    """Megabytes that the process gains while `steps` steps of a small model are watched, after a first hundredth."""
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    before = 0
    with amplint.trace.watch(numerics="sample"):
        for number in range(steps + steps // 100):
            if number == steps // 100:
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(torch.ones(8, 16)).square().mean()
            loss.backward()
            optimizer.step()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main(arguments: Iterable[str] | None = None) -> None:
    """Parse the command line, measure, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each way (default: 7)")
    parser.add_argument("--threads", type=int, help="threads of PyTorch's operators")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--growth", type=int, default=1000, help="steps to watch memory for; 0 leaves it out")
    options = parser.parse_args(list(arguments) if arguments is not None else None)
    if options.threads:
        torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")  # detect_anomaly and the profiler warn each time

    console = Console()
    for make in (cnn, transformer):
        with console.status("") as status:
            best = measure({name: training(make, options.device) for name in WAYS}, options.rounds, status.update)
        table = Table(title=make.__name__, title_justify="left", box=box.SIMPLE)
        table.add_column("a training step under")
        table.add_column("fastest", justify="right")
        table.add_column("of plain", justify="right")
        for name, seconds in best.items():
            table.add_row(name, f"{1000 * seconds:.1f} ms", f"x {seconds / best['plain']:.2f}")
        console.print(table)
    if options.growth:
        console.print(f"memory gained over {options.growth} watched steps: {growth(options.growth):.1f} MB")


if __name__ == "__main__":
    main()
