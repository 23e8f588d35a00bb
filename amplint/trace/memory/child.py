"""One variant in a process of its own."""

from __future__ import annotations

import contextlib
import json
import random
import sys
from importlib import import_module
from pathlib import Path

import torch

from amplint.trace.gpus import GPUS
from amplint.trace.memory.estimates import Estimate, Variant
from amplint.trace.memory.running import estimate
from amplint.trace.run import NoScript


def main() -> None:
    """Run what the first argument of the process says, in JSON, and write the estimate to the file that is the second.

    Takes over the process.
    """
    request, result = sys.argv[1:]
    asked = json.loads(request)
    variant = Variant(**asked["variant"])
    _seed()
    try:
        found = estimate(asked["script"], asked["arguments"], variant, GPUS[asked["gpu"]], module=asked["module"])
    except NoScript as failure:
        found = Estimate(variant.name, refused=str(failure).removeprefix(f"{asked['script']}: "))
    Path(result).write_text(found.to_json(), encoding="utf-8")


def _seed() -> None:
    """All variants draw the same, so that batches of an unseeded script differ in nothing but the variant."""
    random.seed(0)
    torch.manual_seed(0)
    with contextlib.suppress(ImportError):
        import_module("numpy").random.seed(0)
