"""The running line of the user's code, and of a library that it called."""

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
from amplint.trace.packages import package_path

_HIDDEN = tuple(f"{Path(str(module.__file__)).parent}/" for module in (torch, amplint))
"""Folders whose code is never named."""
_STANDARD = f"{Path(str(contextlib.__file__)).parent}/"
"""The folder of the standard library, which may hold those of packages."""
_OPTIMIZERS = f"{Path(str(torch.optim.__file__)).parent}/"
_CHECKPOINT = str(checkpoint.__file__)
ENGINE = graph._engine_run_backward.__code__
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
    """Count installed packages as the user's code in this context; each by its import name: `diffusers`."""
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
    """Whether the file of `code` is the user's, or of a followed package."""
    return _owner(code.co_filename) == _OWN


def is_library(code: CodeType) -> bool:
    """Whether the file of `code` is of an installed package that is not followed, PyTorch excepted."""
    return _owner(code.co_filename) == _LIBRARY


def calling(frame: FrameType | None, *, until: CodeType | None = None) -> tuple[FrameType | None, Line]:
    """The innermost frame of the user's code, or of the code `until`, from `frame` on, and the library line before it.

    The library line is the innermost one, NOWHERE if there is none.
    """
    known = _known.get
    library = NOWHERE
    while frame is not None:
        code = frame.f_code
        owner = known(code.co_filename)
        if owner is None:
            owner = _owner(code.co_filename)
        if owner == _OWN or code is until:
            break
        if owner == _LIBRARY and library is NOWHERE:
            library = (code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return frame, library


def calling_line(frame: FrameType | None = None) -> Line:
    """The innermost line of the user's code, from `frame` or the caller on."""
    return calling_lines(frame or sys._getframe(1))[0]


def calling_lines(frame: FrameType | None) -> tuple[Line, Line]:
    """The innermost line of the user's code from `frame` on, and of a library called from it; NOWHERE for none."""
    caller, library = calling(frame)
    return ((caller.f_code.co_filename, caller.f_lineno) if caller is not None else NOWHERE), library


def is_in_optimizer() -> bool:
    """Whether the running code is called by an optimizer of PyTorch, and not by the user's closure."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_own(frame.f_code):
        if frame.f_code.co_filename.startswith(_OPTIMIZERS):
            return True
        frame = frame.f_back
    return False


def is_called_back() -> bool:
    """Whether the backward pass called Python code that runs now, such as a checkpoint's recomputation.

    Otherwise it runs an operator of its own, which with `create_graph` may have gradients.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not ENGINE:
        name = frame.f_code.co_filename
        if name == _CHECKPOINT or not name.startswith((*_HIDDEN, _STANDARD)):
            return True
        frame = frame.f_back
    return False


def raising_line(failure: BaseException) -> Line:
    """The innermost line of the user's code in an exception's traceback."""
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
    package = package_path(name)
    if name.startswith(("<", *_HIDDEN)) or (not package and name.startswith(_STANDARD)):
        return _OTHER
    return _LIBRARY if package and not package.startswith(_followed) else _OWN
