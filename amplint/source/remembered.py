"""Caches of what is read off source code: kept for a chunk, or until a file has been analysed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from amplint.source.source import Chunk

P = ParamSpec("P")
T = TypeVar("T")

_ENTRIES = 2_048
_forgotten: list[Callable[[], None]] = []


def per_chunk(function: Callable[[Chunk], T]) -> Callable[[Chunk], T]:
    """`function`, run once for each chunk; what it returns must hold no nodes, since the tree may be forgotten."""

    @functools.wraps(function)
    def remembered(chunk: Chunk) -> T:
        if function not in chunk.of_text:
            chunk.of_text[function] = function(chunk)
        found: T = chunk.of_text[function]
        return found

    return remembered


def per_tree(function: Callable[[Chunk], T]) -> Callable[[Chunk], T]:
    """`function`, run once for each tree of a chunk: what it returns may hold nodes of the tree."""

    @functools.wraps(function)
    def remembered(chunk: Chunk) -> T:
        if function not in chunk.of_tree:
            chunk.of_tree[function] = function(chunk)
        found: T = chunk.of_tree[function]
        return found

    return remembered


def per_file(function: Callable[P, T]) -> Callable[P, T]:
    """`function`, run once for the same arguments until `forget`: syntax trees among them are not kept any longer."""
    cached = functools.lru_cache(_ENTRIES)(function)
    _forgotten.append(cached.cache_clear)
    return cached  # type: ignore[return-value]  # whose parameters are any hashable ones to `functools`


def forget() -> None:
    """Drop what `per_file` has kept: a file has been analysed."""
    for clear in _forgotten:
        clear()
