"""Configuration files: where they are found, what they may say, and what is wrong with others."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path

import pytest

from amplint.engine import run as run_module
from amplint.engine.analyse import Analysis
from amplint.engine.config import ConfigError, load
from amplint.engine.diagnostics import DIAGNOSTICS
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.projects import Projects
from amplint.engine.select import matches, resolve
from amplint.findings import Severity
from amplint.rule import Rule
from amplint.torchlib.tables import versions
from tests.conftest import Command
from tests.test_cli import BAD


def kind(code: str, name: str, *, default: bool = True) -> type[Rule]:
    """A rule that does nothing."""
    facts = {"code": code, "name": name, "severity": Severity.WARNING, "screen": (), "default": default}
    return type(name, (Rule,), facts)


RULES = {
    rule.code: rule
    for rule in [
        *DIAGNOSTICS,
        kind("AMP201", "first-rule"),
        kind("AMP202", "second-rule"),
        kind("AMP211", "third-rule"),
        kind("AMP901", "shy-rule", default=False),
        kind("XY1", "foreign-rule"),
    ]
}
ALWAYS = {"AMP001", "AMP002", "AMP003", "AMP005"}


def write(path: Path, text: str) -> Path:
    """Write `text` to `path`, whose folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_all_keys(tmp_path: Path) -> None:
    text = """
        [tool.amplint]
        select = ["AMP2", "first-rule"]
        extend-select = ["XY"]
        ignore = ["AMP202"]
        exclude = ["third_party/"]
        min-severity = "warning"
        unsafe-fixes = true
        torch-version = "2.13"
        library-versions = { deepspeed = "0.17.4", transformers = ">=5" }
        per-file-ignores = { "tests/*" = ["AMP21"] }
    """
    settings = load(write(tmp_path / "pyproject.toml", text), RULES)
    assert settings is not None
    assert settings.root == tmp_path
    assert settings.file == tmp_path / "pyproject.toml"
    assert settings.select == ("AMP2", "first-rule")
    assert settings.extend_select == ("XY",)
    assert settings.ignore == ("AMP202",)
    assert settings.exclude == ("third_party/",)
    assert settings.min_severity is Severity.WARNING
    assert settings.unsafe_fixes is True
    assert settings.torch_version == "2.13"
    assert settings.library_versions == (("deepspeed", "0.17.4"), ("transformers", ">=5"))
    assert [str(wanted) for wanted in settings.libraries] == ["deepspeed ==0.17.4", "transformers >=5"]
    assert settings.per_file_ignores == (("tests/*", ("AMP21",)),)


@pytest.mark.parametrize(
    "text", ["", "[tool.other]\nname = 'amplint'\n", "[project]\nname = 'amplint'\n", "nonsense ["]
)
def test_a_pyproject_without_the_table_does_not_count(tmp_path: Path, text: str) -> None:
    assert load(write(tmp_path / "pyproject.toml", text), RULES) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("selct = []", 'unknown key "selct" (did you mean "select"?)'),
        ('select = "AMP2"', "\"select\" must be a list of strings, not 'AMP2'"),
        ("select = [2]", '"select" must be a list of strings, not 2'),
        ('select = ["AMP3"]', '"select": no rule has the code, prefix or name "AMP3"'),
        ('ignore = ["frist-rule"]', '(did you mean "first-rule"?)'),
        ('ignore = ["AMP2011"]', '(did you mean "AMP201"?)'),
        ('min-severity = "warnin"', '"warnin" is not a severity; use info, warning, error (did you mean "warning"?)'),
        ("min-severity = 2", '"min-severity" must be a string, not 2'),
        ('unsafe-fixes = "yes"', "\"unsafe-fixes\" must be true or false, not 'yes'"),
        ("torch-version = 2.13", '"torch-version" must be a string like "2.13", not 2.13'),
        ('torch-version = "2.13.0"', '"torch-version": no autocast policy of torch "2.13.0"; there is one of 2.'),
        ('library-versions = "5"', '"library-versions" must be a table from libraries to versions'),
        ('library-versions = { numpy = "2" }', '"library-versions": no rule depends on the version of "numpy"'),
        ("library-versions = { deepspeed = 1 }", '"library-versions.deepspeed" must be a version like "1.2" or a'),
        ('library-versions = { deepspeed = "new" }', '"new" is no version and no specifier'),
        ("per-file-ignores = []", '"per-file-ignores" must be a table from patterns to lists of rules'),
        ('per-file-ignores = { "a" = ["no"] }', '"per-file-ignores.a": no rule has'),
        ("select = [", "cannot be read: "),
        ("select = ['\xff']".encode("latin-1").decode("latin-1"), "no rule has"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, complaint: str) -> None:
    file = write(tmp_path / "amplint.toml", text)
    with pytest.raises(ConfigError) as raised:
        load(file, RULES)
    assert str(raised.value).startswith(f"{file}: ")
    assert complaint in str(raised.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "amplint.toml").write_bytes(b"select = ['\xff']")
    with pytest.raises(ConfigError, match="cannot be read: 'utf-8' codec"):
        load(tmp_path / "amplint.toml", RULES)


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    outer = write(tmp_path / "pyproject.toml", '[tool.amplint]\nignore = ["AMP201"]\n')
    inner = write(tmp_path / "a" / "amplint.toml", 'ignore = ["AMP202"]\n')
    write(tmp_path / "a" / "b" / "pyproject.toml", "[project]\n")
    projects = Projects(RULES)
    assert projects.of(tmp_path).file == outer
    assert projects.of(tmp_path / "a" / "b").file == inner
    assert projects.of(tmp_path / "c" / "d").file == outer


def test_amplint_toml_comes_before_pyproject(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", "[tool.amplint]\n")
    own = write(tmp_path / "amplint.toml", "")
    assert Projects(RULES).of(tmp_path).file == own


@pytest.mark.parametrize(
    ("selector", "codes"),
    [
        ("ALL", set(RULES)),
        ("all", set(RULES)),
        ("AMP", {code for code in RULES if code.startswith("AMP")}),
        ("AMP2", {"AMP201", "AMP202", "AMP211"}),
        ("amp20", {"AMP201", "AMP202"}),
        ("AMP201", {"AMP201"}),
        ("First-Rule", {"AMP201"}),
        ("XY", {"XY1"}),
        ("A", set()),
        ("AMP2*", set()),
        ("", set()),
    ],
)
def test_selectors(selector: str, codes: set[str]) -> None:
    assert set(matches(selector, RULES)) == codes


@pytest.mark.parametrize(
    ("select", "extend", "ignore", "on"),
    [
        (None, [], [], {"AMP004", "AMP201", "AMP202", "AMP211", "XY1"}),
        (None, ["AMP9"], [], {"AMP004", "AMP201", "AMP202", "AMP211", "AMP901", "XY1"}),
        (None, [], ["AMP2"], {"AMP004", "XY1"}),
        (["ALL"], [], ["AMP"], {"XY1"}),
        (["AMP201"], [], ["AMP2"], {"AMP201"}),
        (["AMP2"], [], ["AMP20"], {"AMP211"}),
        (["AMP2"], [], ["first-rule"], {"AMP202", "AMP211"}),
        (["AMP2"], [], ["AMP2"], set()),
        ([], [], [], set()),
        (["AMP2"], ["AMP202"], ["AMP20"], {"AMP202", "AMP211"}),
        (["ALL"], [], ["AMP001", "ALL"], set()),
    ],
)
def test_the_more_specific_selector_wins(
    select: list[str] | None, extend: list[str], ignore: list[str], on: set[str]
) -> None:
    assert resolve(RULES, select, extend, ignore) == on | ALWAYS


def test_per_file_ignores_and_severity(tmp_path: Path) -> None:
    text = 'min-severity = "warning"\n[per-file-ignores]\n"tests/" = ["AMP2"]\n"*_old.py" = ["XY1", "AMP211"]\n'
    write(tmp_path / "amplint.toml", text)
    projects = Projects(RULES)
    settings = projects.of(tmp_path)

    def on(name: str) -> frozenset[str]:
        return projects.active(settings, str(tmp_path / name)) - ALWAYS

    assert on("a.py") == {"AMP004", "AMP201", "AMP202", "AMP211", "XY1"}
    assert on("tests/deep/a.py") == {"AMP004", "XY1"}
    assert on("a_old.py") == {"AMP004", "AMP201", "AMP202"}
    assert on("tests/a_old.py") == {"AMP004"}


def test_an_invalid_pattern(amplint: Command, project: Path) -> None:
    write(project / "amplint.toml", 'exclude = ["[z-a]"]')
    write(project / "a.py", "")
    ran = amplint()
    assert ran.status == 2
    assert "'[z-a]' is not a valid pattern" in ran.err


def test_an_error_ends_the_run_in_one_line(amplint: Command, project: Path) -> None:
    write(project / "train.py", BAD)
    file = write(project / "deep" / "amplint.toml", "colour = true\n")
    write(project / "deep" / "train.py", BAD)
    ran = amplint()
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == f'Error: {file}: unknown key "colour"\n'


def test_settings_apply_below_their_folder(amplint: Command, project: Path) -> None:
    write(project / "train.py", BAD)
    write(project / "deep" / "amplint.toml", 'ignore = ["AMP205"]')
    write(project / "deep" / "er" / "train.py", BAD)
    assert amplint("--output-format", "concise").out.count("AMP205") == 1
    assert amplint("deep/er/train.py").status == 0
    assert amplint("deep").status == 0


def test_config_option(amplint: Command, project: Path, tmp_path: Path) -> None:
    write(project / "a" / "train.py", BAD)
    file = write(tmp_path / "other.toml", '[per-file-ignores]\n"a/*" = ["AMP205"]\n')
    assert amplint("--config", str(file)).status == 0
    ran = amplint("--config", str(write(tmp_path / "pyproject.toml", "")))
    assert ran.status == 2
    assert "has no table [tool.amplint]" in ran.err


def test_unsafe_fixes_of_the_configuration_can_be_switched_off(amplint: Command, project: Path) -> None:
    write(project / "amplint.toml", "unsafe-fixes = true")
    assert "unsafe-fixes = true" in amplint("--show-settings").out
    assert "unsafe-fixes = false" in amplint("--show-settings", "--no-unsafe-fixes").out


def test_the_version_of_pytorch_reaches_the_analysis(
    amplint: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, str | None] = {}

    def noting(job: Job, modules: Modules) -> Analysis:
        asked[job.filename] = job.torch
        return Analysis([])

    monkeypatch.setattr(run_module, "analyse", noting)
    write(project / "train.py", BAD)
    write(project / "old" / "amplint.toml", 'torch-version = "2.13"')
    write(project / "old" / "train.py", BAD)
    amplint("--no-cache")
    assert asked == {"train.py": None, os.path.join("old", "train.py"): "2.13"}
    assert 'torch-version = "2.13"' in amplint("--show-settings", "old").out
    assert f'torch-version = "{versions()[-1]}"' in amplint("--show-settings").out


@pytest.mark.parametrize(("version", "codes"), [("2.5", {"AMP401"}), ("2.13", set())])
def test_the_version_of_pytorch_decides_what_is_half(
    amplint: Command, project: Path, version: str, codes: set[str]
) -> None:
    """CUDA's autocast did not run `rms_norm` in float32 yet in torch 2.5."""
    script = """
        import torch
        from torch.nn import functional as F

        inputs = torch.ones(4, 4, device="cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            hidden = F.rms_norm(inputs @ inputs, (4,))
            masked = hidden.masked_fill(hidden > 0, 1e9)
    """
    write(project / "train.py", textwrap.dedent(script))
    write(project / "amplint.toml", f'torch-version = "{version}"')
    found = json.loads(amplint("--output-format", "json", "--no-cache").out)
    assert {finding["code"] for finding in found} == codes


def test_excluded_files_are_linted_when_named(amplint: Command, project: Path) -> None:
    write(project / "amplint.toml", 'exclude = ["vendor/", "*_pb.py"]')
    write(project / "vendor" / "train.py", BAD)
    write(project / "train_pb.py", BAD)
    assert amplint().err == "No Python files found.\n"
    assert amplint("train_pb.py", os.path.join("vendor", "train.py")).status == 1
