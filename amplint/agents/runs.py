"""The tools that run a script: a dry run and estimates of memory, each in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import anyio
from anyio.abc import Process

from amplint.agents import rendering
from amplint.agents.answers import LONGEST, Memory, Peak, Traced, cut, fitting
from amplint.agents.workspace import Refused, Workspace
from amplint.reports.text import display_path, visible_lines
from amplint.reports.trace import summary
from amplint.source.files import read
from amplint.trace.findings import findings
from amplint.trace.record import Record, UnreadableRecord

_CHILD = """
import sys
sys.path[0] = sys.path[0] or sys.prefix  # not the current folder, whose modules would come before all others
from amplint.__main__ import main
main()
"""
_PART = LONGEST // 3
"""Room of each of several parts of one answer."""


async def trace(
    workspace: Workspace, path: str, arguments: Sequence[str], options: Sequence[str], seconds: float
) -> Traced:
    """Run the script at `path` dry, with `options` of `amplint trace`, for at most `seconds`. Raises Refused."""
    script = _script(workspace, path)
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.json"
        command = ["trace", "run", "--dry-run", "--quiet", "--output", str(record), *options, script, *arguments]
        ended = await _run(command, Path(folder), workspace.root, seconds)
        output = _tail(Path(folder), ("output", "errors"))
        seen = _record(record)
    found = findings(seen) if seen else []
    shown, left_out = rendering.lines(found)
    told_summary = visible_lines(summary(seen, found)) if seen else ""
    short = cut(told_summary, _PART)
    return Traced(
        ended=ended,
        recorded=seen is not None,
        summary=short,
        findings=shown,
        left_out=left_out,
        output=output,
        truncated=bool(left_out) or short != told_summary,
    )


async def memory(
    workspace: Workspace, path: str, arguments: Sequence[str], options: Sequence[str], seconds: float
) -> Memory:
    """Estimate the GPU memory of the script at `path`, with `options` of `amplint memory`. Raises Refused."""
    script = _script(workspace, path)
    with tempfile.TemporaryDirectory() as folder:
        command = ["memory", "--output-format", "json", *options, script, *arguments]
        ended = await _run(command, Path(folder), workspace.root, seconds)
        output = _tail(Path(folder), ("errors",))
        try:
            estimates = json.loads((Path(folder) / "output").read_bytes())
        except ValueError:
            estimates = []
    peaks = [
        Peak(
            variant=each["variant"],
            total=each["total"],
            kinds=each["peak"],
            path=visible_lines(display_path(each["filename"])) if each["filename"] else "",
            row=each["row"],
            phase=each["phase"],
            refused=rendering.short(each["refused"]),
        )
        for each in estimates
    ]
    shown = fitting(peaks)
    return Memory(ended=ended, variants=shown, output=output, truncated=len(shown) < len(peaks))


def _script(workspace: Workspace, path: str) -> str:
    """The script at `path` as a command line argument that cannot be taken for an option. Raises Refused."""
    name = workspace.inside(path)
    if not os.path.isfile(os.path.join(workspace.root, name)):
        raise Refused(f"{path}: not a file")
    return os.path.join(os.curdir, name)


def _record(path: Path) -> Record | None:
    try:
        return Record.from_json(read(str(path)).decode())
    except (OSError, UnreadableRecord, UnicodeDecodeError):
        return None


async def _run(command: Sequence[str], folder: Path, root: str, seconds: float) -> str:
    """Run the command and return how it ended; its output is in `folder`, as `output` and `errors`.

    The command and its children are killed at the timeout or when the call is cancelled.
    """
    with (folder / "output").open("wb") as output, (folder / "errors").open("wb") as errors:
        process = await anyio.open_process(
            [sys.executable, "-c", _CHILD, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            cwd=root,
            start_new_session=True,
        )
        try:
            with anyio.move_on_after(seconds) as limit:
                await process.wait()
        finally:
            _end(process)
            with anyio.CancelScope(shield=True):
                await process.wait()
    if limit.cancelled_caught:
        return f"it was ended after {seconds:g} seconds"
    return f"exit status {process.returncode}"


def _end(process: Process) -> None:
    """Kill `process` and its group, which may have ended already."""
    with contextlib.suppress(ProcessLookupError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


def _tail(folder: Path, names: Sequence[str]) -> str:
    """The end of the output in the files `names`."""
    room = _PART // len(names)
    texts = []
    for name in names:
        with (folder / name).open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - room))
            texts.append(visible_lines(stream.read().decode("utf-8", "replace")))
    return "\n".join(text[-room:] for text in texts if text)
