"""The site builds strictly, loads nothing from elsewhere, is found by search, and its playground has all it needs."""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from docs.screenshots import BROWSERS

ROOT = Path(__file__).parents[1]
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
NOT_LOADED = {"canonical", "next", "prev", "alternate"}


class _Loaded(HTMLParser):
    """What a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        address = given.get(LOADING.get(tag, ""))
        if address and not (tag == "link" and given.get("rel") in NOT_LOADED):
            self.addresses.add(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {name: value for name, value in os.environ.items() if name != "PYODIDE"}
    environment["NO_MKDOCS_2_WARNING"] = "1"
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless browser."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser, address: str) -> Iterator[BrowserContext]:
    """Pages that may ask this server and nobody else."""
    context = browser.new_context()
    elsewhere: list[str] = []
    context.on("request", lambda request: None if request.url.startswith(address) else elsewhere.append(request.url))
    yield context
    context.close()
    assert not elsewhere


@pytest.mark.slow
def test_every_page_is_built_and_in_the_navigation(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix("").as_posix()
        assert (site / name / "index.html").exists() or name == "index", name
        assert f'href="{name}/"' in text or name == "index", name


@pytest.mark.slow
def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 90
    for page in pages:
        loaded = _Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        assert not [each for each in loaded.addresses if re.match(r"(https?:)?//", each)], page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", style.read_text(encoding="utf-8")), style


@pytest.mark.slow
def test_a_rules_page_shows_programs_that_were_run(site: Path) -> None:
    text = (site / "rules" / "AMP205" / "index.html").read_text(encoding="utf-8")
    assert "Programs that were run" in text
    assert text.count("<details") == 6
    assert "expect: AMP205" in text
    words = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "expect: AMP205" not in words, "programs would hide what is written about them"


@pytest.mark.slow
@pytest.mark.parametrize(("words", "found"), [("unscale twice", "rules/AMP201/"), ("AMP402", "rules/AMP402/")])
def test_search_finds_a_rule(context: BrowserContext, address: str, words: str, found: str) -> None:
    page = context.new_page()
    page.goto(address)
    page.click("input.md-search__input")
    page.locator("input.md-search__input").press_sequentially(words)
    expect(page.locator(f"a.md-search-result__link[href*='{found}']").first).to_be_attached()


@pytest.mark.slow
@pytest.mark.parametrize("path", ["", "rules/", "rules/AMP205/", "playground/", "comparison/", "first-five-minutes/"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_fits_a_phone(context: BrowserContext, address: str, path: str, scheme: str) -> None:
    page = context.new_page()
    noises: list[str] = []
    page.on("console", lambda message: noises.append(message.text))
    page.on("pageerror", lambda error: noises.append(str(error)))
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(address + path)
    expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate" if scheme == "dark" else "default")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert not noises


@pytest.fixture
def archive(tmp_path: Path, site: Path) -> Path:
    """What the playground unpacks."""
    folder = tmp_path / "packages"
    with zipfile.ZipFile(site / "playground" / "amplint.zip") as packed:
        packed.extractall(folder)
    return folder


@pytest.mark.slow
def test_the_playground_needs_only_python(site: Path, archive: Path, tmp_path: Path) -> None:
    script = (site / "playground" / "session.py").read_text(encoding="utf-8")
    example = (ROOT / "examples" / "train.py").read_text(encoding="utf-8")
    plain = (ROOT / "examples" / "float32.py").read_text(encoding="utf-8")
    asked = [("lint", example), ("fix", example), ("convert", plain), ("lint", "def")]
    program = (
        f"import sys; sys.path.insert(0, {str(archive)!r}); sys.platform = 'emscripten'\n{script}\n"
        f"for question, code in {asked!r}:\n    print(answer(question, code))\n"
        "import threading; assert threading.active_count() == 1\n"
    ).replace("from __future__ import annotations\n", "")
    command = [sys.executable, "-I", "-S", "-W", "error", "-c", program]  # without anything that is installed
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    linted, fixed, converted, broken = map(json.loads, done.stdout.splitlines())
    assert linted["told"] == "Findings: 6."
    assert "AMP205 clip-without-unscale [error]" in linted["text"]
    assert (fixed["told"], fixed["text"]) == ("Fixed: 6.", "Nothing found.")
    assert "scaler.unscale_(optimizer)" in fixed["code"]
    assert converted["told"] == "Converted."
    assert "torch.autocast" in converted["code"]
    assert "AMP001" in broken["text"]


def _pressed(page: Page, name: str) -> None:
    page.click(f"#{name}")
    expect(page.locator("#lint")).to_be_enabled()


@pytest.mark.slow
def test_the_playground_asks_its_worker(context: BrowserContext, address: str) -> None:
    """The page with a worker that echoes, since Pyodide is no part of the repository."""
    echo = """onmessage = ({ data }) => postMessage(
      data.what === "convert" ? { failure: "<b>gone</b>" }
      : { told: data.what, text: "<img src=x onerror=alert(1)>" + data.code.length, code: data.code + "#" });"""
    context.route("**/playground/worker.js", lambda route: route.fulfill(content_type="text/javascript", body=echo))
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    page = context.new_page()
    page.goto(f"{address}playground/")
    page.wait_for_load_state("networkidle")
    assert not [each for each in asked if "worker.js" in each or "pyodide" in each or "amplint.zip" in each]
    page.fill("#code", "1")
    _pressed(page, "lint")
    expect(page.locator("#state")).to_have_text("lint")
    expect(page.locator("#result")).to_have_text("<img src=x onerror=alert(1)>1")
    expect(page.locator("#code")).to_have_value("1#")
    _pressed(page, "convert")
    expect(page.locator("#result")).to_have_text("<b>gone</b>")
    expect(page.locator("#fix")).to_be_disabled()
    _pressed(page, "lint")
    expect(page.locator("#state")).to_have_text("lint")
