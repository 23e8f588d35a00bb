"""Findings that a file has when it is linted alone, and that are lost where it is linted inside its repository.

    python -m benchmarks.alone --repositories FOLDER [--only TEXT] [--codes CODE,CODE]

Each folder FOLDER/owner/name is a repository. Seeing more must never find less: each line that is printed is either a
finding that the rest of the repository shows to be wrong, or something that amplint loses on the way there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from amplint.engine.screen import follows
from benchmarks.processes import run

LIMIT = 300.0
"""Seconds after which linting a repository is given up."""

Place = tuple[str, int, str]
"""The path of a file inside its repository, a row and the code of what is found there."""


def lint(folder: Path, paths: Iterable[Path], codes: str) -> list[tuple[Place, str]] | None:
    """What is found in `paths` below `folder` with what is said of it; None where that takes too long."""
    program = str(Path(sys.executable).parent / "amplint")
    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "findings.json"
        options = ["check", "--no-cache", "--quiet", "--select", codes, "--output-format", "json", "-o", str(output)]
        cost = run([program, *options, *map(str, paths)], folder, LIMIT)
        if cost.ended or not output.exists():
            return None
        found = json.loads(output.read_text(encoding="utf-8"))
    return [((one["filename"], one["location"]["row"], one["code"]), one["message"]) for one in found]


def training_files(repository: Path) -> list[Path]:
    """The Python files that other files of the tree may complete, below `repository`."""
    paths = (path for path in sorted(repository.rglob("*.py")) if path.is_file() and not path.is_symlink())
    return [path.relative_to(repository) for path in paths if follows(path.read_bytes())]


def found_alone(repository: Path, paths: Iterable[Path], codes: str) -> list[tuple[Place, str]] | None:
    """What is found in each of `paths` where nothing else is there to be seen."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, path in enumerate(paths):
            place = folder / f"file-{number}" / path
            place.parent.mkdir(parents=True)
            shutil.copyfile(repository / path, place)
        found = lint(folder, [Path(".")], codes)
    if found is None:
        return None
    return [((path.partition("/")[2], row, code), message) for (path, row, code), message in found]


def lost(alone: Iterable[tuple[Place, str]], inside: Iterable[tuple[Place, str]]) -> list[tuple[Place, str]]:
    """What is `alone` and not `inside`."""
    there = Counter(place for place, _ in inside)
    left: list[tuple[Place, str]] = []
    for place, message in alone:
        there[place] -= 1
        if there[place] < 0:
            left.append((place, message))
    return left


def main(arguments: Iterable[str] | None = None) -> None:
    """Parse the command line, lint each repository twice and print what is lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repositories", type=Path, required=True, help="folder of the repositories")
    parser.add_argument("--only", default="", help="only repositories whose name contains this")
    parser.add_argument("--codes", default="ALL", help="only these rules")
    options = parser.parse_args(list(arguments) if arguments is not None else None)

    repositories = sorted(path for path in options.repositories.resolve().glob("*/*") if path.is_dir())
    for repository in repositories:
        name = f"{repository.parent.name}/{repository.name}"
        if options.only not in name:
            continue
        paths = training_files(repository)
        alone, inside = found_alone(repository, paths, options.codes), lint(repository, paths, options.codes)
        if alone is None or inside is None:
            print(f"{name}: more than {LIMIT:.0f} seconds", flush=True)
            continue
        left = lost(alone, inside)
        print(f"{name}: {len(alone)} alone, {len(inside)} inside, {len(left)} lost", flush=True)
        for (path, row, code), message in left:
            print(f"  {path}:{row} {code} {message}", flush=True)


if __name__ == "__main__":
    main()
