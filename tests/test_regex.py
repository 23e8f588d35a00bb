"""Regular expressions that are compiled late are those of the standard library."""

from __future__ import annotations

import re
from typing import Any

import pytest

from amplint.regex import Regex, regex


@pytest.mark.parametrize(("text", "flags"), [(r"(a)b", 0), (rb"(?m)^x", re.MULTILINE), (r"B", re.IGNORECASE)])
def test_it_finds_what_a_compiled_one_finds(text: Any, flags: int) -> None:
    late, compiled = regex(text, flags), re.compile(text, flags)
    assert isinstance(late, Regex)
    assert late.pattern == compiled.pattern
    subject = "abab b" if isinstance(text, str) else b"y\nx"
    for method in ("search", "match", "fullmatch", "findall"):
        assert repr(getattr(late, method)(subject)) == repr(getattr(compiled, method)(subject))
    assert late.groups == compiled.groups


def test_nothing_is_compiled_before_it_is_used() -> None:
    late = regex("(")
    with pytest.raises(re.error):
        late.search("")
