"""The page of a run, as text: what stands in it, what does not, and that the user's text stays text."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import math
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from amplint.cli.main import main
from amplint.reports.page.document import page
from amplint.reports.page.labels import labels
from amplint.reports.page.tables import float8, undrawn
from amplint.reports.trace import summary
from amplint.trace.data import SERIES, Divergence, Histogram, NonFinite, Series, digest
from amplint.trace.findings import findings
from amplint.trace.record import Record
from tests.trace import records
from tests.trace.documents import Document

SECTIONS = ["findings", "ranks", "nonfinite", "float32", "source", "modules", "steps", "exponents", "losses"]
SECTIONS += ["float8", "parameters", "updates"]


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    monkeypatch.chdir(tmp_path)
    return records.record(tmp_path)


@pytest.fixture
def plain(record: Record) -> Record:
    """Without what is drawn, which takes time."""
    record.scaler_steps, record.histograms, record.updates, record.series = [], [], [], []
    return record


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of the record as it is."""
    record = records.record(tmp_path_factory.mktemp("page"))
    return page(record, findings(record))


def test_a_page_has_a_section_for_all_that_a_run_shows(record: Record) -> None:
    record.divergences.append(Divergence("count", "forward", "mm", "train.py", 7, "", ((0, "3"), (1, "4"))))
    document = Document(page(record, findings(record)))
    assert document.sections == [*SECTIONS, "operations"]
    assert document.tags >= {"svg", "table", "details"}
    assert len(document.ids) == len(set(document.ids))


def test_memory_has_a_tile_where_it_is_known(plain: Record) -> None:
    assert '<dt>memory</dt><dd class="value">5.00 GiB' in page(plain, []).replace("<wbr>", "")
    plain.memory = None
    assert "<dt>memory</dt>" not in page(plain, [])


def test_sections_without_data_are_left_out() -> None:
    assert Document(page(Record(torch="2.13.0"), [])).sections == ["findings"]


def test_the_first_screen_says_what_matters(text: str) -> None:
    head = text[text.index("<header>") : text.index("</header>")]
    told = [
        head.index(part) for part in ("2026-11-25 15:10:29+01:00", "<h1>train.", 'class="verdict doubtful"', "<dl ")
    ]
    assert told == sorted(told)
    for part in (
        "3 steps on cpu",
        "--note &#39;&lt;b&gt;bold&lt;/b&gt;&#39;",
        "train.py:7",
        "1 of 3",
        "2.5 in step 1",
    ):
        assert part in head
    assert text.index("</header>") < text.index("<nav ") < text.index('<section id="findings">')


def test_a_block_is_called_by_its_file(plain: Record) -> None:
    assert "<title>train.py · amplint trace</title>" in page(replace(plain, command=()), [])
    assert "<title>package.train · amplint trace</title>" in page(replace(plain, command=("-m", "package.train")), [])
    assert "<title>a block that was watched · amplint trace</title>" in page(Record(), [])


def test_what_is_not_drawn_is_explained(plain: Record) -> None:
    def told(what: str, *counts: tuple[int, int]) -> str:
        plain.histograms = [Histogram(what, "w", "float32", 1.0, {}, *count) for count in counts]
        return " ".join(undrawn(plain))

    assert told("gradient", (0, 8), (0, 4)) == (
        "All 12 numbers of gradients that were looked at are inf or NaN: nothing is drawn of them."
    )
    assert told("gradient", (8, 0)).startswith("All 8 numbers of gradients that were looked at are 0: ")
    assert told("gradient", (8, 4)).startswith("Of the 12 numbers of gradients that were looked at 8 are 0 and the oth")
    assert "No optimizer was seen to use gradients: nothing is drawn of them." in told("weight", (0, 1))
    assert told("gradient", (0, 1)) in page(plain, [])
    plain.histograms = [Histogram("gradient", "w", "float32", 1.0, {0: 1}, 0, 3)]
    assert not undrawn(plain)


def test_operands_in_float8(plain: Record) -> None:
    (row,) = float8(plain).rows
    assert (row.amax, row.scale, row.filled) == (None, 0.25, 1.5 / 0.125 / 448)
    assert '<td class="number">inf or NaN</td><td class="number">0.25</td>' in page(plain, [])


def test_lines_of_libraries_stand_beside_the_users(plain: Record) -> None:
    library = "/opt/env/site-packages/timm/layers/mlp.py"
    plain.nonfinite = [replace(plain.nonfinite[0], library=library, library_row=12)]
    text = page(plain, [])
    assert '<span class="via">in timm/<wbr>layers/<wbr>mlp.py:12</span>' in text
    assert text.count('class="via"') == 1


def test_curves_are_drawn_over_long_runs(record: Record) -> None:
    steps = tuple(range(0, 4000, 4))
    halves = Series("underflow", "", "", 0, steps, tuple(step / 4000 for step in steps))
    record.series = [replace(halves, name=f"layer.{number}.weight") for number in range(9)]
    record.series += [
        Series("scale", "scaler 1", "train.py", 1, steps, tuple(2.0 ** (16 + (step // 1000)) for step in steps)),
        Series("skipped", "scaler 1", "train.py", 1, steps, tuple(step // 1000 for step in steps)),
    ]
    record.every, record.taken, record.steps = 4, 4000, 1000
    text = page(record, [])
    assert "The loss scale over the steps, 3 of them skipped" in text
    assert "of each parameter, 9 of them" in text
    assert "1000 steps, one of 4 among 4000 on cpu" in text
    assert "all 9</text>" in text
    assert len(text) < 600_000


def test_labels_are_short_and_each_of_one_file() -> None:
    site = "/opt/env/lib/python3.11/site-packages/transformers/trainer.py"
    here, there = os.path.join(os.getcwd(), "train.py"), "/home/me/project/../project/models/net.py"
    assert labels([here, there, "/home/me/project/run.py", site, "", "<cell 1>"]) == {
        here: "train.py",
        there: "models/net.py",
        "/home/me/project/run.py": "run.py",
        site: "transformers/trainer.py",
        "<cell 1>": "<cell 1>",
    }
    assert labels([here, "/elsewhere/train.py"]) == {here: here, "/elsewhere/train.py": "/elsewhere/train.py"}


def test_a_page_needs_nothing_from_elsewhere(text: str) -> None:
    document = Document(text)
    assert document.links
    assert all(link.startswith("#") and link[1:] in document.ids for link in document.links)
    assert not re.search(r"https?:|url\((?!#)|@import", text)
    assert not document.tags & {"link", "img", "iframe", "object", "base"}


def test_the_text_of_others_stays_text(text: str) -> None:
    document = Document(text)
    (script,) = document.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in document.policy
    assert "default-src 'none'" in document.policy
    assert "alert(" in document.text
    assert "alert(" not in script


def test_what_hides_or_reorders_code_is_shown(record: Record, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(records.SOURCE.replace("x = model", "x\u202e = model"), encoding="utf-8")
    record.histograms.append(Histogram("weight", "a\u202eb$x_1$", "float32", 1.0, {0: 1}, 0, 0))
    text = page(record, findings(record))
    assert "\u202e" not in text
    assert "\\u202e" in text
    assert "a\\u202eb$x_1$</text>" in text


def test_the_same_record_gives_the_same_page(record: Record) -> None:
    again = Record.from_json(record.to_json())
    assert page(again, findings(again)) == page(record, findings(record))


def test_gradients_without_a_scale_are_shown_with_one(plain: Record) -> None:
    plain.histograms = [Histogram("gradient", "w", "float32", 1.0, {-30: 4, -20: 6}, 0, 0)]
    assert "with a loss scale of 65536</text>" in page(plain, [])
    plain.histograms = [Histogram("gradient", "w", "float32", 2.0**20, {-10: 4, 0: 6}, 0, 0)]
    assert "Gradients as carried, times 1048576</text>" in page(plain, [])


@pytest.mark.filterwarnings("error")
def test_numbers_out_of_all_range_are_no_obstacle(record: Record) -> None:
    record.scaler_steps = [replace(step, scale=scale) for step in record.scaler_steps for scale in (0.0, math.inf)]
    record.updates += [replace(update, ratio=ratio) for update in record.updates for ratio in (math.nan, math.inf, 0.0)]
    record.updates.append(replace(record.updates[0], name="other", ratio=None))
    record.histograms += [replace(each, scale=scale) for each in record.histograms for scale in (0.0, math.inf)]
    record.histograms.append(Histogram("gradient", "none", "float32", 1.0, {}, 9, 9))
    extremes = (None, 0.0, 5e-324, 1e308, -1.0)
    for what in SERIES:
        record.series += [
            Series(what, "w", "", 0, (0, 1, 2, 3, 2**62), extremes),
            Series(what, "v", "", 0, (0,), (None,)),
        ]
    Document(page(record, findings(record)))


def test_only_what_lost_something_is_listed(plain: Record) -> None:
    harmless = replace(plain.losses[0], op="harmless", underflowed=0, overflowed=0)
    plain.losses.append(harmless)
    text = page(plain, [])
    assert "Of the 2 kinds of operations that were looked at 1 lost something, and so did 1 other: see" in text
    assert "harmless" not in text
    plain.losses, plain.numerics, plain.nonfinite = [harmless], "sample", []
    said = "Of the 1 kind of operations that were looked at, one operation of eight, none lost something"
    assert f"{said}.</p>" in page(plain, [])
    place = ("mul", "", "train.py", 3, "")
    plain.nonfinite = [NonFinite(0, "forward", *place, "inf", "float16", finite_in_float32=True)]
    assert f"{said}, but 1 other did: see where inf and NaN come from.</p>" in page(plain, [])


def luminance(colour: str) -> float:
    """The relative luminance of `#rrggbb`, as WCAG defines it."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_stands_out_from_its_ground(text: str, theme: int) -> None:
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", re.findall(r":root \{(.*?)\}", text, re.DOTALL)[theme]))
    letters = ("ink", "muted", "link", "bad", "f16", "bf16", "f32", "keyword", "string", "comment", "number")
    grounds = [(letter, "paper") for letter in letters] + [(dtype, f"{dtype}-back") for dtype in ("f16", "bf16", "f32")]
    for letter, ground in [*grounds, ("ink", "shade"), ("muted", "shade")]:
        low, high = sorted(luminance(colours[each]) for each in (letter, ground))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (letter, ground)


def test_long_stretches_without_operations_are_left_out(text: str) -> None:
    assert "scaler.step" not in text
    assert "PADDING" not in text
    assert text.count('class="gap"') == 1


def test_what_is_on_no_line_of_the_user(record: Record, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    operations = {replace(op, filename="", row=0): count for op, count in record.operations.items()}
    held = [replace(each, filename="", row=0, dtype="float16") for each in record.held]
    nowhere = Record(steps=1, operations=Counter(operations), held=held)
    Document(page(nowhere, findings(nowhere)))
    (tmp_path / "trace.json").write_text(nowhere.to_json(), encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["trace", "report", "trace.json"])
    out, err = capsys.readouterr()
    assert not err
    assert "elsewhere" in out
    assert "AMP807" in out


def test_a_source_that_is_gone(plain: Record, tmp_path: Path) -> None:
    (tmp_path / "train.py").unlink()
    text = page(plain, findings(plain))
    assert "This file cannot be read here" in text
    assert "f32 in region" in text


def test_a_source_that_has_changed(plain: Record, tmp_path: Path) -> None:
    plain.sources[str(tmp_path / "train.py")] = digest(records.SOURCE.encode())
    assert "has changed since" not in page(plain, []) + summary(plain, [])
    (tmp_path / "train.py").write_text("\n" + records.SOURCE, encoding="utf-8")
    assert "This file has changed since it ran" in page(plain, [])
    assert "  train.py has changed since; its lines may be others" in summary(plain, [])


def test_pages_of_many_operations_stay_small(record: Record) -> None:
    for operation, count in list(record.operations.items()):
        for number in range(500):
            record.operations[replace(operation, op=f"{operation.op}_{number}")] = count
    record.histograms += [
        Histogram("gradient", f"layer.{number}", "float32", 1.0, {-number % 40 - 30: 5}, 0, 0) for number in range(300)
    ]
    text = page(record, findings(record))
    assert len(text) < 2_000_000
    assert "1507 more rows are left out" in text


def test_a_page_is_written_from_a_record(plain: Record, tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text(plain.to_json(), encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["trace", "report", "-q", "--html", "page.html", "trace.json"])
    assert ended.value.code == 0
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page(plain, findings(plain))


@pytest.mark.parametrize("command", [["trace", "train.py"], ["trace", "report", "trace.json"]], ids=" ".join)
def test_what_is_missing_is_told_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jinja2" else found(name))
    with pytest.raises(SystemExit) as ended:
        main([*command[:-1], "--html", "page.html", command[-1]])
    assert ended.value.code == 2
    assert capsys.readouterr() == ("", 'Error: --html needs jinja2: pip install "amplint[report]"\n')


def test_the_libraries_of_the_page_are_loaded_for_it_only(tmp_path: Path, record: Record) -> None:
    (tmp_path / "trace.json").write_text(record.to_json(), encoding="utf-8")
    program = "from amplint.cli.main import main\ntry: main(['trace', 'report', 'trace.json'])\nexcept SystemExit: pass"
    program += "\nimport sys\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(done.stderr.split()) & {"jinja2", "matplotlib", "pygments", "numpy", "torch"}
