"""Whether large source trees that nobody wrote for amplint are linted to their end, and at what cost.

    python -m benchmarks.sources FOLDER...

Each folder is linted with every rule, in one process of its own that keeps whatever it keeps for all files. A row of
Markdown tells of each: files, exit status, findings, defects of amplint (AMP003), notices
that a file was not followed to its end (AMP005), processor seconds, those of the slowest file, and peak memory. The
exit status is 1 where a folder is not linted to its end, a defect shows, or a bound is passed.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from amplint.cli.main import main as amplint
from amplint.engine import run
from amplint.engine.analyse import Analysis
from amplint.engine.job import Job
from amplint.engine.modules import Modules

FILE_S = 10.0
"""Processor seconds that one file may take."""
MEMORY_MB = 1_000
COLUMNS = ("tree", "files", "exit", "findings", "AMP003", "AMP005", "CPU s", "slowest", "MB")


def lint(folder: str) -> None:
    """Lint `folder` in this process and print what it came to as JSON."""
    seconds: dict[str, float] = {}
    analyse = run.analyse

    def timed(job: Job, modules: Modules) -> Analysis:
        started = time.process_time()
        analysis = analyse(job, modules)
        seconds[job.path] = time.process_time() - started
        return analysis

    run.analyse = timed
    run.cores = lambda: 1  # keeps everything in this process
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "findings.json")
        options = ["--no-cache", "--quiet", "--select", "ALL", "--output-format", "json", "-o", str(report)]
        status = 0
        try:
            amplint(["check", *options, folder])
        except SystemExit as end:
            status = int(end.code or 0)
        codes = Counter(found["code"] for found in json.loads(report.read_text(encoding="utf-8")))
    slowest = max(seconds, key=seconds.__getitem__, default="")
    came_to = {
        "status": status,
        "findings": codes.total(),
        "AMP003": codes["AMP003"],
        "AMP005": codes["AMP005"],
        "seconds": time.process_time(),
        "slowest": slowest,
        "most": seconds.get(slowest, 0.0),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(json.dumps(came_to))


def measured(folder: str) -> bool:
    """Print the row of a folder; whether everything holds of it."""
    ran = subprocess.run([sys.executable, "-m", __spec__.name, "--one", folder], stdout=subprocess.PIPE, check=False)
    if ran.returncode:
        print(f"| {folder} | not linted to its end: exit status {ran.returncode} |", flush=True)
        return False
    one = json.loads(ran.stdout)
    files = sum(1 for _ in Path(folder).rglob("*.py"))
    row = (
        folder, f"{files:,}", one["status"], f"{one['findings']:,}", one["AMP003"],
        one["AMP005"], f"{one['seconds']:.0f}", f"{one['most']:.1f} ({Path(one['slowest']).name})", one["memory"],
    )  # fmt: skip
    print(f"| {' | '.join(map(str, row))} |", flush=True)
    kept = one["status"] in (0, 1) and not one["AMP003"]
    return kept and one["most"] < FILE_S and one["memory"] < MEMORY_MB


def main(arguments: Iterable[str] | None = None) -> int:
    """Measure each of the folders that are named."""
    folders = list(sys.argv[1:] if arguments is None else arguments)
    if not folders:
        print(__doc__)
        return 2
    if folders[0] == "--one":
        lint(folders[1])
        return 0
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    kept = [measured(folder) for folder in folders]
    return int(not all(kept))


if __name__ == "__main__":
    sys.exit(main())
