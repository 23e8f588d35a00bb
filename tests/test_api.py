"""The public Python API, and that it says what the command says."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import amplint
import amplint.api
from amplint.codemods.registry import GOALS, SOURCES
from tests.conftest import Command, Plugin

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CLIPPED = ROOT / "fixtures" / "AMP205-clip-without-unscale"
DEPRECATED = "import torch\n\nregion = torch.cuda.amp.autocast()\n"
CURRENT = 'import torch\n\nregion = torch.amp.autocast("cuda")\n'
FLOAT32 = (ROOT / "fixtures" / "AMP901-float32-training-loop" / "bad_script.py").read_bytes()


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_examples_of_the_page(example: str, project: Path) -> None:
    exec(compile(example, "docs/api.md", "exec"), {})


def test_all_of_it_is_exported_and_on_the_page() -> None:
    assert {*amplint.api.__all__, "__version__"} == set(amplint.__all__)
    for name in amplint.api.__all__:
        assert getattr(amplint, name) is getattr(amplint.api, name)
        assert name in PAGE or name in ("Guessed", "Note", "Remark"), name
    assert set(amplint.__all__) <= set(dir(amplint))
    with pytest.raises(AttributeError, match="'amplint' has no attribute 'lint'"):
        _ = amplint.lint  # type: ignore[attr-defined]


def test_importing_loads_nothing() -> None:
    program = "import sys, amplint; print(*[name for name in sys.modules if name.startswith('amplint')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["amplint"]


def test_types_are_known_to_mypy(tmp_path: Path) -> None:
    """Also where the names come from `amplint` itself."""
    code = (
        "from pathlib import Path\nimport amplint\n"
        "reveal_type(amplint.check('', amplint.Settings(select=('ALL',))))\n"
        "reveal_type(amplint.fix(Path('a.py')))\nreveal_type(amplint.fix([Path('a.py')]))\n"
        "reveal_type(amplint.convert(b'', to='amp'))\nreveal_type(amplint.rules()[0].fixable)\n"
    )
    (tmp_path / "user.py").write_text(code)
    command = [sys.executable, "-m", "mypy", "--config-file=", "--no-incremental", "--follow-imports=silent", "user.py"]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert re.findall(r'is "(.*)"', done.stdout) == [
        "list[amplint.findings.Finding]",
        "amplint.engine.fixing.Repaired",
        "list[amplint.engine.fixing.Repaired]",
        "amplint.codemods.conversion.Converted",
        "amplint.findings.Applicability | None",
    ], done.stdout


def test_check_says_what_the_command_says(amplint: Command, project: Path) -> None:
    import amplint as package

    for path in CLIPPED.glob("bad_*.py"):
        (project / path.name).write_bytes(path.read_bytes())
    (project / "broken.py").write_text("def\n")
    told = json.loads(amplint("--output-format", "json", ".").out)
    found = package.check(Path("."))
    assert len(found) > 2
    assert [(each.filename, each.code, each.message) for each in found] == [
        (each["filename"], each["code"], each["message"]) for each in told
    ]


@pytest.mark.parametrize("source", [DEPRECATED, DEPRECATED.encode()])
def test_texts(source: str | bytes, project: Path) -> None:
    (finding,) = amplint.check(source)
    assert (finding.code, finding.filename) == ("AMP701", "<string>")
    (finding,) = amplint.check(source, filename="src/train.py")
    assert finding.filename == "src/train.py"
    repaired = amplint.fix(source, filename="src/train.py")
    assert (repaired.before, repaired.after) == (DEPRECATED.encode(), CURRENT.encode())
    assert (repaired.findings, repaired.fixed, repaired.filename) == ([], 1, "src/train.py")
    assert not os.path.exists("src")


def test_a_text_has_the_settings_and_the_neighbours_of_its_name(project: Path) -> None:
    (project / "quiet").mkdir()
    (project / "quiet" / "amplint.toml").write_text('ignore = ["AMP701"]\n')
    assert not amplint.check(DEPRECATED, filename="quiet/train.py")
    assert amplint.check(DEPRECATED, amplint.Settings(), filename="quiet/train.py")
    (project / "scaling.py").write_text('import torch\n\nscaler = torch.amp.GradScaler("cuda")\n')
    text = (
        "from scaling import scaler\n\n\ndef step(optimizer):\n    scaler.step(optimizer)\n    scaler.step(optimizer)\n"
    )
    assert "AMP204" in {finding.code for finding in amplint.check(text, filename="train.py")}


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        (f"\ufeff{DEPRECATED}", f"\ufeff{DEPRECATED}".encode()),
        (f"# coding: latin-1\n# é\n{DEPRECATED}", f"# coding: latin-1\n# é\n{DEPRECATED}".encode("latin-1")),
    ],
)
def test_texts_are_encoded_as_files_are(text: str, raw: bytes, project: Path) -> None:
    repaired = amplint.fix(text)
    assert repaired.before == raw
    assert repaired.fixed == 1


@pytest.mark.parametrize("text", ["\ud800", "# coding: ascii\né", "# coding: nonsense\n", "\0", "def", "(" * 10_000])
def test_texts_that_no_file_can_hold_are_findings(text: str, project: Path) -> None:
    assert [finding.code for finding in amplint.check(text)] == ["AMP001"]
    assert [finding.code for finding in amplint.fix(text).findings] == ["AMP001"]
    assert not amplint.convert(text, source_api="cuda-amp").failure


def test_files_and_folders(project: Path) -> None:
    Path("a").mkdir()
    for name in ("a/one.py", "a/two.py", "three.py"):
        Path(name).write_text(DEPRECATED)
    Path("a/two.py").write_text(CURRENT)
    assert [each.filename for each in amplint.check([Path("a"), Path("three.py")])] == ["a/one.py", "three.py"]

    results = amplint.fix([Path("a"), Path("three.py")])
    assert [(each.filename, each.fixed) for each in results] == [("a/one.py", 1), ("a/two.py", 0), ("three.py", 1)]
    assert results[1].before == results[1].after == CURRENT.encode()
    assert Path("three.py").read_text() == DEPRECATED

    assert amplint.fix(Path("three.py"), write=True).fixed == 1
    assert Path("three.py").read_text() == CURRENT

    converted = amplint.convert([Path("a")], source_api="cuda-amp", write=True)
    assert [(each.filename, each.after != each.before) for each in converted] == [
        ("a/one.py", True),
        ("a/two.py", False),
    ]
    assert Path("a/one.py").read_text() == CURRENT


def test_conversions(project: Path) -> None:
    converted = amplint.convert(FLOAT32, to="amp", dtype="bfloat16", accumulate=None)
    assert b"torch.bfloat16" in converted.after
    assert converted.done
    assert not converted.failure
    refused = amplint.convert("import torch\nloss.backward()\nx = (", to="amp")
    assert refused.before == refused.after
    assert [(remark.row, remark.text != "") for remark in refused.reasons] == [(3, True)]
    broken = Path("broken.py")
    broken.symlink_to("nowhere.py")
    assert "nowhere.py" in amplint.convert(broken, to="amp").failure


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({}, "no codemod converts float32 to what is current"),
        ({"to": "fp8"}, f"to is one of {', '.join(GOALS)}, not 'fp8'"),
        ({"source_api": "tf"}, f"source_api is one of {', '.join(SOURCES)}, not 'tf'"),
        ({"to": "amp", "dtype": "int8"}, "dtype is one of float16, bfloat16, not 'int8'"),
        ({"to": "amp", "device": "tpu"}, "device is one of cuda, cpu, auto, not 'tpu'"),
        ({"accumulate": 1}, "accumulate is at least 2, not 1"),
    ],
)
def test_wishes_that_nothing_fulfils(wish: dict[str, object], message: str) -> None:
    with pytest.raises(amplint.ConfigError) as raised:
        amplint.convert("", **wish)  # type: ignore[arg-type]
    assert str(raised.value) == message


def test_settings(project: Path) -> None:
    (project / "amplint.toml").write_text('ignore = ["AMP701"]\n')
    (project / "train.py").write_text(DEPRECATED)
    train = Path("train.py")
    assert not amplint.check(train)
    assert amplint.check(train, amplint.Settings())
    assert not amplint.check(train, amplint.Settings(min_severity=amplint.Severity.WARNING))
    assert not amplint.check(train, amplint.Settings(per_file_ignores=(("train.py", ("AMP7",)),)))
    assert not amplint.check([Path(".")], amplint.Settings(exclude=("train.py",)))
    lists: object = ["AMP701"]
    assert amplint.check(train, amplint.Settings(select=lists))  # type: ignore[arg-type]
    assert "AMP901" in {each.code for each in amplint.check(FLOAT32, amplint.Settings(select=("ALL",)))}


@pytest.mark.parametrize(
    "settings",
    [
        {"select": "ALL"},
        {"select": (1,)},
        {"ignore": ("AMP999",)},
        {"min_severity": "error"},
        {"unsafe_fixes": "yes"},
        {"torch_version": "0.1"},
        {"per_file_ignores": ("tests",)},
        {"library_versions": ("5",)},
        {"library_versions": (("deepspeed", "new"),)},
        {"exclude": ("[z-a]",)},
    ],
)
def test_settings_that_cannot_be_used(settings: dict[str, object], project: Path) -> None:
    with pytest.raises(amplint.ConfigError) as raised:
        amplint.check([Path(".")], amplint.Settings(**settings))  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


def test_configuration_files_that_cannot_be_used(project: Path) -> None:
    (project / "amplint.toml").write_text("select = 1\n")
    with pytest.raises(amplint.ConfigError, match="must be a list of strings"):
        amplint.check("x = 1\n")


def test_calls_that_make_no_sense(project: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.py"):
        amplint.check(Path("missing.py"))
    for function in (amplint.fix, lambda source: amplint.convert(source, to="amp")):
        with pytest.raises(IsADirectoryError, match="in a list"):
            function(Path("."))
    with pytest.raises(ValueError, match="no file"):
        amplint.fix("", write=True)
    with pytest.raises(ValueError, match="a path has a name"):
        amplint.check(Path("."), filename="train.py")
    with pytest.raises(TypeError, match="not str"):
        amplint.check(["train.py"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="not int"):
        amplint.check(1)  # type: ignore[arg-type]


def test_rules(amplint: Command) -> None:
    import amplint as package

    described = package.rules()
    told = json.loads(amplint("rule", "--all", "--output-format", "json").out)
    assert [(each.code, each.documentation, each.url) for each in described] == [
        (each["code"], each["page"], each["url"]) for each in told
    ]
    assert all(each.documentation.startswith(each.summary) for each in described)


def test_plugins(plugin: Plugin, project: Path) -> None:
    """Plug-ins count, one in the current folder does not, and one that does not load is told of."""
    installed = plugin(
        "from amplint.findings import Severity\nfrom amplint.rule import Rule\n"
        "class House(Rule):\n"
        "    '''A house rule.'''\n"
        "    code, name, severity, screen = 'ACME001', 'house', Severity.INFO, (b'x',)\n"
    )
    plugin("raise RuntimeError('broken')")
    site = next(path for path in sys.path if os.path.exists(os.path.join(path, f"{installed}.py")))
    (project / "evil.py").write_text("raise SystemExit('ran')\n")
    (project / "evil-1.0.dist-info").mkdir()
    (project / "evil-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (project / "evil-1.0.dist-info" / "entry_points.txt").write_text("[amplint.rules]\nevil = evil\n")
    program = (
        f"import sys, warnings; sys.path.insert(1, {site!r}); before = list(sys.path); import amplint\n"
        "with warnings.catch_warnings(record=True) as told:\n"
        "    warnings.simplefilter('always')\n"
        "    codes = [rule.code for rule in amplint.rules()]\n"
        "assert 'ACME001' in codes and 'AMP205' in codes, codes\n"
        "assert sys.path == before and sys.path[0] == ''\n"
        "(warning,) = told\n"
        "assert 'RuntimeError: broken' in str(warning.message), warning\n"
        "assert 'evil' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=project, check=True)


def test_several_threads_at_once(project: Path) -> None:
    """Each gets its own answer, and neither loses the depth that it may go to."""
    texts = [f"{'x = 1' + chr(10)}" * count + DEPRECATED for count in range(12)]
    rows: dict[int, list[int]] = {}

    def lint(index: int) -> None:
        rows[index] = [finding.span.start.row for finding in amplint.check(texts[index])]

    threads = [threading.Thread(target=lint, args=(index,)) for index in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows == {index: [index + 3] for index in range(len(texts))}


def test_public_functions_are_documented() -> None:
    for name in ("check", "fix", "convert", "rules"):
        assert inspect.getdoc(getattr(amplint, name))


def test_what_is_handed_over_can_be_hashed_and_pickled() -> None:
    for each in (*amplint.check(DEPRECATED), amplint.Settings(select=("ALL",)), amplint.rules()[0]):
        assert pickle.loads(pickle.dumps(each)) == each
        assert len({each, each}) == 1
