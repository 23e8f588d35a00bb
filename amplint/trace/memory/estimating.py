"""Estimates of all variants of a script, each in a process of its own, two at a time."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from amplint.trace.memory.estimates import Estimate, Variant

_AT_A_TIME = 2
_CHILD = """
import sys
sys.path[0] = sys.path[0] or sys.prefix  # not the current folder, whose modules would come before all others
from amplint.trace.memory.child import main
main()
"""


def estimates(
    script: str,
    arguments: Sequence[str],
    variants: Sequence[Variant],
    gpu: str,
    *,
    module: bool = False,
    done: Callable[[str], None] = lambda _: None,
) -> list[Estimate]:
    """The peak of each variant on the GPU of this name; `done` hears the name of each. Output is thrown away.

    Where the first, which is the script as it is, cannot be run, the others are not tried.
    """

    def one(variant: Variant) -> Estimate:
        request = {
            "variant": asdict(variant),
            "script": script,
            "arguments": list(arguments),
            "gpu": gpu,
            "module": module,
        }
        found = _run(variant, json.dumps(request))
        done(variant.name)
        return found

    first, *others = variants
    found = [one(first)]
    if found[0].refused:
        return found + [Estimate(each.name, refused="the script does not run as it is") for each in others]
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return found + list(pool.map(one, others))


def _run(variant: Variant, request: str) -> Estimate:
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "estimate.json"
        command = [sys.executable, "-c", _CHILD, request, str(result)]
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if result.exists():
            return Estimate.from_json(result.read_text(encoding="utf-8"))
        last = ran.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        ended = f"the process ended with status {ran.returncode}"
        return Estimate(variant.name, refused=f"{ended}: {last}" if last else ended)
