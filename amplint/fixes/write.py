"""Replacing a file in one step, so that no reader and no crash ever sees half of it."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from amplint.hardening import Uninterrupted


class FileChangedError(OSError):
    """The file no longer holds what was read from it, so that writing would undo someone's work."""


def replace_file(path: str | os.PathLike[str], raw: bytes, *, expected: bytes) -> None:
    """Put `raw` in the place of the content of a regular file, keeping its permissions and, if allowed, its owner.

    A symbolic link stays, its target is replaced. Raises FileChangedError when the file does not hold `expected`, and
    OSError when it is missing, not a regular file, not writable or cannot be replaced; the file then is as it was.
    """
    target = Path(os.path.realpath(path, strict=True))
    status = target.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"{target} is not a regular file")
    with Uninterrupted():
        _replace(target, status, raw, expected)


def create_file(path: str | os.PathLike[str], raw: bytes) -> None:
    """Put a new file with the content `raw` at `path`, at once. Raises OSError, FileExistsError where there is one."""
    target = Path(path)
    with Uninterrupted():
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:40]}.", suffix=".tmp", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as temporary:
                temporary.write(raw)
                temporary.flush()
                os.fsync(temporary.fileno())
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            os.chmod(name, stat.S_IMODE(target.stat().st_mode))
            os.replace(name, target)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(name)
            raise


def _replace(target: Path, status: os.stat_result, raw: bytes, expected: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:40]}.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as temporary:
            temporary.write(raw)
            temporary.flush()
            os.fsync(temporary.fileno())
        _copy_owner(name, status)
        os.chmod(name, stat.S_IMODE(status.st_mode))
        with open(target, "r+b") as current:
            if current.read() != expected:
                raise FileChangedError(f"{target} was changed by someone else meanwhile")
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
