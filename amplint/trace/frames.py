"""Which line of the user's code is running."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from types import CodeType, FrameType

import torch
from torch.autograd import graph
from torch.utils import checkpoint

import amplint

_LIBRARIES = tuple(f"{Path(str(module.__file__)).parent}/" for module in (torch, amplint, contextlib))
"""Folders whose code is nobody's training script. That of contextlib is the standard library's."""
_OPTIMIZERS = f"{Path(str(torch.optim.__file__)).parent}/"
_CHECKPOINT = str(checkpoint.__file__)
_ENGINE = graph._engine_run_backward.__code__
"""The function that every backward pass begins in."""
_PACKAGES = ("/site-packages/", "/dist-packages/")

Line = tuple[str, int]
"""A file and a row; ("", 0) is no line."""

NOWHERE: Line = ("", 0)
_known: dict[str, bool] = {}


def is_own(code: CodeType) -> bool:
    """Whether `code` stands in a file of the user's."""
    own = _known.get(code.co_filename)
    if own is None:
        name = code.co_filename.replace("\\", "/")
        inside = any(package in name for package in _PACKAGES) or name.startswith(_LIBRARIES)
        own = _known[code.co_filename] = not (inside or name.startswith("<"))
    return own


def calling_frame(frame: FrameType | None = None, *, until: CodeType | None = None) -> FrameType | None:
    """The innermost frame of the user's code, or that runs `until`, from `frame` or what calls this on."""
    frame = frame or sys._getframe(1)
    known = _known.get
    while frame is not None:
        code = frame.f_code
        own = known(code.co_filename)
        if own or code is until or (own is None and is_own(code)):
            break
        frame = frame.f_back
    return frame


def calling_line(frame: FrameType | None = None) -> Line:
    """The innermost line of the user's code, from `frame` or what calls this on."""
    frame = calling_frame(frame)
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else NOWHERE


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
        if name == _CHECKPOINT or not name.startswith(_LIBRARIES):
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
