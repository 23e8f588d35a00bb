"""Runs training scripts of others through `amplint trace --dry-run`, with random data and otherwise as they are.

    python -m benchmarks.dry_run --repositories FOLDER [--only TEXT] [--output FOLDER] [--options "--steps 2 --skip 0"]

`benchmarks/dry_run_scripts.py` lists the scripts. Their repositories lie in FOLDER/owner/name, as `git clone` puts them
there; of those that are missing the commands are printed that fetch them. Each script runs in a copy of its repository,
with its own command line, on files of random data that are written there and with `benchmarks/random_data` in front of
what is installed. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from amplint.trace.findings import findings
from amplint.trace.record import Record
from benchmarks.dry_run_scripts import COMMITS, SCRIPTS, Script

_DATA = Path(__file__).parent / "random_data" / "dist-packages"
"""The name of the folder tells the tracer that this is no code of the user's."""
_FAILURE = re.compile(r"^(?:\[rank0\]: )?[\w.]*(?:Error|Exception|CannotFollow|Interrupt|Exit)\b.*", re.MULTILINE)
_WIDTH = 200
_ENDED = 124
"""The exit status of a run that took too long, as of timeout(1)."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended: its exit status, recorded steps, wall time in seconds, and what was said."""

    status: int
    steps: int
    seconds: float
    said: str


def run(script: Script, repository: Path, output: Path, options: list[str], limit: float) -> Outcome:
    """Run `script` in a copy of `repository`; its log and its record are written to `output`."""
    record, log = output / f"{script.name}.json", output / f"{script.name}.log"
    command = [sys.executable, "-m", "amplint", "trace", "--dry-run", *options, "--output", str(record)]
    record.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as scratch, log.open("wb") as said:
        copy = Path(scratch, repository.name)
        shutil.copytree(repository, copy, ignore=shutil.ignore_patterns(".git"))
        folder = copy / script.folder
        paths = [str(_DATA), os.environ.get("PYTHONPATH", ""), str(copy)]
        for name, write in script.data.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path)
        start = time.perf_counter()
        ends = os.openpty()  # some ask how wide their terminal is
        try:
            status = subprocess.run(
                [*command, *shlex.split(script.trace), *script.command],
                cwd=folder,
                stdin=ends[1],
                stdout=said,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    "MPLBACKEND": "Agg",
                    **script.environment,
                    "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                },
                timeout=limit,
            ).returncode
        except subprocess.TimeoutExpired:
            status = _ENDED
        finally:
            for end in ends:
                os.close(end)
        seconds = time.perf_counter() - start
    seen = Record.from_json(record.read_text()) if record.exists() else Record()
    return Outcome(status, seen.steps, seconds, _told(status, seen, log.read_text(errors="replace")))


def _told(status: int, record: Record, log: str) -> str:
    """Why the run failed, otherwise how often each check found something."""
    if status == _ENDED:
        return "took too long"
    if status:
        failures = _FAILURE.findall(log) or log.splitlines() or [""]
        return textwrap.shorten(failures[-1], _WIDTH)
    codes = Counter(found.code for found in findings(record))
    return ", ".join(f"{code} x{count}" if count > 1 else code for code, count in sorted(codes.items()))


def main(arguments: Iterable[str] | None = None) -> None:
    """Parse the command line, run the scripts, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repositories", type=Path, required=True, help="folder of the repositories")
    parser.add_argument("--only", default="", help="run the scripts whose names hold this")
    parser.add_argument("--output", type=Path, help="folder for the log and the record of each run")
    parser.add_argument("--options", default="--steps 2 --skip 0", help="options of amplint trace")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a run is ended")
    options = parser.parse_args(list(arguments) if arguments is not None else None)

    console = Console()
    console.width = max(console.width, 120)
    table = Table(box=box.SIMPLE)
    for heading in ("script", "exit status", "steps", "seconds", "said"):
        table.add_column(heading, justify="left" if heading in ("script", "said") else "right")
    missing: set[str] = set()
    with tempfile.TemporaryDirectory() as scratch, console.status("") as status:
        output = (options.output or Path(scratch)).resolve()
        output.mkdir(parents=True, exist_ok=True)
        for script in SCRIPTS:
            repository = options.repositories.resolve() / script.repository
            if options.only not in script.name:
                continue
            if not repository.is_dir():
                missing.add(script.repository)
                continue
            status.update(script.name)
            outcome = run(script, repository, output, shlex.split(options.options), options.limit)
            row = (str(outcome.status), str(outcome.steps), f"{outcome.seconds:.0f}", outcome.said)
            table.add_row(script.name, *row)
    if table.row_count:
        console.print(table, markup=False)
    for name in sorted(missing):
        folder = shlex.quote(str(options.repositories / name))
        print(f"git clone https://github.com/{name} {folder} && git -C {folder} checkout {COMMITS[name]}")


if __name__ == "__main__":
    main()
