"""A thread with a stack large enough to parse deeply nested programs; one per process, started on demand.

In a browser (Emscripten) there are no threads: calls run in place, as deep as the stack there allows.
"""

from __future__ import annotations

import functools
import gc
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
_Answers = queue.SimpleQueue[tuple[Any, "BaseException | None"]]

_starting = threading.Lock()
_NAME = "amplint-deep"
_STACKS_MIB = (512, 128, 32)
_RECURSION_LIMIT = 50_000
_FRAME_WORDS = 600_000
_ALLOCATIONS_PER_COLLECTION = 500_000
_PATIENCE_S = 1.0
_THREADS = sys.platform != "emscripten"


class TookTooLong(BaseException):
    """A call in the deep thread has used all its CPU time."""


def call_deep(function: Callable[..., T], *arguments: Any, seconds: float = float("inf")) -> T:
    """Return `function(*arguments)`, run in the deep thread; exceptions propagate to the caller.

    Raises TookTooLong after `seconds` of CPU time of this process, unless it is in compiled code, as a search by a
    regular expression is.
    """
    if not _THREADS or threading.current_thread().name == _NAME:
        return function(*arguments)
    with _starting:
        thread = _thread()
    answer: T = thread.call(seconds, _call_in_large_frame, function, *arguments)
    return answer


def _call_in_large_frame(function: Callable[..., T], *arguments: Any) -> T:
    """Return `function(*arguments)`, called below a frame so large that CPython maps memory for many more with it.

    CPython from 3.11 on allocates frames in chunks of 16 KiB and unmaps a chunk when its first frame ends: recursion
    that crosses the edge of a chunk repeatedly maps and unmaps it each time.
    """
    return function(*arguments)


_call_in_large_frame.__code__ = _call_in_large_frame.__code__.replace(co_stacksize=_FRAME_WORDS)


def collect_rarely() -> None:
    """Raise this process's garbage collection threshold: syntax trees and paths are many objects without cycles."""
    gc.set_threshold(_ALLOCATIONS_PER_COLLECTION)
    gc.enable()


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Raise the recursion limit to what the deep thread's stack holds. Use only inside `call_deep`."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT if _THREADS else 0))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _interrupt(thread: threading.Thread) -> None:
    """Let the next bytecode of `thread` raise TookTooLong."""
    import ctypes  # slow, and rarely needed

    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(TookTooLong))


class _DeepThread:
    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...], _Answers]] = queue.SimpleQueue()
        before = threading.stack_size()
        for mebibytes in _STACKS_MIB:
            try:
                threading.stack_size(mebibytes << 20)
                self._thread = self._started()
                break
            except (RuntimeError, ValueError):  # not enough address space
                continue
            finally:
                threading.stack_size(before)
        else:
            self._thread = self._started()

    def _started(self) -> threading.Thread:
        thread = threading.Thread(target=self._serve, name=_NAME, daemon=True)
        thread.start()
        return thread

    def call(self, seconds: float, function: Callable[..., T], *arguments: Any) -> T:
        answers: _Answers = queue.SimpleQueue()
        end = time.process_time() + seconds
        self._calls.put((function, arguments, answers))
        while True:
            try:
                answer, failure = answers.get(timeout=_PATIENCE_S)
                break
            except queue.Empty:
                if time.process_time() > end:
                    _interrupt(self._thread)
        if failure is not None:
            raise failure
        return answer  # type: ignore[no-any-return]

    def _serve(self) -> None:
        while True:
            function, arguments, answers = self._calls.get()
            try:
                answers.put((function(*arguments), None))
            except BaseException as failure:
                answers.put((None, failure))


@functools.cache
def _thread() -> _DeepThread:
    return _DeepThread()
