"""The findings in public repositories that train with mixed precision, kept so that a change of amplint shows there.

    python -m benchmarks.public_findings --repositories FOLDER [--record] [--only TEXT]

FOLDER/owner/name is a plain checkout of each repository in `public_repositories.tsv`, at the commit named there; its
Python files, configuration and `.git` are enough. `--record` writes the findings of the default rules to
`public_findings.tsv`. Otherwise they are compared with that file: what was added and lost is printed by repository, and
the exit status is 1 where there is any of it.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from benchmarks.processes import adopt_orphans, end_group

HERE = Path(__file__).parent
REPOSITORIES = HERE / "public_repositories.tsv"
FINDINGS = HERE / "public_findings.tsv"
COLUMNS = ("repository", "commit", "path", "row", "code")
LIMIT = 300.0
"""Seconds after which linting a repository is given up."""

Row = tuple[str, str, str, int, str]
"""A finding, in the order of `COLUMNS`."""


def repositories() -> dict[str, str]:
    """Name -> commit of the repositories whose findings are kept."""
    with REPOSITORIES.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader((line for line in file if not line.startswith("#")), delimiter="\t")
        return {row["repository"]: row["commit"] for row in rows}


def commit_of(checkout: Path) -> str:
    """The commit that is checked out. Exits where the folder is no checkout."""
    if not (checkout / ".git").exists():
        sys.exit(f"{checkout} is no checkout")
    command = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def lint(name: str, commit: str, folder: Path) -> list[Row]:
    """The findings in one repository. Exits where it is not the recorded commit, or cannot be linted in time."""
    checkout = folder / name
    if (there := commit_of(checkout)) != commit:
        sys.exit(f"{checkout} is at {there}, not at {commit}")
    program = str(Path(sys.executable).parent / "amplint")
    command = [program, "check", "--no-cache", "--quiet", "--output-format", "json", "."]
    process = subprocess.Popen(command, cwd=checkout, stdout=subprocess.PIPE, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        sys.exit(f"{name}: amplint takes more than {LIMIT:.0f} seconds")
    finally:
        end_group(process)
    if process.returncode not in (0, 1):
        sys.exit(f"{name}: amplint ended with {process.returncode}")
    return sorted((name, commit, one["filename"], one["location"]["row"], one["code"]) for one in json.loads(output))


def recorded() -> list[Row]:
    """The findings kept in the file."""
    with FINDINGS.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        return [(row["repository"], row["commit"], row["path"], int(row["row"]), row["code"]) for row in rows]


def record(found: Iterable[Row]) -> None:
    """Keep these findings."""
    with FINDINGS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(found)


def print_changes(name: str, before: list[Row], now: list[Row]) -> int:
    """Print what one repository has gained and lost; how many findings these are."""
    marked = [(row, "+") for row in (Counter(now) - Counter(before)).elements()]
    marked += [(row, "-") for row in (Counter(before) - Counter(now)).elements()]
    if marked:
        print(f"{name}: {len(now)} findings, {len(before)} before")
    for (_, _, path, row, code), mark in sorted(marked):
        print(f"  {mark} {path}:{row} {code}")
    return len(marked)


def processor_time() -> float:
    """Seconds that the processes started here, and theirs, have computed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(arguments: Iterable[str] | None = None) -> None:
    """Parse the command line, lint, record or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repositories", type=Path, required=True, help="folder of the checkouts")
    parser.add_argument("--record", action="store_true", help="keep the findings instead of comparing them")
    parser.add_argument("--only", default="", help="only repositories whose name contains this")
    parser.add_argument("--times", action="store_true", help="print the processor time that each repository takes")
    options = parser.parse_args(list(arguments) if arguments is not None else None)

    adopt_orphans()
    chosen = {name: commit for name, commit in repositories().items() if options.only in name}
    before = recorded() if FINDINGS.exists() else []
    found = [row for row in before if row[0] not in chosen] if options.only else []
    changes = 0
    for name, commit in chosen.items():
        started = processor_time()
        now = lint(name, commit, options.repositories.resolve())
        found += now
        if options.times:
            print(f"{processor_time() - started:8.1f} s  {len(now):4} findings  {name}", flush=True)
        if not options.record:
            changes += print_changes(name, [row for row in before if row[0] == name], now)
    if options.record:
        record(sorted(found))
        print(f"{len(found)} findings in {len({row[0] for row in found})} repositories are kept")
    elif changes:
        sys.exit(f"{changes} findings were added or lost")


if __name__ == "__main__":
    main()
