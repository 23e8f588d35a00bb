"""Python commands that run in forks of a process in which PyTorch is loaded, since to load it is most of the work.

What depends on how Python starts has to be tested with a process that is started for it.
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]


def python(folder: Path, environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """What `python` with these arguments, `-m` and a module or `-c` and code first, does in `folder`."""
    with tempfile.TemporaryDirectory() as written:
        output = [str(Path(written, name)) for name in ("out", "err")]
        request = {
            "folder": str(folder),
            "environment": dict(environment),
            "arguments": arguments,
            "files": [os.devnull, *output],
        }
        server = _server()
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(f"{json.dumps(request)}\n")
        server.stdin.flush()
        try:
            status = int(server.stdout.readline())
        except BaseException:  # the test takes too long: the next one must not read its answer
            os.killpg(server.pid, signal.SIGKILL)
            end()
            raise
        out, err = (Path(path).read_text(encoding="utf-8") for path in output)
        return subprocess.CompletedProcess(arguments, status, out, err)


@functools.cache
def _server() -> subprocess.Popen[str]:
    """The process that forks."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.trace.forked"],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _requested() -> dict[str, Any] | None:
    """Fork for each request and tell how the fork has ended; in a fork, what it is asked for."""
    _load()
    for line in iter(sys.stdin.readline, ""):
        child = os.fork()
        if child == 0:
            request: dict[str, Any] = json.loads(line)
            return request
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return None


def end() -> None:
    """End the process that forks, where there is one."""
    if _server.cache_info().currsize:
        _server().terminate()
        _server().communicate()
        _server.cache_clear()


def _load() -> None:
    """Load what scripts and the command do, and what PyTorch only loads once something is trained."""
    import torch

    import amplint.cli.main
    import amplint.cli.trace
    import amplint.trace.watching

    assert amplint
    torch.optim.SGD([torch.nn.Parameter(torch.ones(1))]).zero_grad()
    gc.collect()
    gc.freeze()


def _become(request: dict[str, Any]) -> NoReturn:
    """Do what a fresh process would, and end as it does, but leave all that is loaded to the system."""
    try:
        _run(request)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            stream.flush()
    os._exit(status & 0xFF)


def _run(request: dict[str, Any]) -> None:
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for descriptor, path in enumerate(request["files"]):
        opened = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, descriptor)
        os.close(opened)
    option, what, *rest = request["arguments"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.path[0] = request["folder"] if option == "-m" else ""
    sys.argv[:] = [option, *rest]
    if option == "-m":
        runpy._run_module_as_main(what)  # type: ignore[attr-defined]
    else:
        exec(compile(what, "<string>", "exec"), sys.modules["__main__"].__dict__)


if __name__ == "__main__" and (wanted := _requested()) is not None:
    _become(wanted)
