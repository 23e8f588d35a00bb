"""Read access to an untrusted git repository: objects and references only, nothing that could execute."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from amplint.records import dataclass

_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "protocol.allow": "never",
}
"""What the configuration of the repository has no say in. None of the commands below compares with files, for which git
would run filters and drivers, and none may fetch, for which it would run transports."""
_DROPPED = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_EXTERNAL_DIFF")
_TIMEOUT_S = 120
_BLOB_LIMIT = 100_000_000


class GitError(Exception):
    """A failed query to git; the message is one line for the user."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A file of a commit."""

    path: str
    name: str


class Repository:
    """The repository with the top folder `top`. Raises GitError if git is not installed."""

    def __init__(self, top: str) -> None:
        self.top = top
        self._program = _program()

    def base(self, revision: str) -> str:
        """The merge base of `revision` and HEAD. Raises GitError."""
        if not revision or revision.startswith("-") or not revision.isprintable():
            raise GitError(f"{revision!r} is not a revision")
        commit = self.commit(revision)
        found = self._run(["merge-base", "--", commit, self.commit("HEAD")], allowed=(0, 1)).strip()
        if not found:
            raise GitError(f"{self.top}: {revision!r} and HEAD have no commit in common; a shallow clone needs more")
        return found.decode("ascii")

    def blobs(self, commit: str) -> list[Blob]:
        """The regular files of `commit`, without links and submodules. Raises GitError."""
        listing = self._run(["ls-tree", "-r", "-z", "--full-tree", commit])
        found = []
        for line in listing.split(b"\0"):
            facts, _, path = line.partition(b"\t")
            mode, _, name = facts.partition(b" blob ")
            if mode in (b"100644", b"100755", b"100664"):
                found.append(Blob(os.fsdecode(path), name.decode("ascii")))
        return found

    def content(self, blob: Blob) -> bytes:
        """The content of `blob`, empty if it exceeds the size limit of Python files. Raises GitError."""
        size = int(self._run(["cat-file", "-s", blob.name]))
        return self._run(["cat-file", "blob", blob.name]) if size <= _BLOB_LIMIT else b""

    def commit(self, revision: str) -> str:
        """The commit that `revision` names. Raises GitError."""
        command = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
        found = self._run(command, allowed=(0, 1)).strip().decode("ascii", "replace")
        if not found or not set(found) <= set("0123456789abcdef"):
            raise GitError(f"{self.top}: git knows no revision {revision!r}")
        return found

    def _run(self, arguments: Sequence[str], allowed: Sequence[int] = (0,)) -> bytes:
        settings = [word for key, value in _SETTINGS.items() for word in ("-c", f"{key}={value}")]
        try:
            ran = subprocess.run(
                [self._program, "--no-pager", "--no-replace-objects", *settings, *arguments],
                cwd=self.top,
                env=_environment(self.top),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as failure:
            raise GitError(f"{self.top}: git {arguments[0]} failed: {failure}") from None
        if ran.returncode not in allowed:
            why = ran.stderr.decode(errors="replace").strip().partition("\n")[0]
            raise GitError(f"{self.top}: git {arguments[0]} failed: {why or f'status {ran.returncode}'}")
        return ran.stdout


def top_of(folder: str) -> str | None:
    """The top folder of the repository around the absolute `folder`, None outside of any."""
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder


def _program() -> str:
    """The absolute path of git, never one that depends on the current folder."""
    folders = [entry for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(entry)]
    found = shutil.which("git", path=os.pathsep.join(folders))
    if found is None or not os.path.isabs(found):
        raise GitError("--diff-base needs git, which is not installed")
    return found


def _environment(top: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    kept.update(
        GIT_CEILING_DIRECTORIES=os.path.dirname(top),
        GIT_OPTIONAL_LOCKS="0",
        GIT_TERMINAL_PROMPT="0",
        GIT_NO_LAZY_FETCH="1",
        GIT_ALLOW_PROTOCOL="none",
        LC_ALL="C",
    )
    return kept
