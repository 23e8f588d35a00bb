"""Runs amplint, torchfix, ruff and fixit over amplint's fixtures, and counts the planted mistakes that each remarks on.

    python -m benchmarks.fixtures [--peers FOLDER]

The fixtures were written for amplint, and its tests hold that it finds all of them: its own row says nothing but that
the count is right. The others' rows say what they see of the same mistakes.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks.linters import COMMANDS, installed

FIXTURES = Path(__file__).parents[1] / "fixtures"
OFF_BY_DEFAULT = "AMP9"
_FINDING = re.compile(r"(fixtures/\S+?\.py)[:@](\d+):\d+:? ([\w-]+)")
_EXPECTED = re.compile(r"# expect: (.*)$")


def planted(folder: Path) -> set[tuple[str, int]]:
    """File and line of each mistake that is on by default."""
    return {
        (path.relative_to(folder.parent).as_posix(), number)
        for path in folder.rglob("bad_*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (found := _EXPECTED.search(line)) and not found[1].startswith(OFF_BY_DEFAULT)
    }


def main() -> None:
    """Print a row for each tool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, help="the folder of the programs of the other tools")
    peers = parser.parse_args().peers
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "fixtures"
        shutil.copytree(FIXTURES, folder, ignore=shutil.ignore_patterns("__pycache__", "*.md"))
        mistakes = planted(folder)
        print(f"{len(mistakes)} planted lines")
        for tool, command in COMMANDS.items():
            run = installed(command, peers)
            if run is None:
                print(f"{tool}: not installed")
                continue
            done = subprocess.run([*run, "fixtures"], cwd=name, capture_output=True, text=True, check=False)
            found = [(file, int(line), code) for file, line, code in _FINDING.findall(done.stdout)]
            hits = sorted({(file, line, code) for file, line, code in found if (file, line) in mistakes})
            right = sum(Path(file).name.startswith("good_") for file, _, _ in found)
            print(
                f"{tool}: {len({(file, line) for file, line, _ in hits})} planted lines, {len(found)} findings, "
                f"{right} of them in right programs"
            )
            for file, line, code in [] if tool == "amplint" else hits:
                print(f"  {file}:{line} {code}")


if __name__ == "__main__":
    main()
