"""Which line of the user's code is running, and which of a library that it has called."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from types import CodeType, FrameType

import torch
from torch.autograd import graph
from torch.utils import checkpoint

import amplint
from amplint.trace.packages import packaged

_HIDDEN = tuple(f"{Path(str(module.__file__)).parent}/" for module in (torch, amplint))
"""Folders whose code is never named."""
_STANDARD = f"{Path(str(contextlib.__file__)).parent}/"
"""The folder of the standard library, which may hold those of packages."""
_OPTIMIZERS = f"{Path(str(torch.optim.__file__)).parent}/"
_CHECKPOINT = str(checkpoint.__file__)
_ENGINE = graph._engine_run_backward.__code__
"""The function that every backward pass begins in."""
_OWN, _LIBRARY, _OTHER = 1, 2, 0
"""Whose code a file holds: the user's, that of an installed package, or PyTorch's, Python's and the tracer's."""

Line = tuple[str, int]
"""A file and a row; ("", 0) is no line."""

NOWHERE: Line = ("", 0)
_known: dict[str, int] = {}
_followed: tuple[str, ...] = ()


@contextlib.contextmanager
def following(packages: Collection[str]) -> Iterator[None]:
    """Count installed packages as the user's code in this context; each is named as it is imported: `diffusers`."""
    global _followed
    paths = [package.replace(".", "/") for package in packages]
    before, _followed = _followed, tuple(f"{path}{end}" for path in paths for end in ("/", ".py"))
    _known.clear()
    try:
        yield
    finally:
        _followed = before
        _known.clear()


def is_own(code: CodeType) -> bool:
    """Whether `code` stands in a file of the user's, or of a package that is followed."""
    return _owner(code.co_filename) == _OWN


def is_library(code: CodeType) -> bool:
    """Whether `code` stands in a file of an installed package that is not followed, PyTorch's left out."""
    return _owner(code.co_filename) == _LIBRARY


def calling_frame(frame: FrameType | None = None) -> FrameType | None:
    """The innermost frame of the user's code, from `frame` or what calls this on."""
    frame = frame or sys._getframe(1)
    known = _known.get
    while frame is not None:
        owner = known(frame.f_code.co_filename)
        if owner == _OWN or (owner is None and is_own(frame.f_code)):
            break
        frame = frame.f_back
    return frame


def calling_line(frame: FrameType | None = None) -> Line:
    """The innermost line of the user's code, from `frame` or what calls this on."""
    frame = calling_frame(frame or sys._getframe(1))
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else NOWHERE


def calling_lines() -> tuple[Line, Line]:
    """The innermost line of the user's code, and that of a library that it has called; NOWHERE where there is none."""
    known = _known.get
    library = NOWHERE
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        owner = known(name)
        if owner is None:
            owner = _owner(name)
        if owner:
            if owner == _OWN:
                return (name, frame.f_lineno), library
            if library is NOWHERE:
                library = (name, frame.f_lineno)
        frame = frame.f_back
    return NOWHERE, library


def is_in_optimizer() -> bool:
    """Whether an optimizer of PyTorch's has called what runs, rather than the user's code in a closure."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_own(frame.f_code):
        if frame.f_code.co_filename.startswith(_OPTIMIZERS):
            return True
        frame = frame.f_back
    return False


def is_called_back() -> bool:
    """Whether the backward pass has called Python code that runs now, such as a checkpoint that computes again.

    Otherwise it runs by itself, and with `create_graph` it may have gradients of its own.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not _ENGINE:
        name = frame.f_code.co_filename
        if name == _CHECKPOINT or not name.startswith((*_HIDDEN, _STANDARD)):
            return True
        frame = frame.f_back
    return False


def raising_line(failure: BaseException) -> Line:
    """The innermost line of the user's code that an exception came through."""
    line, trace = NOWHERE, failure.__traceback__
    while trace is not None:
        if is_own(trace.tb_frame.f_code):
            line = (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return line


def _owner(filename: str) -> int:
    owner = _known.get(filename)
    if owner is None:
        owner = _known[filename] = _find_owner(filename)
    return owner


def _find_owner(filename: str) -> int:
    name = filename.replace("\\", "/")
    package = packaged(name)
    if name.startswith(("<", *_HIDDEN)) or (not package and name.startswith(_STANDARD)):
        return _OTHER
    return _LIBRARY if package and not package.startswith(_followed) else _OWN
