"""What starting amplint costs: the heavy libraries are loaded only when a file needs them."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAMS = {
    "import amplint": "import amplint",
    "amplint --help": "main(['--help'])",
    "amplint --version": "main(['--version'])",
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("library", ["torch", "libcst", "rich", "concurrent.futures"])
def test_starting_does_not_load(name: str, library: str) -> None:
    program = PROGRAMS[name]
    if "main" in program:
        program = f"from amplint.cli.main import main\ntry: {program}\nexcept SystemExit: pass"
    program = f"import sys\n{program}\nprint(*sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert library not in done.stderr.split()
