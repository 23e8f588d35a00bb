"""Compares what `amplint trace` costs with PyTorch's own ways to look into a step, on a CNN and a transformer.

    python -m benchmarks.trace [--rounds N] [--device cpu|cuda] [--only TEXT] [--ways TEXT] [--growth STEPS]

Each model is there in three sizes, whose steps take about 10, 30 and 100 ms on one core. Every way runs the same
training steps in bfloat16 autocast, on models of its own. The ways alternate within a round, so that a busy moment of
the machine does not hit one of them alone; the CPU time of the process counts (on a GPU, time), and of each way the
median over all rounds of its ratio to the plain step. `extra` is what a way adds, relative to what DebugMode adds.
`--growth` watches that many further steps of a small model and prints how much memory the process has gained.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import time
import warnings
from collections.abc import Callable, Iterable
from statistics import median
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
    "amplint, outside the window": lambda: amplint.trace.watch(skip=10**9),
    "amplint, beside float32": lambda: amplint.trace.watch(compare_float32=True),
    "FlopCounterMode": lambda: FlopCounterMode(display=False),
    "DebugMode": DebugMode,
    "DebugMode with stacks": lambda: DebugMode(record_stack_trace=True),
    "profiler": torch.profiler.profile,
    "detect_anomaly": torch.autograd.detect_anomaly,
}
STEPS = 4
"""Steps that each way runs in a round; the first is left out, since it sets things up."""
REFERENCE = "DebugMode"


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
    """An embedding, encoder layers and a head over the vocabulary."""

    def __init__(self, layers: int, width: int, words: int = 1000) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True) for _ in range(layers)
        )
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(N, L) -> (N, words, L)."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x).transpose(1, 2)


Made = tuple[nn.Module, torch.Tensor, torch.Tensor]


def cnn(images: int) -> Made:
    """A residual network of twelve convolutions, so many images of 32 by 32 pixels, and their classes."""
    blocks = [Block(3, 32), Block(32, 64, 2), Block(64, 128, 2), Block(128, 128)]
    model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))
    return model, torch.randn(images, 3, 32, 32), torch.randint(0, 10, (images,))


def transformer(layers: int, width: int, texts: int, length: int) -> Made:
    """A transformer, so many texts of so many tokens, and the tokens to predict."""
    tokens = torch.randint(0, 1000, (texts, length))
    return Transformer(layers, width), tokens, tokens


SIZES: dict[str, Callable[[], Made]] = {
    "CNN, about 10 ms": lambda: cnn(1),
    "CNN, about 30 ms": lambda: cnn(9),
    "CNN, about 100 ms": lambda: cnn(36),
    "transformer, about 10 ms": lambda: transformer(2, 128, 1, 64),
    "transformer, about 30 ms": lambda: transformer(4, 256, 1, 64),
    "transformer, about 100 ms": lambda: transformer(4, 256, 4, 128),
}


def training(make: Callable[[], Made], device: str) -> Step:
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


def measure(
    steps: dict[str, Step], rounds: int, clock: Callable[[], float], note: Callable[[str], object]
) -> dict[str, tuple[float, float]]:
    """The median seconds of a step of each way, and the median over rounds of its ratio to the plain step."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds):
        for name, step in steps.items():
            note(f"round {number + 1} of {rounds}: {name}")
            seconds = []
            with WAYS[name]():
                for _ in range(STEPS):
                    started = clock()
                    step()
                    seconds.append(clock() - started)
            taken[name].append(median(seconds[1:]))
    plain = taken["plain"]
    return {
        name: (median(each), median(one / other for one, other in zip(each, plain, strict=True)))
        for name, each in taken.items()
    }


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
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch's operators (default: 1)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", default="", help="sizes whose name has this text")
    parser.add_argument("--ways", default="", help="ways whose name has this text, beside the plain step")
    parser.add_argument("--growth", type=int, default=1000, help="steps to watch memory for; 0 leaves it out")
    options = parser.parse_args(list(arguments) if arguments is not None else None)
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")  # detect_anomaly and the profiler warn each time

    console = Console()
    clock = time.process_time if options.device == "cpu" else time.perf_counter
    ways = [name for name in WAYS if name == "plain" or options.ways in name]
    for title, make in SIZES.items():
        if options.only not in title:
            continue
        with console.status("") as status:
            steps = {name: training(make, options.device) for name in ways}
            found = measure(steps, options.rounds, clock, status.update)
        table = Table(title=title, title_justify="left", box=box.SIMPLE)
        table.add_column("a training step under")
        for head in ("median", "of plain", "extra"):
            table.add_column(head, justify="right")
        most = found.get(REFERENCE, (0.0, 1.0))[1] - 1
        for name, (seconds, ratio) in found.items():
            extra = f"{(ratio - 1) / most:.2f}" if most > 0 else ""
            table.add_row(name, f"{1000 * seconds:.1f} ms", f"x {ratio:.2f}", extra)
        console.print(table)
    if options.growth:
        console.print(f"memory gained over {options.growth} watched steps: {growth(options.growth):.1f} MB")


if __name__ == "__main__":
    main()
