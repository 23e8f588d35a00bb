"""Linting of one repository in a process of its own, which may hang, crash or be killed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import selectors
import subprocess
import sys
import time
from dataclasses import field
from pathlib import Path
from typing import Any

from amplint import __version__
from amplint.adoption.git import GitError, Repository
from amplint.records import dataclass
from amplint.source.files import read

ATTEMPTS = 5
"""How often a repository is begun at most; each time without the file at which it ended before."""
_SUFFIXES = (".py", ".ipynb")
_SETTINGS = ("amplint.toml", "pyproject.toml", ".gitignore")
_TAIL = 500


@dataclass(frozen=True)
class Options:
    """How repositories are linted.

    `config` is the configuration file for all of them; the defaults without one. The repositories' own configuration
    applies only with `own_settings`: strangers write it, and it can switch rules off. A file may take `seconds`, and a
    process `memory` bytes of address space.
    """

    config: str | None = None
    own_settings: bool = False
    seconds: float = 60.0
    memory: int = 6 << 30


@dataclass(frozen=True)
class Linted:
    """The result for a repository: `status` is `done`, `partly` if files were skipped, or `failed`.

    `findings` are rows of a table, `skipped` maps skipped files to the reason.
    """

    repository: str
    key: str
    status: str
    commit: str = ""
    reason: str = ""
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    skipped: dict[str, str] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)


class _Ended(Exception):
    """The process ended early; `file` is the file it was analysing, None if unknown."""

    def __init__(self, reason: str, file: str | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.file = file


def lint_repository(folder: str, options: Options, key: str = "") -> Linted:
    """Lint the repository in `folder`. The repository's content cannot make it raise."""
    began, cpu = time.monotonic(), _children()
    skipped: dict[str, str] = {}
    status, reason, said = "failed", "", dict[str, Any]()
    for _ in range(ATTEMPTS):
        try:
            said = _attempt(folder, options, skipped)
        except _Ended as ended:
            reason = ended.reason
            if ended.file is None or ended.file in skipped:
                break
            skipped[ended.file] = reason
        else:
            reason = said.get("failure", "")
            status = "failed" if reason else "partly" if skipped else "done"
            break
    return Linted(
        repository=folder,
        key=key or key_of(folder, options),
        status=status,
        commit=_commit(folder),
        reason=reason,
        files=said.get("files", 0),
        bytes=said.get("bytes", 0),
        seconds=round(time.monotonic() - began, 3),
        cpu_seconds=round(_children() - cpu, 3),
        skipped=skipped,
        findings=said.get("findings", []),
    )


def key_of(folder: str, options: Options) -> str:
    """A digest of what a repository's findings depend on: amplint's version, the options, and all files that are read.

    Raises OSError for a configuration file that cannot be read.
    """
    digest = hashlib.blake2b(f"{__version__} {options}".encode(), digest_size=16)
    if options.config is not None:
        digest.update(read(options.config))
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(names):
            if name.endswith(_SUFFIXES) or name in _SETTINGS:
                path = os.path.join(place, name)
                digest.update(os.fsencode(os.path.relpath(path, folder)) + b"\0")
                with contextlib.suppress(OSError):
                    digest.update(hashlib.blake2b(read(path)).digest())
    return digest.hexdigest()


def _attempt(folder: str, options: Options, skipped: dict[str, str]) -> dict[str, Any]:
    """The process's final message. Raises _Ended."""
    config = None if options.config is None else os.path.abspath(options.config)
    wish = {"folder": os.path.abspath(folder), "skip": [*skipped], "config": config, "memory": options.memory}
    wish["own_settings"] = options.own_settings
    process = subprocess.Popen(
        [sys.executable, "-m", "amplint.fleet.child"],
        cwd=Path(__file__).parents[2],  # the search path begins with that folder, never with the repository
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        try:
            return _followed(process, json.dumps(wish).encode(), options.seconds)
        finally:
            process.kill()


def _followed(process: subprocess.Popen[bytes], wish: bytes, seconds: float) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(wish)
        process.stdin.close()
    at: str | None = None
    pending, tail = b"", b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        deadline = time.monotonic() + seconds
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise _Ended(f"takes longer than {seconds:g} s", at)
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stderr:
                    tail = (tail + chunk)[-_TAIL:]
                else:
                    *lines, pending = (pending + chunk).split(b"\n")
                    for said in map(json.loads, lines):
                        if "begins" not in said:
                            answer: dict[str, Any] = said
                            return answer
                        at, deadline = said["begins"], time.monotonic() + seconds
    status = process.wait()
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    last = tail.decode(errors="replace").strip().rpartition("\n")[2]
    raise _Ended(f"the process {how}{f': {last}' if last else ''}", at)


def _commit(folder: str) -> str:
    if not os.path.exists(os.path.join(folder, ".git")):
        return ""
    try:
        return Repository(folder).commit("HEAD")
    except (GitError, OSError):
        return ""


def _children() -> float:
    """The CPU seconds of this process's finished children."""
    times = os.times()
    return times.children_user + times.children_system
