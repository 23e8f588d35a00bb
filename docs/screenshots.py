"""Pictures of amplint at work on the shipped examples: terminal output as SVG, the page of a trace as PNG.

    python -m docs.screenshots [NAME ...]

The page wants Chromium, and is left as it is where there is none.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
WIDTH = 100
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Shot:
    """Commands whose last one is shown, and how many of its lines."""

    commands: tuple[str, ...]
    lines: int = 60


SHOTS = {
    "finding": Shot(("amplint examples/train.py --select clip-without-unscale",)),
    "diff": Shot(("amplint --diff examples/train.py",)),
    "convert": Shot(("amplint convert --to amp examples/float32.py",)),
    "trace": Shot(
        (
            "cp examples/train.py my_train.py",
            "amplint --fix my_train.py",
            "amplint trace --dry-run --steps 1 my_train.py --epochs 1",
        ),
        33,
    ),
}
PAGE = "amplint trace --dry-run --steps 1 --html trace.html my_train.py --epochs 1"


def execute(command: str, folder: Path) -> str:
    """What `command`, of amplint or `cp`, prints in `folder`, with colours. Raises RuntimeError where amplint fails."""
    program, *arguments = command.split()
    run = [program, *arguments]
    if program == "amplint":
        start = "import sys; from amplint.cli.main import main; main(sys.argv[1:])"
        run = [sys.executable, "-W", "ignore", "-c", start, *arguments]
    settings = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": str(WIDTH), "PYTHONWARNINGS": "ignore"}
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | settings
    done = subprocess.run(
        run,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    if done.returncode > 1 or "Traceback" in done.stdout:
        raise RuntimeError(f"{command}: {done.stdout}")
    return done.stdout


def taken(shot: Shot) -> Text:
    """The last command of `shot` at a prompt and what it prints."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        printed = [execute(command, folder) for command in shot.commands][-1]
    lines = printed.rstrip().splitlines()
    more = ["…"] if len(lines) > shot.lines else []
    return Text.from_ansi("\n".join([f"$ {shot.commands[-1]}", *lines[: shot.lines], *more]))


def drawn(text: Text, name: str) -> str:
    """`text` as SVG that loads nothing: the fonts are those of the machine that shows it."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(text)
    svg = console.export_svg(title="amplint", theme=MONOKAI, unique_id=f"amplint-{name}")
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\n?", "", svg, flags=re.DOTALL).replace("Fira Code", "ui-monospace")
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


def photographed(path: Path, browser: str) -> None:
    """Write the upper part of the page of a trace to `path`."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(ROOT / "examples" / "train.py", folder / "my_train.py")
        execute("amplint --fix my_train.py", folder)
        execute(PAGE, folder)
        with sync_playwright() as playwright:
            window = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
            page = window.new_page(viewport={"width": 1000, "height": 930})
            page.goto((folder / "trace.html").as_uri())
            page.screenshot(path=str(path))
            window.close()


def main(names: list[str]) -> None:
    """Take the pictures of these names, or all."""
    IMAGES.mkdir(exist_ok=True)
    for name, shot in SHOTS.items():
        if not names or name in names:
            (IMAGES / f"{name}.svg").write_text(drawn(taken(shot), name), encoding="utf-8")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is not None and (not names or "trace-page" in names):
        photographed(IMAGES / "trace-page.png", browser)


if __name__ == "__main__":
    main(sys.argv[1:])
