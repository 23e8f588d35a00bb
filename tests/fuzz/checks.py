"""What must hold of each case, whatever it is made of."""

from __future__ import annotations

import ast
import re
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from amplint.codemods import Wish
from amplint.codemods.files import convert_file
from amplint.engine.cache import Cache
from amplint.engine.config import ConfigError, Settings, load
from amplint.engine.discover import Target
from amplint.engine.fixing import repair
from amplint.engine.linting import lint_files
from amplint.engine.patterns import Patterns
from amplint.engine.projects import Projects
from amplint.engine.registry import load_registry
from amplint.engine.run import Linter
from amplint.findings import Finding
from amplint.reports.context import Context, Sources
from amplint.reports.diff import unified
from amplint.reports.formats import FORMATS
from amplint.reports.ranks import unequal_lines_text
from amplint.reports.trace import summary
from amplint.source.encoding import SourceError, decode, shown_text
from amplint.trace.findings import findings as findings_of
from amplint.trace.record import Record, UnreadableRecord
from tests.chance import Numbers
from tests.fuzz import cases, records

LIMIT_S = 10.0
"""Processor seconds that one case may take."""
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
RULES = load_registry().rules
WISHES = (
    Wish(to="amp"),
    Wish(to="amp", dtype="bfloat16", device="auto"),
    Wish(to="amp", add_flag=True, accumulate=4),
    Wish(accumulate=2),
    Wish(source="cuda-amp"),
    Wish(source="apex"),
    Wish(source="float16"),
    Wish(source="mmcv"),
)
FOLDER = Path("/nowhere")
SETTINGS = Settings(root=FOLDER, select=("ALL",), unsafe_fixes=True)
TARGET = Target("train.py", str(FOLDER / "train.py"), SETTINGS)
NOTEBOOK = Target("train.ipynb", str(FOLDER / "train.ipynb"), SETTINGS)


def linter() -> Linter:
    """A linter with every rule, which remembers nothing."""
    return Linter(Projects(RULES, fixed=SETTINGS), Cache(None))


def parses(raw: bytes) -> bool:
    """Whether this Python takes a file for Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(raw)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def no_defect(found: Sequence[Finding]) -> None:
    """Nothing that amplint reports of itself is among the findings."""
    broken = [finding.message for finding in found if finding.code == "AMP003"]
    assert not broken, broken[0]


def linted(raw: bytes, target: Target = TARGET) -> None:
    """A file is linted and reported in every format; what is shown has no control characters."""
    found = linter().check(target, raw)
    no_defect(found)
    rows = len(re.findall("\r\n|\r|\n", shown_text(raw))) + 2
    for finding in found:
        assert finding.span.start <= finding.span.end, finding
        assert 1 <= finding.span.start.row <= rows or finding.cell, finding
    context = Context(RULES, Sources({target.filename: raw}))
    for name, report in FORMATS.items():
        text = report(found, context)
        assert not CONTROL.search(text), (name, CONTROL.search(text))


@contextmanager
def written(raw: bytes, name: str) -> Iterator[Path]:
    """A file that holds `raw` in a folder of its own, in which nothing else may lie at the end."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, name)
        file.write_bytes(raw)
        yield file
        assert [path.name for path in Path(folder).iterdir()] == [name], "something is left behind"


def repaired(raw: bytes, name: str = TARGET.filename) -> None:
    """A repair is written whole, keeps Python Python, has nothing left to do, and can be shown as a diff."""
    with written(raw, name) as file:
        target = Target(name, str(file), SETTINGS)
        (linted,) = lint_files([target], linter(), fix=True, write=True)
        no_defect(linted.findings)
        once = linted.repaired
        assert file.read_bytes() == (once.after if once is not None and once.fixed else raw), "the file is torn"
    if once is None or once.after == raw:
        return
    assert parses(once.after) or not parses(raw) or name != TARGET.filename, "the repaired file is no Python"
    decode(once.after)
    unified(name, raw, once.after, escape=True)
    if not any(finding.code == "AMP005" for finding in once.findings):
        again = repair(once.after, target, linter())
        assert again.after == once.after, "a second repair changes something"


def converted(raw: bytes) -> None:
    """No conversion fails; each is written whole, keeps Python Python and has nothing left to do."""
    for wish in WISHES:
        _converted(wish, raw)


def _converted(wish: Wish, raw: bytes) -> None:
    with written(raw, TARGET.filename) as file:
        done = convert_file(file.name, str(file), wish, write=True)
        assert not done.failure, (wish, done.failure)
        assert file.read_bytes() == done.after, (wish, "the file is torn")
        if done.after == raw:
            return
        assert parses(done.after) or not parses(raw), (wish, "the converted file is no Python")
        again = convert_file(file.name, str(file), wish, write=True)
        assert not again.failure, (wish, again.failure)
        assert again.after == done.after, (wish, "a second conversion changes something")


def reported(raw: bytes) -> None:
    """A record is refused in one line, or reported without control characters."""
    try:
        record = Record.from_json(raw.decode(errors="replace"))
    except UnreadableRecord:
        return
    found = findings_of(record)
    text = summary(record, found, 80) + unequal_lines_text(record)
    text += FORMATS["full"](found, Context(RULES))
    assert not CONTROL.search(text), CONTROL.search(text)
    assert not re.search(r"^\s*::|##\[", text, re.MULTILINE), text
    assert Record.from_json(record.to_json()).to_json() == record.to_json()


def drawn(raw: bytes) -> None:
    """A record that is not refused has a page, without control characters."""
    try:
        record = Record.from_json(raw.decode(errors="replace"))
    except UnreadableRecord:
        return
    from amplint.reports.page.document import page  # what draws is large, and only this needs it

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fonts lack characters
        text = page(record, findings_of(record))
    assert not CONTROL.search(text), CONTROL.search(text)


def configured(raw: bytes) -> None:
    """A configuration is refused with a line for the user, or gives settings that can be used."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "amplint.toml")
        file.write_bytes(raw)
        try:
            settings = load(file, RULES)
            assert settings is not None
            projects = Projects(RULES, fixed=settings)
            projects.active(settings, f"{folder}/a/b.py")
            projects.excludes(settings)
        except ConfigError:
            pass
    try:
        lines = decode(raw)[0].splitlines()
    except SourceError:
        lines = []
    Patterns("/r", lines).verdict("/r/aaaaaaaaaaaaaaaaaaaaaaaa/b.py")


Check = Callable[[bytes], None]


@dataclass(frozen=True)
class Job:
    """What is attacked and how: what makes a case, what must hold of it, how many cases a round has."""

    make: Callable[[Numbers], bytes]
    check: Check
    share: int = 1


JOBS: dict[str, Job] = {
    **{f"lint {name}": Job(way, linted, 5 if name == "trees" else 1) for name, way in cases.WAYS.items()},
    "lint notebooks": Job(cases.notebooks, lambda raw: linted(raw, NOTEBOOK)),
    "fix trees": Job(cases.trees, repaired, 2),
    "fix pieces": Job(cases.pieces, repaired),
    "fix lines": Job(cases.lines, repaired),
    "fix tokens": Job(cases.tokens, repaired),
    "fix encodings": Job(cases.encodings, repaired),
    "fix notebooks": Job(cases.notebooks, lambda raw: repaired(raw, NOTEBOOK.filename)),
    "convert trees": Job(cases.trees, converted, 2),
    "convert pieces": Job(cases.pieces, converted),
    "convert lines": Job(cases.lines, converted),
    "convert tokens": Job(cases.tokens, converted),
    "records": Job(records.record, reported),
    "pages": Job(records.record, drawn),
    "configuration": Job(records.configuration, configured),
}


def failure_of(check: Check, raw: bytes) -> str | None:
    """What is wrong with a case, in a line; None where nothing is."""
    started = time.process_time()
    try:
        check(raw)
    except Exception as failure:
        return f"{type(failure).__name__}: {failure}".partition("\n")[0][:300]
    seconds = time.process_time() - started
    return f"took {seconds:.1f} s" if seconds > LIMIT_S else None
