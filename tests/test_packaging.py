"""The package as it is installed: every module and data file arrives, from a wheel and from an editable install."""

from __future__ import annotations

import configparser
import itertools
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS = {"amplint": "amplint", "rules": "amplint/ruleset"}
"""Folder of the checkout -> folder of the installed package."""

LOAD = """
from amplint.rule import Registry
import amplint, amplint.ruleset
from amplint.torchlib.tables import policy
assert policy().lower["cuda"]
registry = Registry().load()
print(amplint.__file__, amplint.ruleset.__file__, *registry.rules)
assert not registry.broken, registry.broken
"""


def installed_names() -> set[str]:
    """Where every module and data file of the checkout has to be in the wheel."""
    return {
        f"{installed}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder, installed in FOLDERS.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a build reads, so that building leaves nothing in the real one."""
    copy = tmp_path_factory.mktemp("checkout")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    return copy


def pip(*arguments: str | Path, python: Path | str = sys.executable) -> None:
    """Run pip without an index: what a build needs is part of the test environment."""
    offline = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    command, *rest = arguments
    done = subprocess.run([python, "-m", "pip", command, *offline, *rest], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--wheel-dir", folder, checkout)
    (built,) = folder.glob("amplint-*.whl")
    return built


def test_every_package_folder_is_listed() -> None:
    folders = {name.rpartition("/")[0].replace("/", ".") for name in installed_names()}
    assert folders == set(PROJECT["tool"]["setuptools"]["packages"])


def test_every_folder_of_modules_is_a_package() -> None:
    installed = installed_names()
    for name in installed:
        assert f"{name.rpartition('/')[0]}/__init__.py" in installed, f"{name} is in no package"


def test_dependencies_are_few_and_have_no_upper_bound() -> None:
    project = PROJECT["project"]
    names = {dependency.partition(">=")[0] for dependency in project["dependencies"]}
    assert names == {"PyYAML", "click", "libcst", "platformdirs", "rich", "tomli"}
    for dependency in itertools.chain(project["dependencies"], *project["optional-dependencies"].values()):
        requirement = dependency.partition(";")[0]
        assert ">=" in requirement
        assert not set("<~=!").intersection(requirement.replace(">=", ""))


@pytest.mark.slow
def test_wheel_holds_everything(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata_name,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        (entries_name,) = (name for name in names if name.endswith(".dist-info/entry_points.txt"))
        metadata = archive.read(metadata_name).decode()
        entries = configparser.ConfigParser()
        entries.read_string(archive.read(entries_name).decode())
    assert {name for name in names if name.startswith("amplint/")} == installed_names()
    assert "License-Expression: MIT\n" in metadata
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert dict(entries["console_scripts"]) == {"amplint": "amplint.__main__:main"}
    assert dict(entries["pytest11"]) == {"amplint": "amplint.trace.pytest_plugin"}
    assert dict(entries["amplint.rules"]) == {"builtin": "amplint.ruleset"}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["wheel", "editable"])
def test_fresh_environment_loads_the_rules(how: str, checkout: Path, wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    scripts, site = (Path(sysconfig.get_path(kind, vars={"base": str(environment)})) for kind in ("scripts", "purelib"))
    python = scripts / Path(sys.executable).name
    # The libraries come from the test environment; its own editable install of amplint does not take part, because
    # .pth files are read only in a folder that belongs to the interpreter.
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    what = ["--editable", checkout] if how == "editable" else [wheel]
    pip("install", "--ignore-installed", *what, python=python)

    done = subprocess.run([python, "-c", LOAD], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    engine, rules, *codes = done.stdout.split()
    base = checkout if how == "editable" else site
    assert Path(engine).is_relative_to(base)
    assert Path(rules).is_relative_to(base)
    assert codes

    shown = subprocess.run([scripts / "amplint", "rule", codes[0]], cwd=tmp_path, capture_output=True, check=False)
    assert shown.returncode == 0, shown.stderr
