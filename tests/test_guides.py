"""The guides' commands do what the pages say, in their order, and the pictures show what they print."""

from __future__ import annotations

import html
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import screenshots
from tests.trace.forked import python

ROOT = Path(__file__).parents[1]
GUIDES = ["first-five-minutes", "convert-a-loop", "read-a-trace"]
_NETWORK = re.compile(r"<!-- network -->.*?<!-- /network -->", re.DOTALL)
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^(?:.*<<'(\w+)'\n(?:.*\n)*?\1|.+)$", re.MULTILINE)
_DRAWN = re.compile(r"<text [^>]*>(.*?)</text>")


def commands(page: str) -> Iterator[str]:
    """The commands of a guide that need no network; one may go on over lines until the end of its input."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    for block in _BLOCK.findall(_NETWORK.sub("", text)):
        yield from (found[0] for found in _COMMAND.finditer(block))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The variables of a shell in which the virtual environment is active, with caches and settings of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTHON"))}
    folders = {"XDG_CACHE_HOME": "cache", "PRE_COMMIT_HOME": "hooks", "HOME": "home"}
    (tmp_path / "home").mkdir()
    path = os.pathsep.join([str(Path(sys.executable).parent), kept["PATH"]])
    return {**kept, "PATH": path, **{name: str(tmp_path / folder) for name, folder in folders.items()}}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="hooks need git")
@pytest.mark.parametrize("page", GUIDES)
def test_commands_of_a_guide_work(page: str, tmp_path: Path, environment: dict[str, str]) -> None:
    folder = tmp_path / "amplint"
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    ran = 0
    for command in commands(page):
        plain = command.removesuffix(" || true")
        if plain.startswith("cd "):
            folder = (folder / plain[3:]).resolve()
            continue
        if plain.startswith("amplint "):
            done = python(folder, environment, "-m", *shlex.split(plain))
        else:
            shell = ["bash", "-euo", "pipefail", "-c", plain]
            done = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == (plain != command), f"{command}\n{done.stdout}\n{done.stderr}"
        ran += 1
    assert ran >= 6


@pytest.mark.parametrize("name", screenshots.SHOTS)
def test_a_picture_loads_nothing(name: str) -> None:
    svg = (ROOT / "docs" / "images" / f"{name}.svg").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"\s<)]+", svg)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|@font-face|<script|<image|href=", svg)


@pytest.mark.parametrize("name", ["finding", "diff", "convert"])
def test_a_picture_shows_what_is_printed(name: str) -> None:
    svg = (ROOT / "docs" / "images" / f"{name}.svg").read_text(encoding="utf-8")
    shown = "".join(html.unescape(text) for text in _DRAWN.findall(svg))
    printed = screenshots.taken(screenshots.SHOTS[name]).plain
    assert re.sub(r"\s", "", printed) in re.sub(r"\s", "", shown), "run `python -m docs.screenshots`"


def test_pages_show_the_pictures() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    for image in (ROOT / "docs" / "images").iterdir():
        assert f"images/{image.name})" in text, image.name
        assert image.stat().st_size < 200_000
