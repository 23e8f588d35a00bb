"""Reading of regular files, without blocking."""

from __future__ import annotations

import errno
import os
import stat


def read(path: str | os.PathLike[str], limit: int | None = None) -> bytes:
    """The content of a regular file.

    Nothing else is opened: a FIFO would block, and a device has no end. Raises OSError if the file cannot be read, is
    not regular or exceeds `limit` bytes.
    """
    _require(os.stat(path), path, limit)
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(os.open(path, flags), "rb") as file:
        _require(os.fstat(file.fileno()), path, limit)
        content: bytes | None = file.read() if limit is None else file.read(limit + 1)
    if content is None:  # a kernel file without data at the moment
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), os.fspath(path))
    if limit is not None:
        require_size(len(content), limit, path)
    return content


def require_size(size: int, limit: int, path: str | os.PathLike[str]) -> None:
    """Raise OSError if `size`, in bytes, exceeds `limit`."""
    if size > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit:,} bytes", os.fspath(path))


def _require(status: os.stat_result, path: str | os.PathLike[str], limit: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    if limit is not None:
        require_size(status.st_size, limit, path)
