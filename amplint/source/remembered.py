"""What is said of a chunk of source, remembered for as long as the chunk is there: many files lead to the same ones."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TypeVar

from amplint.source.source import Chunk

T = TypeVar("T")


def per_chunk(function: Callable[[Chunk], T]) -> Callable[[Chunk], T]:
    """`function`, run once for each chunk."""
    known: weakref.WeakKeyDictionary[Chunk, T] = weakref.WeakKeyDictionary()

    @functools.wraps(function)
    def remembered(chunk: Chunk) -> T:
        if chunk not in known:
            known[chunk] = function(chunk)
        return known[chunk]

    return remembered
