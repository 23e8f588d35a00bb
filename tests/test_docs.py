"""The documentation says what is so: generated parts are fresh, links lead somewhere, shown code works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from amplint import api
from amplint.cli.check import check
from amplint.cli.convert import convert
from amplint.codemods.registry import GOALS, SOURCES
from docs import generate
from tests.conftest import Command, Plugin
from tests.test_architecture import ROOMS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def code_blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of `text` in `language`."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_generated_parts_are_fresh() -> None:
    wanted = generate.outputs()
    stale = [path.name for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text]
    stale += [path.name for path in set(generate.PAGES.glob("*.md")) - set(wanted)]
    assert not stale, "run `python -m docs.generate`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://", "#")):
            assert (page.parent / target.partition("#")[0]).exists(), target


def test_ci_runs_the_readme_test_command() -> None:
    (block,) = re.findall(r"<!-- test-command -->\n```sh\n(.*?)\n```\n<!-- /test-command -->", README, re.DOTALL)
    assert "pytest" in block
    assert "\n" not in block
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (extraction,) = re.findall(r'^command="\$\((.*)\)"$', script, re.MULTILINE)
    shown = subprocess.run(["bash", "-c", extraction], cwd=ROOT, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == block


@pytest.mark.parametrize("page", ["README.md", "docs/configuration.md"])
def test_configuration_shown_is_valid(page: str, amplint: Command, project: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    (block,) = (text for text in code_blocks(text, "toml") if "[tool.amplint]" in text)
    (project / "amplint.toml").unlink()
    (project / "pyproject.toml").write_text(block, encoding="utf-8")
    shown = amplint("--show-settings", ".")
    assert shown.status == 0, shown.err
    assert "third_party/" in shown.out


def test_plugin_shown_works(amplint: Command, plugin: Plugin, project: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "write-a-rule.md").read_text(encoding="utf-8")
    (rule,) = (text for text in code_blocks(page, "python") if "(Rule)" in text)
    plugin(rule)
    (project / "train.py").write_text("import torch\n\nscaler = torch.amp.GradScaler('cuda')\n", encoding="utf-8")
    found = amplint("check", "--output-format", "concise", "train.py")
    assert found.status == 1, found.err
    assert "train.py:3:10: ACME001[bare-scaler]" in found.out
    shown = amplint("rule", "ACME001")
    assert shown.status == 0
    assert "bare-scaler" in shown.out
    (test,) = (text for text in code_blocks(page, "python") if "def test_bare_scaler" in text)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-c", f"{test}\ntest_bare_scaler()\n"]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("option", [*(f"--to {goal}" for goal in GOALS), *(f"--from {source}" for source in SOURCES)])
def test_users_are_told_of_codemods(option: str) -> None:
    page = (ROOT / "docs" / "codemods.md").read_text(encoding="utf-8").splitlines()
    assert f"## `{option}`" in page, f"docs/codemods.md needs a section with the heading ## `{option}`"
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"`{option}`" in changes, f"CHANGELOG.md needs `{option}` in the item of `amplint convert`"
    line = re.search(rf"^    {option} ", convert.help or "", re.MULTILINE)
    assert line, f"the docstring of `convert` in amplint/cli/convert.py needs a line `{option}`"
    value = option.partition(" ")[2]
    assert f'`"{value}"`' in (api.convert.__doc__ or ""), (
        f'the docstring of `convert` in amplint/api.py needs `"{value}"`'
    )


def test_options_that_ruff_and_amplint_share_exist() -> None:
    text = (ROOT / "docs" / "ruff.md").read_text(encoding="utf-8")
    options = {name for parameter in check.params for name in parameter.opts}
    rows = [re.split(r" ?\| ?", row) for row in re.findall(r"^\| (.*)\|$", text, re.MULTILINE)]
    claimed = {
        name
        for theirs, ours, *_ in rows
        for cell in ([theirs, ours] if "the same" in ours else [ours])
        for name in re.findall(r"`(--[\w-]+)", cell)
    }
    assert len(claimed) > 20
    assert claimed <= options


def test_files_and_functions_of_the_architecture_exist() -> None:
    named = re.findall(r"`([\w/]+\.py)`(?: \| ((?:`\w+`(?:, )?)+) \|)?", ARCHITECTURE)
    assert len(named) > 20
    for file, names in named:
        found = [path for path in (ROOT / file, ROOT / "amplint" / file) if path.exists()]
        assert found, file
        text = found[0].read_text(encoding="utf-8")
        for name in re.findall(r"\w+", names):
            assert re.search(rf"^\s*(def|class) {name}\b", text, re.MULTILINE), f"{file} defines no {name}"


def test_rooms_of_the_architecture_are_in_order() -> None:
    (table,) = re.findall(r"<!-- rooms -->\n(.*?)<!-- /rooms -->", ARCHITECTURE, re.DOTALL)
    rooms = re.findall(r"^\| `(\w+)`", table, re.MULTILINE)
    assert [*reversed(rooms), "__init__"] == [*ROOMS]
