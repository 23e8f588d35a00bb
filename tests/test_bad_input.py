"""Whatever the input: one clear diagnostic for it, the other files linted, no traceback."""

from __future__ import annotations

import encodings
import errno
import itertools
import os
import pkgutil
import sys
import textwrap
import time
import tokenize
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from amplint import rule, semantics
from amplint.codemods import Conversion, files
from amplint.engine import fixing
from amplint.engine import pool as pool_module
from amplint.engine import run as run_module
from amplint.engine.deep import call_deep
from amplint.engine.discover import Target
from amplint.engine.registry import load_registry
from amplint.engine.run import Linter
from amplint.findings import Finding
from amplint.reports import full
from tests.conftest import Command, Plugin
from tests.linting import findings_of
from tests.test_cli import BAD

DEPTH = 2000
RULE = """
    import os
    from amplint.findings import Severity
    from amplint.rule import Rule

    class Odd(Rule):
        '''Odd.'''

        code = "TST001"
        name = "odd"
        severity = Severity.WARNING
        screen = (b"GradScaler",)

        def on_scaler_created(self, event):
            yield self.report(event, "made")
"""


@pytest.fixture
def good(project: Path) -> None:
    """A neighbour that has one finding, which must always be reported."""
    (project / "zz_good.py").write_text(BAD, encoding="utf-8")


@pytest.mark.usefixtures("good")
@pytest.mark.parametrize(
    ("raw", "place", "message"),
    [
        (b"def f(:\n    pass\n", "1:7", "syntax error"),
        (b"import torch\nx = = 1\n", "2:5", "syntax error"),
        (b"x = 1\n  y = 2\n", "2:", "syntax error"),
        (b"x = (\n", "", "syntax error"),
        (b"x = 1\ny = ('a'\n  b'b')\n", "3:", "cannot mix bytes"),
        (b"\n\nx = '\xff'\n", "3:1", "not valid utf-8"),
        (b"x = '\xff'\n", "1:1", "cannot be decoded"),
        (b"# coding: latin-1\nx = 1\n# coding: \xff\n\x00", "4:1", "NUL bytes"),
        (b"# coding: nonsense\n", "1:1", "cannot be decoded"),
        (b"x = 1\0\n", "1:1", "NUL bytes"),
        (b"\x7fELF\x02\x01\x01\x00", "1:1", "NUL bytes"),
        (b"\xff\xfex\x00", "1:1", "NUL bytes"),
        (b"{" * DEPTH, "1:", "too many nested"),
        pytest.param(b"# GradScaler\nx = " + b"1" * 9000, "2:", "Exceeds the limit", id="an endless number"),
    ],
)
def test_not_python(amplint: Command, project: Path, raw: bytes, place: str, message: str) -> None:
    (project / "bad.py").write_bytes(raw)
    ran = amplint("--output-format", "concise")
    assert ran.status == 1
    first, second = ran.out.splitlines()
    assert first.startswith(f"bad.py:{place}")
    assert "AMP001[syntax-error] error: " in first
    assert message in first
    assert second.startswith("zz_good.py:11:9: AMP205")
    assert amplint("--fix", "bad.py").status == 1
    assert (project / "bad.py").read_bytes() == raw


@pytest.mark.parametrize("raw", [b"", b"\n", b"\xef\xbb\xbf", b"\x0c", b"# only a comment", b"\r", b"pass"])
def test_next_to_nothing(amplint: Command, project: Path, raw: bytes) -> None:
    (project / "a.py").write_bytes(raw)
    assert amplint().status == 0


NESTED: dict[str, Callable[[int], str]] = {
    "parentheses": lambda n: "x = " + "(" * n + "1" + ")" * n,
    "lists": lambda n: "x = " + "[" * n + "]" * n,
    "attributes": lambda n: "x = scaler" + ".b" * n,
    "sums": lambda n: "x = " + "1 + " * n + "1",
    "signs": lambda n: "x = " + "-" * n + "1",
    "calls": lambda n: "x = f" + "()" * n,
    "arguments": lambda n: "x = " + "f(" * n + ")" * n,
    "lambdas": lambda n: "x = " + "lambda: " * n + "1",
    "conditions": lambda n: "x = " + "1 if a else " * n + "1",
    "branches": lambda n: "if x:\n    pass\n" + "elif x:\n    pass\n" * n,
    "blocks": lambda n: "".join(" " * i + "if x:\n" for i in range(n)) + " " * n + "pass",
    "strings": lambda n: "x = " + "'a' " * n,
}


@pytest.mark.usefixtures("good")
@pytest.mark.parametrize("shape", NESTED)
def test_nesting_2000_deep(amplint: Command, project: Path, shape: str) -> None:
    # Either the finding beside it is found, or one diagnostic says why not.
    nested = textwrap.indent(NESTED[shape](DEPTH), " " * 8)
    text = BAD.replace("        optimizer.zero_grad()\n", f"{nested}\n        optimizer.zero_grad()\n")
    (project / "deep.py").write_text(text, encoding="utf-8")
    ran = amplint("--output-format", "concise")
    assert ran.status == 1
    first, second = ran.out.splitlines()
    assert first.startswith("deep.py:")
    assert any(code in first for code in ("AMP205", "AMP001", "AMP005"))
    assert second.startswith("zz_good.py:11:9: AMP205")


def test_the_deep_thread_passes_on_what_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        call_deep(lambda: 1 // 0)
    assert call_deep(lambda: sys.getrecursionlimit()) == sys.getrecursionlimit()


CODECS = sorted(module.name for module in pkgutil.iter_modules(encodings.__path__))


SUPPRESSIONS = ("", "  # noqa: AMP205", "  # amplint: ignore[AMP205]  # GradScaler")


@pytest.mark.parametrize(("first", "option"), [*enumerate(("--no-cache", "--diff", "--fix"))])
def test_every_codec(amplint: Command, project: Path, first: int, option: str) -> None:
    """Each codec meets each option and each suppression, and each option each suppression."""
    assert "rot_13" in CODECS
    (project / "all").mkdir()
    suppressions = itertools.islice(itertools.cycle(SUPPRESSIONS), first, None)
    for codec, suppression in zip(CODECS, suppressions, strict=False):
        (project / "all" / f"{codec}.py").write_bytes(f"# coding: {codec}\n{BAD}x = 1{suppression}\n".encode())
    (project / "all" / "zz_good.py").write_text(f"import rot_13\n{BAD}", encoding="utf-8")
    ran = amplint("all", option, "--output-format", "concise")
    assert ran.status == 1
    assert "AMP003" not in ran.out + ran.err
    assert "all/rot_13.py:1:1: AMP001[syntax-error] error: the text cannot be decoded" in ran.out + ran.err
    if option == "--no-cache":
        assert "\nall/zz_good.py:12:9: AMP205" in ran.out
    repaired = "unscale_" in (project / "all" / "zz_good.py").read_text(encoding="utf-8")
    assert repaired == (option == "--fix")
    assert "AMP001" in amplint("all/rot_13.py").out  # in the format that shows the source


def test_a_repair_is_read_back_as_it_was_meant(amplint: Command, project: Path) -> None:
    """Some codecs read a text that they would write in another way, or on one line."""
    before = {}
    for codec in CODECS:
        file = project / f"{codec}.py"
        before[file] = f"# coding: {codec}\n{BAD}x = 'é+AOk-\\u0041\\x41'\n".encode()
        file.write_bytes(before[file])
    amplint("--fix")
    repaired = [file for file, raw in before.items() if file.read_bytes() != raw]
    assert {"utf_8", "cp1252"} <= {file.stem for file in repaired}
    for file in repaired:
        with tokenize.open(file) as text:
            assert "unscale_" in text.read(), file.stem
        compile(file.read_bytes(), file.stem, "exec")
    assert not {"unicode_escape", "raw_unicode_escape", "utf_7"} & {file.stem for file in repaired}


@pytest.mark.parametrize("codec", ["rot13", "hex", "undefined", "utf_32", "punycode", "nonsense"])
def test_a_codec_that_is_none(amplint: Command, project: Path, codec: str) -> None:
    raw = f"# coding: {codec}\nx = 1  # noqa: AMP205\n\xff".encode("latin-1")
    (project / "odd.py").write_bytes(raw)
    (project / "train.py").write_text(f"from odd import x\n{BAD}", encoding="utf-8")
    ran = amplint("--output-format", "concise")
    first, second = ran.out.splitlines()
    assert first.startswith("odd.py:")
    assert "AMP001[syntax-error] error: " in first
    assert second.startswith("train.py:12:9: AMP205")
    ran = amplint("convert", "--from", "cuda-amp", "odd.py")
    assert ran.status == 1
    assert "odd.py:" in ran.err
    assert "refused: the" in ran.err
    assert (project / "odd.py").read_bytes() == raw


@pytest.mark.usefixtures("good")
@pytest.mark.parametrize(
    ("broken", "what"),
    [
        ("amplint.engine.run.screen", "Reading the file failed: LookupError: lost"),
        ("amplint.engine.run.suppress", "Reading the suppressions failed: LookupError: lost"),
    ],
)
def test_whatever_fails_in_a_file_is_a_finding_of_that_file(
    amplint: Command, project: Path, monkeypatch: pytest.MonkeyPatch, broken: str, what: str
) -> None:
    module, _, name = broken.rpartition(".")
    function = getattr(sys.modules[module], name)

    def fail(*arguments: object) -> object:
        if any(b"# this one" in (one if isinstance(one, bytes) else b"") for one in arguments):
            raise LookupError("lost")
        return function(*arguments)

    monkeypatch.setattr(broken, fail)
    (project / "a.py").write_text(f"{BAD}# this one\n", encoding="utf-8")
    ran = amplint("--output-format", "concise")
    assert ran.status == 2
    first, *_, last = ran.out.splitlines()
    assert first == f"a.py:1:1: AMP003[rule-crashed] error: {what}"
    assert last.startswith("zz_good.py:11:9: AMP205")


@pytest.mark.usefixtures("good")
def test_a_repair_or_a_conversion_that_fails(amplint: Command, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: str | bytes, *_: object) -> object:
        if (b"# this one" if isinstance(text, bytes) else "# this one") in text:
            raise LookupError("lost")
        return text, []

    (project / "a.py").write_text(f"{BAD}# this one\n", encoding="utf-8")
    monkeypatch.setattr(fixing, "apply_verified", fail)
    for option in ("--fix", "--diff"):
        ran = amplint(option, "--output-format", "concise")
        assert ran.status == 2
        assert "a.py:1:1: AMP003[rule-crashed] error: The repair failed: LookupError: lost" in ran.out + ran.err
    monkeypatch.setattr(files, "convert", lambda text, *_: fail(text) and Conversion(text))
    ran = amplint("convert", "--from", "cuda-amp", ".")
    assert ran.status == 2
    assert "a.py: the conversion failed, please report it: LookupError: lost" in ran.err


def test_a_finding_that_cannot_be_shown(amplint: Command, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> object:
        raise LookupError("lost")

    (project / "a.py").write_text(BAD, encoding="utf-8")
    expected = amplint("--output-format", "concise").out
    monkeypatch.setattr(full, "excerpt", fail)
    assert amplint().out.split() == expected.split()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
@pytest.mark.usefixtures("good")
def test_what_is_no_regular_file_is_not_opened(amplint: Command, project: Path) -> None:
    for name in ("named.py", ".gitignore", "helper.py"):
        os.mkfifo(project / name)
    (project / "train.py").write_text(f"from helper import x\n{BAD}", encoding="utf-8")
    os.symlink("/dev/zero", project / "endless.py")
    (project / "below").mkdir()
    os.symlink("/dev/zero", project / "below" / ".gitignore")
    os.mkfifo(project / "below" / "amplint.toml")
    ran = amplint("--output-format", "concise", ".", "named.py", "endless.py")
    assert ran.status == 1
    assert ran.out.splitlines()[-2:] == [
        "named.py:1:1: AMP002[unreadable-file] error: cannot be read: not a regular file",
        "endless.py:1:1: AMP002[unreadable-file] error: cannot be read: not a regular file",
    ]
    assert ran.out.count("AMP205") == 2
    assert amplint("--fix", "named.py").status == 1
    ran = amplint("convert", "--from", "cuda-amp", "named.py", "train.py")
    assert ran.status == 2
    assert "named.py: not a regular file" in ran.err


def test_100_000_lines(amplint: Command, project: Path) -> None:
    lines = "".join(f"def f{n}(x):\n    y = x + {n}\n    return [y, 'text']\n\n" for n in range(25_000))
    (project / "long.py").write_text(lines + BAD, encoding="utf-8")
    (project / "amplint.toml").write_text("max-seconds = 60\n", encoding="utf-8")
    start = time.monotonic()
    ran = amplint("--output-format", "concise")
    assert "AMP205" in ran.out
    assert len(ran.out.splitlines()) == 1
    assert time.monotonic() - start < 60


@pytest.mark.usefixtures("good")
def test_dangling_link(amplint: Command, project: Path) -> None:
    os.symlink("gone.py", project / "link.py")
    os.symlink("gone", project / "data")
    ran = amplint("--output-format", "concise")
    assert ran.status == 1
    assert ran.out.splitlines()[0] == (
        "link.py:1:1: AMP002[unreadable-file] error: a symbolic link to gone.py, which does not exist"
    )
    assert len(ran.out.splitlines()) == 2
    assert amplint("link.py").status == 1


@pytest.mark.usefixtures("good")
def test_link_loops(amplint: Command, project: Path) -> None:
    (project / "pkg").mkdir()
    os.symlink("..", project / "pkg" / "up")
    os.symlink("there", project / "here")
    os.symlink("here", project / "there")
    os.symlink("self.py", project / "self.py")
    ran = amplint("--output-format", "concise")
    assert ran.status == 1
    assert ran.out.splitlines()[:-1] == [
        "here:1:1: AMP002[unreadable-file] error: a loop of symbolic links",
        "self.py:1:1: AMP002[unreadable-file] error: a loop of symbolic links",
        "there:1:1: AMP002[unreadable-file] error: a loop of symbolic links",
        "pkg/up:1:1: AMP002[unreadable-file] error: a symbolic link to a folder it lies in; it is not followed",
    ]
    assert "AMP205" in ran.out.splitlines()[-1]
    assert ran.err.startswith("5 findings (5 errors) in 5 files.\n")
    assert "AMP002" in amplint("here").out


@pytest.mark.usefixtures("good")
def test_a_folder_without_permission(amplint: Command, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "closed").mkdir()
    scandir = os.scandir

    def refusing(path: str) -> object:
        if os.path.basename(path) == "closed":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)  # the tests may run as root, who may read everything
    ran = amplint("--output-format", "concise")
    assert ran.status == 1
    assert ran.out.splitlines()[0] == "closed:1:1: AMP002[unreadable-file] error: cannot be read: Permission denied"
    assert "AMP205" in ran.out.splitlines()[1]


@pytest.mark.usefixtures("good")
def test_a_file_that_is_gone_when_it_is_read(amplint: Command, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "a.py").write_text(BAD, encoding="utf-8")
    check_all = Linter.check_all

    def late(self: Linter, targets: Sequence[Target], progress: Callable[[int], None]) -> list[list[Finding]]:
        (project / "a.py").unlink(missing_ok=True)
        return check_all(self, targets, progress)

    monkeypatch.setattr(Linter, "check_all", late)
    ran = amplint("--output-format", "concise")
    assert ran.status == 1
    assert ran.out.startswith("a.py:1:1: AMP002[unreadable-file] error: cannot be read: No such file or directory\n")


@pytest.mark.usefixtures("good")
@pytest.mark.parametrize(
    ("broken", "place", "message"),
    [
        ('raise ValueError("no\\nsecond line")', "5:14", "Rule TST001 (odd) failed: ValueError: no"),
        ("return self.report(event)", "5:14", "Rule TST001 (odd) failed: TypeError: "),
        ("yield 3", "5:14", "Rule TST001 (odd) failed: AttributeError: "),
        ("yield self.report(event, 'm', at=event)", "5:14", "Rule TST001 (odd) failed: "),
        ("yield from self.on_scaler_created(event)", "5:14", "Rule TST001 (odd) failed: RecursionError: "),
        ("raise SystemExit(0)", "5:14", "Rule TST001 (odd) failed: SystemExit: 0"),
        ("raise GeneratorExit", "5:14", "Rule TST001 (odd) failed: GeneratorExit"),
    ],
)
def test_a_rule_that_raises(amplint: Command, plugin: Plugin, broken: str, place: str, message: str) -> None:
    plugin(RULE.replace('yield self.report(event, "made")', broken))
    ran = amplint("--output-format", "concise")
    assert ran.status == 2
    crash, finding = ran.out.splitlines()
    assert crash.startswith(f"zz_good.py:{place}: AMP003[rule-crashed] error: {message}")
    assert "second line" not in crash
    assert "AMP205" in finding


@pytest.mark.usefixtures("good")
def test_a_repair_that_raises(amplint: Command, plugin: Plugin) -> None:
    plugin(f"{RULE}\n        def fix(self, event, rewrite):\n            return 1 // 0\n")
    ran = amplint("--output-format", "concise", "--select", "TST")
    assert ran.status == 2
    crash, finding = ran.out.splitlines()
    assert "The repair by rule TST001 (odd) failed: ZeroDivisionError: " in crash
    assert "TST001[odd] warning: made" in finding


@pytest.mark.usefixtures("good")
def test_a_rule_that_cannot_be_made(amplint: Command, plugin: Plugin) -> None:
    plugin(f"{RULE}\n        def __init__(self):\n            raise KeyError('x')\n")
    ran = amplint("--output-format", "concise", "--select", "TST")
    assert ran.status == 2
    assert ran.out.startswith("zz_good.py:1:1: AMP003[rule-crashed] error: Rule TST001 (odd) failed: KeyError: 'x'")


@pytest.mark.usefixtures("good")
@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("1 // 0", "ZeroDivisionError: "),
        ("import no_such_module_at_all", "ModuleNotFoundError: "),
        ("def f(:", "SyntaxError: "),
        (RULE.replace("TST001", "AMP205"), "ValueError: "),
        (RULE.replace("name = ", "nam = "), "AttributeError: "),
        (RULE.replace("severity = ", "seriousness = "), "Odd has no valid `severity`"),
        (RULE.replace('(b"GradScaler",)', '("GradScaler",)'), "Odd has no valid `screen`"),
        (RULE.replace('(b"GradScaler",)', 'b"GradScaler"'), "Odd has no valid `screen`"),
    ],
)
def test_a_plugin_that_cannot_be_loaded(amplint: Command, plugin: Plugin, code: str, why: str) -> None:
    name = plugin(code)
    ran = amplint("--output-format", "concise")
    assert ran.status == 2
    assert "AMP205[clip-without-unscale]" in ran.out
    warning, *_ = ran.err.splitlines()
    assert warning.startswith(f"Warning: the plug-in {name} could not be loaded, its rules are missing: {why}")
    assert amplint("rule", "AMP205").status == 2


@pytest.mark.usefixtures("good")
def test_a_checkout_without_rules(amplint: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule, "entry_points", lambda _: ())
    ran = amplint()
    assert ran.status == 2
    assert "Warning: the plug-in amplint.rules could not be loaded" in ran.err
    assert "amplint is not installed" in ran.err


@pytest.mark.usefixtures("good")
def test_a_notebook_that_is_none(amplint: Command, project: Path) -> None:
    (project / "train.ipynb").write_text("{}", encoding="utf-8")
    ran = amplint("--output-format", "concise", "train.ipynb", ".")
    message = "AMP001[syntax-error] error: not a notebook: its JSON has no cells\n"
    assert ran.out.startswith(f"train.ipynb:1:1: {message}")
    assert "AMP205" in ran.out


def test_an_analysis_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise LookupError("lost")

    rules = [rule for rule in load_registry().rules.values() if rule.code == "AMP205"]
    monkeypatch.setattr(semantics, "interpret", fail)
    (finding,) = findings_of(BAD, rules)
    assert (finding.code, finding.message) == ("AMP003", "The analysis failed: LookupError: lost")


def test_worker_processes(amplint: Command, project: Path, plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    reads_and_prints = f"if os.getpid() != {os.getpid()}: print(os.read(0, 1))\n            yield self"
    plugin(RULE.replace("yield self", reads_and_prints))
    for number in range(5):
        (project / f"train{number}.py").write_text(BAD, encoding="utf-8")
    (project / "bad.py").write_text("def f(:\n", encoding="utf-8")
    (project / "gs_bad.py").write_text("GradScaler = (\n", encoding="utf-8")
    alone = amplint("--no-cache", "--output-format", "json")
    monkeypatch.setattr(run_module, "POOL_BYTES", 0)
    assert amplint("--no-cache", "--output-format", "json") == alone
    assert alone.out.count('"AMP205"') == alone.out.count('"TST001"') == 5


def test_a_worker_process_that_dies(
    amplint: Command, project: Path, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin(RULE.replace('yield self.report(event, "made")', "os._exit(9) if event.node.args else 0; yield from ()"))
    for number in range(4):
        text = BAD if number == 2 else BAD.replace('GradScaler("cuda")', "GradScaler()")
        (project / f"train{number}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(run_module, "POOL_BYTES", 0)
    ran = amplint("--no-cache", "--output-format", "concise")
    assert ran.status == 2
    assert [line.split(": ")[:2] for line in ran.out.splitlines()] == [
        ["train0.py:11:9", "AMP205[clip-without-unscale] error"],
        ["train1.py:11:9", "AMP205[clip-without-unscale] error"],
        ["train2.py:1:1", "AMP003[rule-crashed] error"],
        ["train3.py:11:9", "AMP205[clip-without-unscale] error"],
    ]


def test_a_rule_that_other_processes_cannot_name(
    amplint: Command, project: Path, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin(f"{RULE}\n    Odd.__qualname__ = 'gone'\n")
    for number in range(3):
        (project / f"train{number}.py").write_text(BAD, encoding="utf-8")
    monkeypatch.setattr(run_module, "POOL_BYTES", 0)
    assert amplint("--no-cache", "--output-format", "concise").out.count("TST001") == 3


def test_no_processes_to_be_had(amplint: Command, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError("no more processes")

    for number in range(3):
        (project / f"train{number}.py").write_text(BAD, encoding="utf-8")
    monkeypatch.setattr(run_module, "POOL_BYTES", 0)
    monkeypatch.setattr(pool_module, "Worker", refuse)
    assert amplint("--output-format", "concise").out.count("AMP205") == 3
