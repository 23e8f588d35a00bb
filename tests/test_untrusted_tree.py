"""No code of the linted tree runs: traps lie there under every name that amplint or its dependencies could import."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import site
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from amplint import hardening
from amplint.engine.run import POOL_BYTES, cores
from tests.conftest import Command

LARGE = 12
"""Files that are large enough together to be analysed in worker processes."""

SCRIPT = """\
import torch
from torch.cuda.amp import GradScaler, autocast

scaler = GradScaler()


def train(model, loader, optimizer):
    for x in loader:
        optimizer.zero_grad()
        with autocast():
            loss = model(x).mean()
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""

OPTIONAL = ("IPython", "attr", "colorama", "evil_plugin", "hyperscan", "ipywidgets", "numpy", "re2", "torch")
"""Modules that dependencies try to import although nobody requires them, and the one that the metadata below names."""

HOOKS = ("conftest", "sitecustomize", "usercustomize", "setup")

METADATA = {
    "evil-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n",
    "evil-1.0.dist-info/entry_points.txt": "[amplint.rules]\ne = evil_plugin\n[pygments.lexers]\ne = evil_plugin:E\n",
    "worse.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: worse\nVersion: 1.0\n",
    "worse.egg-info/entry_points.txt": "[amplint.rules]\nworse = evil_plugin\n",
}


def imported_by_python(folder: Path) -> set[str]:
    """The modules that `python -m` imports before the first line of the module that it runs."""
    (folder / "probe.py").write_text("import sys\nprint(*{name.partition('.')[0] for name in sys.modules})", "utf-8")
    command = [sys.executable, "-m", "probe"]
    return set(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.split())


def trap(log: Path, name: str) -> str:
    """A module that leaves its name in `log` when it is run."""
    return f"with open({str(log)!r}, 'a') as log:\n    log.write({name + ' '!r})\nraise ImportError({name!r})\n"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where traps that fire leave their names."""
    return tmp_path_factory.mktemp("log") / "fired"


@pytest.fixture(scope="module")
def trapped(tmp_path_factory: pytest.TempPathFactory, log: Path) -> Path:
    """A folder full of traps and of scripts to lint."""
    folder = tmp_path_factory.mktemp("trapped")
    names = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions(), *OPTIONAL, *HOOKS}
    for name in names - {"amplint"}:
        if name.isidentifier():
            (folder / f"{name}.py").write_text(trap(log, name), encoding="utf-8")
    for name, text in METADATA.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    padding = "# what makes the file large\n" * (POOL_BYTES // LARGE // 25)
    for number in range(LARGE):
        (folder / f"train{number}.py").write_text(SCRIPT + padding, encoding="utf-8")
    return folder


COMMANDS = {
    "check": ("{folder}", "--no-cache"),
    "check with a cache": ("{folder}",),
    "fix": ("{folder}", "--fix"),
    "diff": ("{folder}", "--diff"),
    "convert": ("convert", "--from", "cuda-amp", "--write", "{folder}/train0.py"),
    "convert to amp": ("convert", "--to", "amp", "{folder}/train0.py"),
    "rule": ("rule", "AMP205"),
    "settings": ("--show-settings", "{folder}"),
}


def in_pairs() -> Iterator[tuple[str, str, str]]:
    """Of commands, where they are started and how, each with each other, but not all three."""
    for number, command in enumerate(COMMANDS):
        ways = ("script", "module") if number % 2 else ("module", "script")
        yield from ((command, where, how) for where, how in zip(("inside", "elsewhere"), ways, strict=True))


@pytest.mark.skipif(cores() < 2, reason="one processor core needs no worker processes")
@pytest.mark.parametrize(("command", "where", "how"), [*in_pairs()])
def test_no_trap_fires(trapped: Path, log: Path, tmp_path: Path, command: str, where: str, how: str) -> None:
    folder = shutil.copytree(trapped, tmp_path / "tree")
    if how == "script":
        (folder / "amplint.py").write_text(trap(log, "amplint"), encoding="utf-8")
    else:
        for name in imported_by_python(tmp_path):
            (folder / f"{name}.py").unlink(missing_ok=True)
    (tmp_path / "elsewhere").mkdir()
    inside = where == "inside"
    start = [str(Path(sys.executable).with_name("amplint"))] if how == "script" else [sys.executable, "-m", "amplint"]
    arguments = [argument.format(folder="." if inside else folder) for argument in COMMANDS[command]]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ran = subprocess.run(
        [*start, *arguments],
        cwd=folder if inside else tmp_path / "elsewhere",
        env={**environment, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    fired = log.read_text(encoding="utf-8") if log.exists() else ""
    log.unlink(missing_ok=True)
    assert not fired
    assert "failed" not in ran.stderr
    assert ran.returncode in (0, 1), ran.stderr
    if command.startswith("check"):
        assert ran.stdout.count("AMP205") == LARGE


@pytest.fixture
def search_path(project: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The search path of this process, which `project` and folders below, beside and above it are put on."""
    added = [str(project), str(project / "src"), str(project.parent), str(project.parent / "site"), "src", ""]
    monkeypatch.setattr(sys, "path", [*added[:3], *sys.path, *added[3:]])
    return added


def test_the_linted_folder_and_what_lies_in_it_leave_the_search_path(
    search_path: list[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top, below, above, beside, *_ = search_path
    before = list(sys.path)
    hardening.distrust([str(project)])
    assert sys.path == [entry for entry in before if entry not in (top, below, "src", "")]
    assert {above, beside} <= set(sys.path)


def test_dependencies_of_an_application_may_lie_in_the_linted_folder(
    search_path: list[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top, below, *_ = search_path
    monkeypatch.setattr(hardening, "_own_folders", lambda: [os.path.dirname(os.__file__)])
    hardening.distrust([str(project)])
    assert below in sys.path
    assert top not in sys.path


def test_python_itself_may_lie_in_the_linted_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = [os.path.dirname(os.__file__), *site.getsitepackages()]
    monkeypatch.setattr(sys, "path", installed)
    hardening.distrust([os.path.commonpath(installed)])
    assert sys.path == installed


def test_plugins_of_the_linted_folder_are_no_plugins(
    amplint: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "evil-1.0.dist-info").mkdir()
    for name, text in METADATA.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    (project / "evil_plugin.py").write_text(trap(project / "fired", "plug-in"), encoding="utf-8")
    monkeypatch.syspath_prepend(project)
    assert amplint(str(project)).status == 0
    assert amplint("convert", "--from", "cuda-amp", ".").status == 0
    assert not (project / "fired").exists()


@pytest.mark.parametrize("arguments", [("trace", "-q", "show.py"), ("trace", "-q", "-m", "show")])
@pytest.mark.parametrize("how", ["script", "module"])
def test_a_script_that_is_traced_finds_what_it_finds_without(
    tmp_path: Path, how: str, arguments: tuple[str, ...]
) -> None:
    shown = "import signal, sys\nprint(sys.path, signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
    (tmp_path / "show.py").write_text(shown, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([".", "src", os.environ.get("PYTHONPATH", "")])}
    start = [str(Path(sys.executable).with_name("amplint"))] if how == "script" else [sys.executable, "-m", "amplint"]
    plain, traced = (
        subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False).stdout
        for command in ([sys.executable, *arguments[2:]], [*start, *arguments])
    )
    assert plain.endswith("True\n")
    assert traced == plain


AUDITED = """\
import sys
from amplint.__main__ import main

STARTS = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"}
REACHES = {"socket.connect", "socket.getaddrinfo", "socket.sendto", "urllib.Request"}


def watch(event, arguments):
    if event in STARTS | REACHES:
        print("AUDIT", event, arguments, file=sys.stderr)


sys.addaudithook(watch)
main()
"""


@pytest.mark.parametrize(
    "arguments", [("check", "."), ("check", "--fix", "."), ("convert", "--to", "amp", "."), ("rule", "AMP201")]
)
def test_no_program_is_started_and_nothing_is_connected_to(project: Path, arguments: tuple[str, ...]) -> None:
    (project / "train.py").write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-c", AUDITED, *arguments]
    ran = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert ran.returncode in (0, 1), ran.stderr
    assert "AUDIT" not in ran.stderr, ran.stderr
