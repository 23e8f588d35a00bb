"""Measures on a real GPU what amplint says without one, and writes it as a page.

    python -m benchmarks.gpu [--output docs/gpu.md] [--rounds N] [--parts tests,dtypes,memory,overhead]

- tests: the tests that are marked `gpu`.
- dtypes: ten scripts, traced on the GPU and in a dry run of it; of each (phase, operator, line) the dtypes.
- memory: five models, `torch.cuda.max_memory_allocated()` beside what `amplint memory` says.
- overhead: `benchmarks.trace` on the GPU, for steps of about 5, 20 and 100 ms.

On a machine without a CUDA device it says so and exits with status 1; `--device cpu` runs the parts that can, for tests
of this script, and writes nothing to docs.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch

import amplint
from amplint.trace.gpus import GPUS
from amplint.trace.memory.estimates import variants
from amplint.trace.memory.estimating import estimates
from amplint.trace.record import Record
from benchmarks import trace

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted((ROOT / "tests" / "trace" / "planted").glob("clean_*.py"))[:10]
MODELS = [
    *(f"tests/trace/trained/{name}.py" for name in ("mlp", "cnn", "transformer")),
    *(f"benchmarks/gpu_models/{name}.py" for name in ("language_model", "unet")),
]
TITLES = {
    "tests": "## Tests that need a GPU",
    "dtypes": "## Dtypes, against a dry run",
    "memory": "## Memory, against estimates",
    "overhead": "## What watching costs",
}
HEAD = """\
# On a GPU

What amplint says of a GPU without one, measured on one. On a machine with a CUDA device,

```sh
python -m benchmarks.gpu --output docs/gpu.md
```

writes this page: it runs the tests that are marked `gpu`; traces ten scripts on the GPU and in a dry run, and compares
the dtypes of each phase, operator and line; compares `torch.cuda.max_memory_allocated()` of five models with what
`amplint memory` says of them; and measures what `amplint.trace.watch` adds to steps of about 5, 20 and 100 ms.
`--parts dtypes,memory` measures some of it. Without a CUDA device it says so and ends with status 1.
"""
SIZES: dict[str, Callable[[], trace.Made]] = {
    "CNN, about 5 ms": lambda: trace.cnn(256),
    "CNN, about 20 ms": lambda: trace.cnn(2048),
    "CNN, about 100 ms": lambda: trace.cnn(12288),
    "transformer, about 5 ms": lambda: trace.transformer(2, 512, 8, 128),
    "transformer, about 20 ms": lambda: trace.transformer(8, 1024, 16, 256),
    "transformer, about 100 ms": lambda: trace.transformer(12, 1024, 64, 512),
}
"""Models whose steps take about so long on an H100; the page says how long they took."""
WAYS = ("plain", "amplint, dtypes", "amplint, numerics sampled", "amplint, all numerics", "DebugMode", "profiler")

Dtypes = tuple[tuple[str, ...], tuple[str, ...]]
Rows = dict[tuple[str, str, str, int], set[Dtypes]]


def rows(record: Record) -> Rows:
    """Phase, operator and line -> the dtypes of inputs and outputs that ran there."""
    found: Rows = defaultdict(set)
    for each in record.operations:
        found[each.phase, each.op, each.filename, each.row].add((each.inputs, each.outputs))
    return found


def alike(real: Record, dry: Record) -> tuple[int, int, list[str]]:
    """How many rows both records have, how many of them have the same dtypes, and what differs.

    A GPU's kernels have operators of their own, so what only one of the records has is left out.
    """
    one, other = rows(real), rows(dry)
    both = sorted(one.keys() & other.keys())
    differ = [row for row in both if one[row] != other[row]]
    return len(both), len(both) - len(differ), [f"{row[0]} {row[1]}, {Path(row[2]).name}:{row[3]}" for row in differ]


def record_of(program: Path, *options: str) -> Record:
    """The record of two steps of `program`. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "record.json")
        command = [sys.executable, "-m", "amplint", "trace", "--steps", "2", "--skip", "0", "--numerics", "off", "-q"]
        subprocess.run(
            [*command, *options, "--output", str(output), str(program)], capture_output=True, check=True, cwd=folder
        )
        return Record.from_json(output.read_text(encoding="utf-8"))


def pretended() -> str:
    """The GPU of amplint's that is most like the one at hand, by its name, then by what it can do."""
    if not torch.cuda.is_available():
        return "a100"
    name, capability = torch.cuda.get_device_name().lower(), torch.cuda.get_device_capability()
    return min(GPUS, key=lambda each: (each not in name, GPUS[each].capability != capability, each))


def measured_peak(program: Path) -> int:
    """What `torch.cuda.max_memory_allocated()` says at the end of `program`, which prints it. Raises."""
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, check=True)
    return int(ran.stdout.split()[-1])


def part_tests() -> Iterator[str]:
    """The outcome of the tests marked `gpu`."""
    command = [sys.executable, "-m", "pytest", "-n0", "-q", "-m", "gpu", "-o", "addopts=", "tests/trace"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    yield f"`pytest -m gpu`: {ran.stdout.strip().rpartition(chr(10))[2].strip('= ')}"


def part_dtypes(device: str) -> Iterator[str]:
    """A table of scripts."""
    yield from _table("script", "rows of both", "alike", "what differs")
    for program in PROGRAMS:
        try:
            real = record_of(program, *([] if device == "cuda" else ["--dry-run"]))
            both, same, differ = alike(real, record_of(program, "--dry-run", "--gpu", pretended()))
        except subprocess.CalledProcessError as failure:
            yield _row(program.stem, "", "", _last_line(failure.stderr))
        else:
            yield _row(program.stem, both, same, "; ".join(differ))


def part_memory(device: str) -> Iterator[str]:
    """A table of models; without a GPU nothing is allocated."""
    yield from _table("model", "allocated, MiB", "estimated, MiB", "of it", "workspaces in it, MiB")
    for model in MODELS:
        path = ROOT / model
        (estimate,) = estimates(str(path), [], variants(4)[:1], pretended())
        estimated, workspaces = (f"{size / 2**20:.1f}" for size in (estimate.total, estimate.peak.get("workspaces", 0)))
        try:
            real = measured_peak(path) if device == "cuda" else 0
        except subprocess.CalledProcessError as failure:
            yield _row(path.stem, _last_line(failure.stderr), estimated, "", workspaces)
        else:
            share = f"{estimate.total / real:.1%}" if real else ""
            yield _row(path.stem, f"{real / 2**20:.1f}", estimate.refused or estimated, share, workspaces)


def part_overhead(device: str, rounds: int) -> Iterator[str]:
    """A table of ways to look into a step."""
    clock = time.perf_counter if device == "cuda" else time.process_time
    yield from _table("a step of", "ms", *WAYS[1:])
    for title, make in SIZES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            steps = {name: trace.training(make, device) for name in WAYS}
            found = trace.measure(steps, rounds, clock, lambda _: None)
        yield _row(title, f"{1000 * found['plain'][0]:.1f}", *(f"x{found[name][1]:.2f}" for name in WAYS[1:]))


def versions(device: str) -> str:
    """What the page was measured with."""
    gpu = torch.cuda.get_device_name() if device == "cuda" else "no GPU"
    parts = (
        f"amplint {amplint.__version__}",
        f"PyTorch {torch.__version__}",
        f"CUDA {torch.version.cuda}",
        f"Python {platform.python_version()}",
        gpu,
        time.strftime("%d %B %Y", time.gmtime()),
    )
    return ", ".join(parts)


def page(sections: dict[str, list[str]], device: str) -> str:
    """The page, with a section for each part that ran."""
    head = [HEAD, f"Measured with {versions(device)}.", ""]
    return "\n".join([*head, *(line for name, lines in sections.items() for line in (TITLES[name], "", *lines, ""))])


def main(arguments: Iterable[str] | None = None) -> int:
    """Parse the command line, measure, write the page; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="the page to write (default: to print it)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each way to look into a step (default: 7)")
    parser.add_argument("--parts", default=",".join(TITLES), help=f"of {', '.join(TITLES)} (default: all)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    options = parser.parse_args(list(arguments) if arguments is not None else None)
    wanted = options.parts.split(",")
    if unknown := sorted({*wanted} - TITLES.keys()):
        parser.error(f"no part is called {', '.join(unknown)}")
    if options.device == "cuda" and not torch.cuda.is_available():
        print(f"no CUDA device that PyTorch {torch.__version__} can use: nothing is measured", file=sys.stderr)
        return 1
    run: dict[str, Callable[[], Iterator[str]]] = {
        "tests": part_tests,
        "dtypes": lambda: part_dtypes(options.device),
        "memory": lambda: part_memory(options.device),
        "overhead": lambda: part_overhead(options.device, options.rounds),
    }
    sections: dict[str, list[str]] = {}
    for name in wanted:
        print(f"{name} ...", file=sys.stderr)
        sections[name] = [*run[name]()]
    text = page(sections, options.device)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


def _last_line(said: bytes) -> str:
    return said.decode(errors="replace").strip().rpartition("\n")[2].replace("|", "\\|")


def _table(*cells: str) -> Iterator[str]:
    yield _row(*cells)
    yield _row(*("---" for _ in cells))


def _row(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


if __name__ == "__main__":
    sys.exit(main())
