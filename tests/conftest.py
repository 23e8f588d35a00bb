"""Running the command inside the test process, and rules of a plug-in made up for a test."""

from __future__ import annotations

import gc
import io
import os
import sys
import tempfile
import textwrap
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from proof.client import ProofServer

from amplint.cli.main import main

os.environ.setdefault("OMP_NUM_THREADS", "1")  # there is a process for each core
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # without bytecode most of a short run is compilation
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="amplint-tests-")  # not the cache of who runs the tests
if sys.platform == "linux":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # gloo would look up the machine's name, which can take minutes


@dataclass(frozen=True)
class Ran:
    """What a run of the command came to."""

    status: int
    out: str
    err: str


Command = Callable[..., Ran]
Plugin = Callable[[str], str]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run files with slow tests first, then those with most tests, so that processes end at about the same time."""
    tests = Counter(item.path for item in items)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path not in slow, -tests[item.path]))


def pytest_collection_finish() -> None:
    """Keep the garbage collector from walking, again and again, what is loaded and stays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(autouse=True)
def own_main(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that a test runs in this process is not what worker processes of a later test begin with."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


@pytest.fixture(autouse=True)
def excepthook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put back what shows tracebacks: programs that begin a process group leave one of PyTorch's there."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)


@pytest.fixture(scope="session")
def server() -> Iterator[ProofServer]:
    """What runs programs, each in a process of its own that has PyTorch loaded."""
    with ProofServer() as started:
        yield started


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one and looks like the top of a project."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "amplint.toml").touch()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("AMPLINT_CACHE_DIR", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    return folder


@pytest.fixture
def amplint(project: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run the command in `project`; `stdin` is what it reads from standard input."""

    def run(*arguments: str, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = capsysbinary.readouterr()
        assert "Traceback" not in err.decode()
        return Ran(int(str(ended.value.code)), out.decode(), err.decode())

    return run


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plugin:
    """Install a plug-in whose module holds the given code; the answer is the module's name."""

    def install(code: str) -> str:
        name = f"plugin_{uuid.uuid4().hex}"
        site = tmp_path / "site"
        metadata = site / f"{name}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (site / f"{name}.py").write_text(textwrap.dedent(code), encoding="utf-8")
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
        (metadata / "entry_points.txt").write_text(f"[amplint.rules]\n{name} = {name}\n", encoding="utf-8")
        monkeypatch.syspath_prepend(str(site))
        return name

    return install
