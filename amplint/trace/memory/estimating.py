"""Estimation of all variants of a script in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from amplint.trace.memory.estimates import Estimate, Variant

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
    """The peak of each variant on the GPU of this name; `done` is called with each name. Output is discarded.

    If the first, which is the script as it is, fails, the others are not tried.
    """
    found: dict[str, Estimate] = {}
    for together in [variants] if hasattr(os, "fork") else [[each] for each in variants]:
        if found and found[variants[0].name].refused:
            found |= {each.name: Estimate(each.name, refused="the script does not run as it is") for each in together}
            continue
        request = {
            "variants": [asdict(each) for each in together],
            "script": script,
            "arguments": list(arguments),
            "gpu": gpu,
            "module": module,
        }
        for estimate in _run(json.dumps(request), [each.name for each in together]):
            found[estimate.variant] = estimate
            done(estimate.variant)
    return [found[each.name] for each in variants]


def _run(request: str, names: Sequence[str]) -> Iterator[Estimate]:
    """The estimates that the process prints, and for other `names` how the process ended."""
    left = set(names)
    with tempfile.TemporaryFile() as said:
        command = [sys.executable, "-c", _CHILD, request]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said) as process:
            for line in process.stdout or ():
                estimate = Estimate.from_json(line.decode())
                left.remove(estimate.variant)
                yield estimate
        said.seek(0)
        last = said.read().decode(errors="replace").strip().rpartition("\n")[2]
    ended = f"the process ended with status {process.returncode}"
    for name in sorted(left, key=names.index):
        yield Estimate(name, refused=f"{ended}: {last}" if last else ended)
