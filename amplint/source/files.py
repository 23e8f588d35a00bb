"""Regular files, read without waiting for anybody."""

from __future__ import annotations

import errno
import os
import stat


def read(path: str | os.PathLike[str], limit: int | None = None) -> bytes:
    """The content of a regular file.

    Nothing else is opened: a FIFO would wait for a writer, and a device has no end. Raises OSError where the file
    cannot be read, is not regular or holds more than `limit` bytes.
    """
    _require_regular(os.stat(path), path)
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(os.open(path, flags), "rb") as file:
        _require_regular(os.fstat(file.fileno()), path)
        content: bytes | None = file.read() if limit is None else file.read(limit + 1)
    if content is None:  # a file of the kernel that has nothing to say now
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), os.fspath(path))
    if limit is not None and len(content) > limit:
        raise OSError(errno.EFBIG, f"the file is larger than {limit:,} bytes", os.fspath(path))
    return content


def _require_regular(status: os.stat_result, path: str | os.PathLike[str]) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
