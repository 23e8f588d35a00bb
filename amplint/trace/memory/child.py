"""Process that runs the variants of a script: PyTorch is loaded once, and each variant is a fork."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from amplint.trace.gpus import GPUS
from amplint.trace.memory.estimates import Estimate, Variant
from amplint.trace.memory.running import estimate, tracked
from amplint.trace.memory.tracker import Tracker
from amplint.trace.run import NoScript

_AT_A_TIME = 2


def main() -> None:
    """Run the request in the first argument of the process, in JSON, and print one estimate per line as each is ready.

    A single variant runs in this process. Of several, those that do not change the regions are not run again, and if
    the first, which is the script as it is, fails, the others are not tried. Takes over the process.
    """
    request = json.loads(sys.argv[1])
    variants = [Variant(**each) for each in request["variants"]]
    output = os.dup(sys.stdout.fileno())
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    for found in [_found(request, variants[0])] if len(variants) == 1 else _all(request, variants):
        os.write(output, f"{found.to_json()}\n".encode())


def _all(request: Any, variants: Sequence[Variant]) -> Iterator[Estimate]:
    _load(request["gpu"])
    (first,) = _forked(request, variants[:1])
    yield first
    others = []
    for each in variants[1:]:
        if first.refused:
            yield Estimate(each.name, refused="the script does not run as it is")
        elif each.autocast and each.autocast == first.autocast:
            yield replace(first, variant=each.name)
        else:
            others.append(each)
    yield from _forked(request, others)


def _load(gpu: str) -> None:
    """Import what every variant needs. No gradient is computed, which could start threads, lost in a fork."""
    with tracked(Variant(""), GPUS[gpu], Tracker(GPUS[gpu])):
        torch.nn.functional.gelu(torch.zeros(2**17, device="cuda") + 1)
    gc.collect()
    gc.freeze()


def _forked(request: Any, variants: Sequence[Variant]) -> Iterator[Estimate]:
    """The estimates of `variants`, each from a fork of this process, in the order of completion."""
    left = [*variants]
    running: dict[int, tuple[Variant, Path]] = {}
    with tempfile.TemporaryDirectory() as folder:
        while left or running:
            while left and len(running) < _AT_A_TIME:
                variant = left.pop(0)
                written = Path(folder, str(len(left)))
                process = os.fork()
                if not process:
                    _run(request, variant, written)
                running[process] = variant, written
            process, status = os.wait()
            if process in running:
                variant, written = running.pop(process)
                yield _read(variant, written, os.waitstatus_to_exitcode(status))


def _run(request: Any, variant: Variant, written: Path) -> None:
    """Write the estimate of a variant, and the standard error of the script, and end the process."""
    try:
        os.dup2(os.open(f"{written}.err", os.O_WRONLY | os.O_CREAT), 2)
        written.write_text(_found(request, variant).to_json(), encoding="utf-8")
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(1)


def _read(variant: Variant, written: Path, status: int) -> Estimate:
    if written.exists():
        return Estimate.from_json(written.read_text(encoding="utf-8"))
    said = Path(f"{written}.err").read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
    ended = f"the process ended with status {status}"
    return Estimate(variant.name, refused=f"{ended}: {said}" if said else ended)


def _found(request: Any, variant: Variant) -> Estimate:
    _seed()
    try:
        return estimate(
            request["script"], request["arguments"], variant, GPUS[request["gpu"]], module=request["module"]
        )
    except NoScript as failure:
        return Estimate(variant.name, refused=str(failure).removeprefix(f"{request['script']}: "))


def _seed() -> None:
    """Seed all variants alike, so that batches of an unseeded script differ in nothing but the variant."""
    random.seed(0)
    torch.manual_seed(0)
    with contextlib.suppress(ImportError):
        import_module("numpy").random.seed(0)
