"""Caches of facts about source code, kept per chunk or until a file has been analysed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from amplint.source.source import Chunk

P = ParamSpec("P")
T = TypeVar("T")

_ENTRIES = 2_048
_forgotten: list[Callable[[], None]] = []


def cached_per_chunk(function: Callable[[Chunk], T]) -> Callable[[Chunk], T]:
    """Cache `function` per chunk; its result must contain no nodes, since the tree may be discarded."""

    @functools.wraps(function)
    def remembered(chunk: Chunk) -> T:
        if function not in chunk.of_text:
            chunk.of_text[function] = function(chunk)
        found: T = chunk.of_text[function]
        return found

    return remembered


def cached_per_tree(function: Callable[[Chunk], T]) -> Callable[[Chunk], T]:
    """Cache `function` per tree of a chunk; its result may contain nodes of the tree."""

    @functools.wraps(function)
    def remembered(chunk: Chunk) -> T:
        if function not in chunk.of_tree:
            chunk.of_tree[function] = function(chunk)
        found: T = chunk.of_tree[function]
        return found

    return remembered


def cached_per_file(function: Callable[P, T]) -> Callable[P, T]:
    """Cache `function` by its arguments until `forget`, which bounds the lifetime of syntax trees among them."""
    cached = functools.lru_cache(_ENTRIES)(function)
    _forgotten.append(cached.cache_clear)
    return cached  # type: ignore[return-value]  # whose parameters are any hashable ones to `functools`


def forget() -> None:
    """Clear the caches of `cached_per_file` after the analysis of a file."""
    for clear in _forgotten:
        clear()
