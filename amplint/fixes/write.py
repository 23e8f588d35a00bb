"""Atomic replacement of files."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from amplint.hardening import Uninterrupted
from amplint.regex import regex

fcntl: Any
try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None

_NAME_KEPT = 40
_TEMPORARY = regex(rf"\.(.{{1,{_NAME_KEPT}}})\.[a-z0-9_]{{8}}\.tmp")


class FileChangedError(OSError):
    """The file changed since it was read, so that writing would overwrite someone's work."""


def replace_file(path: str | os.PathLike[str], raw: bytes, *, expected: bytes) -> None:
    """Replace the content of a regular file by `raw`, keeping its permissions and, if permitted, its owner.

    A symbolic link is kept and its target replaced. Raises FileChangedError if the file does not hold `expected`, and
    OSError if it is missing, not a regular file, not writable or cannot be replaced; the file is then unchanged.
    """
    target = Path(os.path.realpath(path, strict=True))
    status = target.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"{target} is not a regular file")
    with Uninterrupted(), _written(target, raw) as name:
        _copy_owner(name, status)
        os.chmod(name, stat.S_IMODE(status.st_mode))
        with open(target, "r+b") as current:
            if current.read() != expected:
                raise FileChangedError(f"{target} was changed by someone else meanwhile")


def create_file(path: str | os.PathLike[str], raw: bytes) -> None:
    """Create a file with the content `raw` at `path`, atomically. Raises OSError, FileExistsError if it exists."""
    target = Path(path)
    with Uninterrupted(), _written(target, raw) as name:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        os.chmod(name, stat.S_IMODE(target.stat().st_mode))


def sweep(paths: Iterable[str]) -> None:
    """Remove temporary files left beside the files at these absolute `paths` by a killed run.

    Those locked by a running process are kept.
    """
    if fcntl is None:
        return
    wanted: dict[str, set[str]] = {}
    for path in paths:
        folder, name = os.path.split(path)
        wanted.setdefault(folder, set()).add(name[:_NAME_KEPT])
    for folder, names in wanted.items():
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                found = _TEMPORARY.fullmatch(entry.name)
                if found is not None and found[1] in names and entry.is_file(follow_symlinks=False):
                    _remove_unlocked(entry.path)


def _remove_unlocked(path: str) -> None:
    with suppress(OSError), open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)


@contextmanager
def _written(target: Path, raw: bytes) -> Iterator[str]:
    """The name of a new file with the content `raw` beside `target`, which it replaces unless the block raises.

    It is locked until then.
    """
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:_NAME_KEPT]}.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as temporary:
            if fcntl is not None:
                with suppress(OSError):  # no file locks on this file system
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            temporary.write(raw)
            temporary.flush()
            os.fsync(temporary.fileno())
            yield name
            if fcntl is not None:
                os.replace(name, target)
        if fcntl is None:  # an open file cannot be renamed there
            os.replace(name, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _copy_owner(name: str, status: os.stat_result) -> None:
    current = os.stat(name)
    if (current.st_uid, current.st_gid) != (status.st_uid, status.st_gid) and hasattr(os, "chown"):
        with suppress(PermissionError):
            os.chown(name, status.st_uid, status.st_gid)
