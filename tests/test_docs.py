"""The documentation says what is so: generated parts are fresh, links lead somewhere, shown code works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs import generate

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def code_blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of `text` in `language`."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def amplint(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in `cwd`."""
    program = "import sys; from amplint.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


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


def test_configuration_of_the_readme_is_valid(tmp_path: Path) -> None:
    (block,) = (text for text in code_blocks(README, "toml") if "[tool.amplint]" in text)
    (tmp_path / "pyproject.toml").write_text(block, encoding="utf-8")
    (tmp_path / "train.py").write_text("print('nothing to find')\n", encoding="utf-8")
    done = amplint("check", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_plugin_of_the_readme_works(tmp_path: Path) -> None:
    (rule,) = (text for text in code_blocks(README, "python") if "(Rule)" in text)
    (entry_point,) = (text for text in code_blocks(README, "toml") if "entry-points" in text)
    name, module = re.findall(r'^(\w+) = "(\w+)"$', entry_point, re.MULTILINE)[-1]
    (tmp_path / f"{module}.py").write_text(rule, encoding="utf-8")
    metadata = tmp_path / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(f"[amplint.rules]\n{name} = {module}\n", encoding="utf-8")
    script = "import torch\n\nscaler = torch.amp.GradScaler('cuda')\n"
    (tmp_path / "train.py").write_text(script, encoding="utf-8")

    done = amplint("check", "--output-format", "concise", "train.py", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "train.py:3:10: ACME001" in done.stdout
    page = amplint("rule", "ACME001", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert page.returncode == 0
    assert "bare-scaler" in page.stdout
