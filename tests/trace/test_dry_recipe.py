"""The workflow in docs/dry-run.md does what it says: its commands run as they are written."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from amplint.trace.record import Record
from tests.trace.forked import python
from tests.trace.test_command import environment

ROOT = Path(__file__).parents[2]
(RECIPE,) = re.findall(
    r"^```yaml\n(.*?)^```$", (ROOT / "docs" / "dry-run.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
)
COMMANDS = [shlex.split(command) for command in re.findall(r"- run: (.*)", RECIPE)]


@pytest.mark.parametrize(("example", "status"), [("segment.py", 0), ("train.py", 1)])
def test_the_recipe_traces_a_script(tmp_path: Path, example: str, status: int) -> None:
    shutil.copy(ROOT / "examples" / example, tmp_path / "train.py")
    (command,) = (words for words in COMMANDS if words[0] == "amplint")
    ran = python(tmp_path, environment(), "-m", *command)
    assert ran.returncode == status, ran.stderr
    record = Record.from_json((tmp_path / "trace.json").read_text("utf-8"))
    assert (record.device, record.steps, record.gpu) == ("cuda", 1 - status, "NVIDIA A100-SXM4-80GB")
    kept = re.findall(r"^            (\S+)$", RECIPE, re.MULTILINE)
    assert kept == ["run.html", "trace.json"]
    assert all((tmp_path / name).exists() for name in kept)
    assert ("unsafe to autocast" in ran.stderr) == bool(status)


def test_what_the_recipe_installs_is_there() -> None:
    installed = [words[2] for words in COMMANDS if words[:2] == ["pip", "install"]]
    assert installed == ["torch", "amplint[report]"]
    assert re.search(r"^report = \[", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
