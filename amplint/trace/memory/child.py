"""One variant in a process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

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
    try:
        found = estimate(asked["script"], asked["arguments"], variant, GPUS[asked["gpu"]], module=asked["module"])
    except NoScript as failure:
        found = Estimate(variant.name, refused=str(failure))
    Path(result).write_text(found.to_json(), encoding="utf-8")
