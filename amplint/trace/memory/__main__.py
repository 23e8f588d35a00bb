"""One variant in a process of its own: `python -m amplint.trace.memory REQUEST RESULT`, a JSON text and a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from amplint.trace.gpus import GPUS
from amplint.trace.memory.estimates import Estimate, Variant
from amplint.trace.memory.running import estimate
from amplint.trace.run import NoScript


def main(request: str, result: Path) -> None:
    """Run what `request` says, and write the estimate to `result`."""
    asked = json.loads(request)
    variant = Variant(**asked["variant"])
    try:
        found = estimate(asked["script"], asked["arguments"], variant, GPUS[asked["gpu"]], module=asked["module"])
    except NoScript as failure:
        found = Estimate(variant.name, refused=str(failure))
    result.write_text(found.to_json(), encoding="utf-8")


main(sys.argv[1], Path(sys.argv[2]))
