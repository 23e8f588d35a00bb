"""The page of a run in a real browser, offline: it says what the record says, and its tables sort and filter."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from amplint.reports.page.document import page as written
from amplint.trace.findings import findings
from tests.trace import records

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]


@dataclass
class Seen:
    """A page that is open in the browser, and what went on there meanwhile."""

    page: Page
    noises: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: self.noises.append(message.text))
        self.page.on("pageerror", lambda error: self.noises.append(str(error)))
        self.page.on("dialog", lambda dialog: self.noises.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless browser."""
    path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(_BROWSERS)}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the record written by hand."""
    folder = tmp_path_factory.mktemp("page")
    record = records.record(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        text = written(record, findings(record))
    (folder / "page.html").write_text(text, encoding="utf-8")
    return folder / "page.html"


@pytest.fixture
def seen(browser: Browser, path: Path) -> Iterator[Seen]:
    """The page, open without a network."""
    context = browser.new_context(offline=True)
    seen = Seen(context.new_page())
    seen.page.goto(path.as_uri())
    yield seen
    assert seen.requests == [path.as_uri()]
    assert seen.noises == []
    context.close()


def test_the_page_says_what_the_record_says(seen: Seen) -> None:
    page = seen.page
    expect(page).to_have_title("train.py · amplint trace")
    for section in page.locator("section").all():
        expect(section).to_be_visible()
        expect(section.locator("h2")).to_be_visible()
    assert page.locator("section").count() == 12
    expect(page.locator("header")).to_contain_text("3 steps on cpu · PyTorch 2.13.0 · numerics: full")
    expect(page.locator("#findings .finding")).to_have_count(2)
    expect(page.locator("#findings .message").first).to_have_text(
        f"mm ran in float32, 24 times, in a region of float16 ({records.EVIL})"
    )
    page.locator("#findings .where a").first.click()
    row = page.locator("#source tr:target")
    assert row.locator("td.row").inner_text() == str(records.PRODUCT)
    assert row.locator(".chip").all_inner_texts() == ["f32 in region", "f16→f32"]
    assert row.locator("td.time").inner_text() == "60 %"
    assert row.locator("code").inner_text() == "    mm(x.float(), model.mix, out=out)"
    stem = page.locator("#source tr", has=page.locator("td.row", has_text=str(records.STEM)))
    assert stem.locator("td.chips").all_inner_texts() == ["f16f32→f16", "f16"]
    assert page.locator("#source code").all_inner_texts()[3] == records.SOURCE.splitlines()[records.NOTE - 1]
    assert page.locator("#nonfinite tbody td").all_inner_texts() == [
        *("3", f"train.py:{records.STEM}", "inf", "mul", "backward", records.EVIL, "float16", "65536", "finite")
    ]
    assert page.locator("#losses tbody td").all_inner_texts()[5:8] == ["1000", "3 %", "0.2 %"]
    page.locator("#steps summary").click()
    assert page.locator("#steps tbody tr").last.locator("td").all_inner_texts() == [
        *("3", f"train.py:{records.STEP}", "scaler 1", "AdamW", "unscaled", "65536", "skipped", "32768", "0")
    ]
    for plot in page.locator("figure svg").all():
        expect(plot).to_be_visible()
        assert plot.get_attribute("aria-label")
    assert page.locator("figure svg").count() == 11
    expect(page.locator("#exponents svg").nth(2)).to_contain_text("times 65536")


def test_the_text_of_others_runs_nowhere(seen: Seen) -> None:
    assert seen.page.locator("script").count() == 1
    assert seen.page.locator("img").count() == 0
    script = "const script = document.createElement('script'); script.text = 'window.ran = 1';"
    seen.page.evaluate(f"{script} document.body.append(script)")
    assert seen.page.evaluate("window.ran") is None
    assert all("Content Security Policy" in noise for noise in seen.noises)
    seen.noises.clear()


def test_operations_sort_and_filter(seen: Seen) -> None:
    page = seen.page
    table = page.locator("table.operations")

    def column(number: int) -> list[str]:
        return [row.locator("td").nth(number).inner_text() for row in table.locator("tbody tr:visible").all()]

    assert column(4)[:3] == ["60 %", "30 %", "10 %"]
    table.get_by_role("button", name="count").click()
    assert column(3) == ["48", "48", "24", "24", "24", "24", "3"]
    expect(table.locator("th", has_text="count")).to_have_attribute("aria-sort", "descending")
    table.get_by_role("button", name="count").click()
    assert column(3)[0] == "3"
    table.get_by_role("button", name="operator").press("Enter")
    assert column(1) == sorted(column(1))
    assert table.locator("[aria-sort]").count() == 1
    page.get_by_label("backward").check()
    assert (column(0), column(1)) == (["backward"], ["mm"])
    page.get_by_label("all").check()
    assert len(column(0)) == 7


@pytest.mark.parametrize("width", [390, 1440])
def test_what_matters_is_on_the_screen(seen: Seen, width: int) -> None:
    page = seen.page
    page.set_viewport_size({"width": width, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for part in (".verdict", ".tiles .value >> nth=0"):
        box = page.locator(part).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 600
    for part in ("#source code >> nth=2", "#findings .message >> nth=0", "#exponents svg >> nth=0"):
        box = page.locator(part).bounding_box()
        assert box is not None
        assert 0 <= box["x"] < box["x"] + box["width"] <= width
    contents, verdict = page.locator("nav").bounding_box(), page.locator(".verdict").bounding_box()
    assert contents is not None
    assert verdict is not None
    beside = contents["x"] + contents["width"] <= verdict["x"]
    assert beside if width == 1440 else contents["y"] > verdict["y"]


def test_the_page_is_read_in_the_dark_on_small_screens_and_on_paper(seen: Seen) -> None:
    page = seen.page
    colours = "[getComputedStyle(document.documentElement).backgroundColor, getComputedStyle(document.body).color]"
    light = page.evaluate(colours)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(colours) == ["rgb(23, 25, 27)", "rgb(228, 229, 227)"] != light
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    page.emulate_media(color_scheme="light", media="print")
    expect(page.locator("nav")).to_be_hidden()
    assert page.pdf().startswith(b"%PDF")
