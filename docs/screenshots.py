"""Pictures of amplint at work on the shipped examples: terminal output as SVG, pages of traces as PNG.

    python -m docs.screenshots [NAME ...]

Pages want Chromium, and are left as they are where there is none.
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
from typing import Literal

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


@dataclass(frozen=True)
class Photo:
    """The page that `command` makes of an example, in a window of a size, scrolled to a `section` of it."""

    command: str
    size: tuple[int, int]
    section: str = ""
    dark: bool = False


_OVERFLOW = "amplint trace -q --html trace.html overflow.py"
PHOTOS = {
    "trace-page": Photo("amplint trace -q --dry-run --steps 1 --html trace.html my_train.py --epochs 1", (1280, 900)),
    "page-nan": Photo(_OVERFLOW, (1440, 900)),
    "page-phone": Photo(_OVERFLOW, (390, 844), "source", dark=True),
    "page-long": Photo(
        "amplint trace -q --dry-run --every 8 --html trace.html my_train.py --epochs 63", (1440, 900), "steps"
    ),
}
_COLOURS = 256
"""Those of a page are few, and a picture with a palette is a third of one without."""


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


def photographed(photo: Photo, path: Path, browser: str) -> None:
    """Write a picture of a page to `path`."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(ROOT / "examples" / "overflow.py", folder)
        shutil.copy(ROOT / "examples" / "train.py", folder / "my_train.py")
        execute("amplint --fix my_train.py", folder)
        execute(photo.command, folder)
        with sync_playwright() as playwright:
            window = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
            width, height = photo.size
            scheme: Literal["dark", "light"] = "dark" if photo.dark else "light"
            page = window.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(f"{(folder / 'trace.html').as_uri()}#{photo.section}")
            taken = Image.open(io.BytesIO(page.screenshot()))
            window.close()
        taken.convert("RGB").quantize(_COLOURS).save(path, optimize=True)


def main(names: list[str]) -> None:
    """Take the pictures of these names, or all."""
    IMAGES.mkdir(exist_ok=True)
    for name, shot in SHOTS.items():
        if not names or name in names:
            (IMAGES / f"{name}.svg").write_text(drawn(taken(shot), name), encoding="utf-8")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    for name, photo in PHOTOS.items():
        if browser is not None and (not names or name in names):
            photographed(photo, IMAGES / f"{name}.png", browser)


if __name__ == "__main__":
    main(sys.argv[1:])
