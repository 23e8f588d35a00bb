"""What starting amplint costs: the heavy libraries are loaded only when a file needs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PROGRAMS = {
    "import amplint": "import amplint",
    "amplint --help": "main(['--help'])",
    "amplint --version": "main(['--version'])",
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("library", ["torch", "libcst", "rich", "concurrent.futures", "mcp"])
def test_starting_does_not_load(name: str, library: str) -> None:
    program = PROGRAMS[name]
    if "main" in program:
        program = f"from amplint.cli.main import main\ntry: {program}\nexcept SystemExit: pass"
    program = f"import sys\n{program}\nprint(*sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert library not in done.stderr.split()


@pytest.mark.parametrize("arguments", [[], ["--diff", "--unsafe-fixes"]])
def test_findings_and_repairs_need_no_libcst(arguments: list[str]) -> None:
    script = ROOT / "fixtures" / "AMP201-double-unscale" / "bad_same_iteration.py"
    assert script.exists()
    program = f"""
import sys
from amplint.cli.main import main
try: main(["check", "--no-cache", *{arguments!r}, {str(script)!r}])
except SystemExit as ended: assert ended.code == 1, ended.code
print(*sorted(sys.modules), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = done.stderr.split()
    assert not [name for name in loaded if name.startswith("libcst.")]
    assert not {
        "amplint.api",
        "amplint.reports.sarif",
        "amplint.reports.junit",
        "amplint.notebooks.magics",
        "xml",
    } & set(loaded)


def test_notebooks_need_no_libcst(tmp_path: Path) -> None:
    script = ROOT / "fixtures" / "AMP201-double-unscale" / "bad_same_iteration.py"
    lines = ["!ls\n", *script.read_text(encoding="utf-8").splitlines(keepends=True)]
    cells = [{"cell_type": "code", "source": lines}]
    (tmp_path / "train.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}}), encoding="utf-8")
    program = f"""
import sys
from amplint.cli.main import main
try: main(["check", "--no-cache", "--fix", {str(tmp_path / "train.ipynb")!r}])
except SystemExit as ended: assert ended.code == 0, ended.code
print(*sorted(sys.modules), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not [name for name in done.stderr.split() if name.startswith("libcst.")]
