"""Screening: the rules that can fire in a file, by a search over its raw bytes; most files need nothing more."""

from __future__ import annotations

import functools
import os
import re
import weakref
from collections.abc import Callable, Iterable, Sequence, Set
from typing import TYPE_CHECKING

from amplint.regex import regex
from amplint.rule import Rule, Screen

if TYPE_CHECKING:
    from amplint.source.source import Source

Pattern = bytes | re.Pattern[bytes]
WORD = regex(r"\w+")
FOLLOWED = (b"autocast", b"backward(", b"scaler", b"Scaler", b"unscale_", b"clip_grad")
PREPARED = (b".half()", b".bfloat16()", b"float16", b"BCELoss", b"Trainer(")
"""What a script prepares that trains by functions of other files."""
TRAINERS = (b"Trainer(", b"TrainingArguments(")
"""Objects of frameworks that train, perhaps with what functions of other files load."""
_TESTS = regex(r"(?:^|[\\/])(?:tests?[\\/]|test_[^\\/]*\.py$|[^\\/]*_test\.py$|conftest\.py$)")
"""Where pytest finds tests, and the folders that hold them."""
_IMPORT = regex(rb"^[ \t]*(?:from|import)[ \t]", re.MULTILINE)

_DTYPE_IMPORTS = regex(rb"^[ \t]*from[ \t].*?\bimport\b.*?\w*(?:dtype|DTYPE|precision|PRECISION)", re.MULTILINE)
"""Imports of names that imply a dtype."""


def follows(raw: bytes) -> bool:
    """Whether imports of the file are followed: it contains training code or runs a framework's, or prepares it."""
    trains = any(word in raw for word in FOLLOWED)
    prepares = b"__main__" in raw and any(word in raw for word in PREPARED)
    managed = (b".train(" in raw or b".fit(" in raw) and any(word in raw for word in TRAINERS)
    return (trains or prepares or managed or _DTYPE_IMPORTS.search(raw) is not None) and _IMPORT.search(raw) is not None


def is_test(filename: str) -> bool:
    """Whether a file contains tests, by its path below the working directory.

    No dtype is assumed there: tests choose their dtypes.
    """
    return not os.path.isabs(filename) and _TESTS.search(filename) is not None


class Signs:
    """Occurrence of bytes and patterns in a text; each is searched once."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._known: dict[Pattern, bool] = {}

    def has(self, pattern: Pattern) -> bool:
        """Whether `pattern` occurs."""
        found = self._known.get(pattern)
        if found is None:
            found = pattern in self._raw if isinstance(pattern, bytes) else pattern.search(self._raw) is not None
            self._known[pattern] = found
        return found


_signs: weakref.WeakKeyDictionary[Source, Signs] = weakref.WeakKeyDictionary()


def screen(rules: Sequence[type[Rule]], raw: bytes, asked: Set[str] = frozenset()) -> tuple[type[Rule], ...]:
    """The rules whose `screen` matches `raw`, or that are `asked` for and whose `assumed` matches, in order."""
    return _satisfied(rules, Signs(raw).has, asked)


def screen_together(
    rules: Sequence[type[Rule]], raw: bytes, others: Iterable[Source], asked: Set[str] = frozenset()
) -> tuple[type[Rule], ...]:
    """The `rules`, none of which `raw` alone satisfies, whose `screen` matches it and all files it reaches together.

    Matches are cached per file.
    """
    reached = [*map(_signs_of, others)]
    if not reached:
        return ()
    texts = [Signs(raw), *reached]
    known: dict[Pattern, bool] = {}

    def occurs(pattern: Pattern) -> bool:
        found = known.get(pattern)
        if found is None:
            found = known[pattern] = any(text.has(pattern) for text in texts)
        return found

    return _satisfied(rules, occurs, asked)


def _signs_of(source: Source) -> Signs:
    found = _signs.get(source)
    if found is None:
        found = _signs[source] = Signs(source.text.encode())
    return found


def _satisfied(
    rules: Sequence[type[Rule]], occurs: Callable[[Pattern], bool], asked: Set[str]
) -> tuple[type[Rule], ...]:
    def holds(item: Pattern | tuple[bytes, ...]) -> bool:
        return any(map(occurs, item)) if isinstance(item, tuple) else occurs(item)

    def may_fire(rule: type[Rule]) -> bool:
        asks = rule.assumed and rule.code in asked
        return all(map(holds, _cheapest_first(rule.screen))) or bool(asks and all(map(holds, rule.assumed)))

    return tuple(rule for rule in rules if may_fire(rule))


@functools.cache
def _cheapest_first(items: Screen) -> Screen:
    """`items` with regular expressions last, since a search for a word takes a tenth of the time."""
    return tuple(sorted(items, key=lambda item: not isinstance(item, (bytes, tuple))))


def words_of(rules: Iterable[type[Rule]]) -> frozenset[str]:
    """The words in the `assumed` screens of `rules`."""
    items = (item if isinstance(item, tuple) else (item,) for rule in rules for item in rule.assumed)
    patterns = (pattern for item in items for pattern in item if isinstance(pattern, bytes))
    return frozenset(word for pattern in patterns for word in WORD.findall(pattern.decode()))
