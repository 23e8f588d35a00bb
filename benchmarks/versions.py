"""Runs the tests of the tracer on several versions of PyTorch, one after the other.

    python -m benchmarks.versions [--versions "2.6.0 2.9.1 2.13.0 2.15.0"] [--folder FOLDER] [TEST ...]

Each version is installed by pip into an environment of its own in FOLDER, beside what the running Python has, and
removed again. Off the index of CPU builds that is a build with CUDA, of several GB; a driver is not needed. TEST are
arguments of pytest, `tests/trace/test_dry_*.py` unless given.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
VERSIONS = "2.6.0 2.9.1 2.13.0 2.15.0"
_BUILD = "import torch; print(torch.__version__, torch.backends.cudnn.is_available(), torch.cuda.is_available())"


def run(version: str, folder: Path, tests: list[str]) -> tuple[str, str, str, str]:
    """Build of PyTorch, whether it has cuDNN, whether there is a GPU, and the last line of pytest."""
    with tempfile.TemporaryDirectory(prefix=f"torch-{version}-", dir=folder) as place:
        venv.create(place, with_pip=True, symlinks=True)
        python = Path(place, "Scripts" if os.name == "nt" else "bin", "python")
        install = [str(python), "-m", "pip", "install", "--quiet", "--no-cache-dir", f"torch=={version}"]
        subprocess.run(install, check=True)
        own = next(Path(place).rglob("site-packages"))
        outer = [path for path in sys.path if "site-packages" in path]
        behind = "".join(f"import site; site.addsitedir({path!r})\n" for path in outer)
        (own / "zz-outer.pth").write_text(behind)
        build = subprocess.run([python, "-c", _BUILD], capture_output=True, text=True, check=True).stdout.split()
        command = [python, "-m", "pytest", "-n0", "-q", "-rfEs", *tests]
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip().splitlines()
        print("\n".join(line for line in said if line.startswith(("FAILED", "ERROR", "SKIPPED"))))
        return build[0], build[1], build[2], said[-1]


def main(arguments: Iterable[str] | None = None) -> None:
    """Parse the command line, test the versions, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", default=VERSIONS, help="versions of PyTorch, with spaces between them")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where they are installed")
    parser.add_argument("tests", nargs="*", help="arguments of pytest")
    options = parser.parse_args(list(arguments) if arguments is not None else None)
    tests = options.tests or sorted(str(path) for path in ROOT.glob("tests/trace/test_dry_*.py"))

    table = Table("PyTorch", "cuDNN", "GPU", "tests", box=box.SIMPLE)
    for version in options.versions.split():
        table.add_row(*run(version, options.folder, tests))
    Console(width=120).print(table, markup=False)


if __name__ == "__main__":
    main()
