"""The numbers that decide what a random program is made of."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

Numbers: TypeAlias = Callable[[int], int]
"""Gives a number between 0 and the limit it is asked for."""


@functools.cache
def _up_to(limit: int) -> st.SearchStrategy[int]:
    return st.integers(0, limit)


def drawn(draw: DrawFn) -> Numbers:
    """Numbers that hypothesis chooses."""
    return lambda limit: draw(_up_to(limit))


def seeded(seed: int | str) -> Numbers:
    """Numbers that are the same wherever and whenever they are asked for."""
    chance = random.Random(seed)
    return lambda limit: chance.randint(0, limit)
