"""Which rules may fire at all, by a search over a file's raw bytes; most files need nothing more."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Sequence, Set

from amplint.rule import Rule, Screen

WORD = re.compile(r"\w+")
FOLLOWED = (b"autocast", b"backward(", b"scaler", b"Scaler", b"unscale_", b"clip_grad")
_TESTS = re.compile(r"(?:^|[\\/])(?:tests?[\\/]|test_[^\\/]*\.py$|[^\\/]*_test\.py$|conftest\.py$)")
"""Where pytest finds tests, and the folders that hold them."""
_IMPORT = re.compile(rb"^[ \t]*(?:from|import)[ \t]", re.MULTILINE)


def follows(raw: bytes) -> bool:
    """Whether what a file imports may complete what stands in it: it does training work itself."""
    return any(word in raw for word in FOLLOWED) and _IMPORT.search(raw) is not None


def is_test(filename: str) -> bool:
    """Whether a file, by its path below the working directory, holds tests.

    What they make up is half only where they say so: nothing is assumed of it.
    """
    return not os.path.isabs(filename) and _TESTS.search(filename) is not None


def screen(rules: Sequence[type[Rule]], raw: bytes, asked: Set[str] = frozenset()) -> tuple[type[Rule], ...]:
    """The rules whose `screen` is satisfied by `raw`, or whose code is `asked` for and `assumed` is, in their order."""
    seen: dict[bytes, bool] = {}
    matched: dict[re.Pattern[bytes], bool] = {}

    def occurs(pattern: bytes) -> bool:
        found = seen.get(pattern)
        if found is None:
            found = seen[pattern] = pattern in raw
        return found

    def holds(item: bytes | tuple[bytes, ...] | re.Pattern[bytes]) -> bool:
        if isinstance(item, re.Pattern):
            found = matched.get(item)
            if found is None:
                found = matched[item] = item.search(raw) is not None
            return found
        return occurs(item) if isinstance(item, bytes) else any(map(occurs, item))

    def may_fire(rule: type[Rule]) -> bool:
        asks = rule.assumed and rule.code in asked
        return all(map(holds, _cheapest_first(rule.screen))) or bool(asks and all(map(holds, rule.assumed)))

    return tuple(rule for rule in rules if may_fire(rule))


@functools.cache
def _cheapest_first(items: Screen) -> Screen:
    """`items` with the patterns last: to look for a word takes a tenth of the time."""
    return tuple(sorted(items, key=lambda item: isinstance(item, re.Pattern)))


def words_of(rules: Iterable[type[Rule]]) -> frozenset[str]:
    """The words in the `assumed` screens of `rules`."""
    items = (item if isinstance(item, tuple) else (item,) for rule in rules for item in rule.assumed)
    patterns = (pattern for item in items for pattern in item if isinstance(pattern, bytes))
    return frozenset(word for pattern in patterns for word in WORD.findall(pattern.decode()))
