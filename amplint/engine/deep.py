"""A thread with a stack large enough to parse deeply nested programs; one per process, started on demand.

In a browser (Emscripten) there are no threads: calls run in place, as deep as the stack there allows.
"""

from __future__ import annotations

import functools
import gc
import queue
import sys
import threading
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
_THREADS = sys.platform != "emscripten"


def call_deep(function: Callable[..., T], *arguments: Any) -> T:
    """Return `function(*arguments)`, run in the deep thread; exceptions propagate to the caller."""
    if not _THREADS or threading.current_thread().name == _NAME:
        return function(*arguments)
    with _starting:
        thread = _thread()
    answer: T = thread.call(_call_in_large_frame, function, *arguments)
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


class _DeepThread:
    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...], _Answers]] = queue.SimpleQueue()
        before = threading.stack_size()
        for mebibytes in _STACKS_MIB:
            try:
                threading.stack_size(mebibytes << 20)
                threading.Thread(target=self._serve, name=_NAME, daemon=True).start()
                break
            except (RuntimeError, ValueError):  # not enough address space
                continue
            finally:
                threading.stack_size(before)
        else:
            threading.Thread(target=self._serve, name=_NAME, daemon=True).start()

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        answers: _Answers = queue.SimpleQueue()
        self._calls.put((function, arguments, answers))
        answer, failure = answers.get()
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
