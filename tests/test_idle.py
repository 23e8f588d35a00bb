"""Top-level statements that are not executed, since nothing else in the file uses what they bind."""

from __future__ import annotations

import pytest

from amplint.semantics.reading.idle import idle
from amplint.source.source import Source

USE = "\n\ndef show():\n    print(TITLES)\n"
IDLE = {
    "a list that nothing mentions": "TITLES = [str(index) for index in range(9)]",
    "a choice between values": "TITLES = []\nif len(TITLES) > 3:\n    SHORT = TITLES\nelse:\n    SHORT: list = []",
    "a loop over its own list": "TOTAL = 0\nfor index in range(3):\n    TOTAL += index",
    "a table": "TABLE = [\n" + "    1,\n" * 400 + "]",
}
EXECUTED = {
    "a variable that a function mentions": "TITLES = [1, 2]" + USE,
    "a loop variable that a function mentions": "for TITLES in range(3):\n    pass" + USE,
    "a variable of a condition that a function mentions": "if len('a') > 0:\n    TITLES = 3" + USE,
    "a call of another function": "TITLES = show()",
    "a call of an object": "TITLES = [1]\nlogger.info(TITLES)",
    "an attribute of an object": "TITLES = [1]\nconfig.titles = TITLES",
    "an import": "import os",
    "an end of the script": "TITLES = [1]\nif len(TITLES) > 3:\n    exit()",
    "an exception": "TITLES = [1]\nif len(TITLES) > 3:\n    raise",
    "variables set by their names": "TITLES = 'a'\nglobals()[TITLES] = 1",
    "a variable bound within an expression": "TITLES = [last := 3]",
}


def skipped(text: str) -> int:
    """The number of chunks that are not executed if none is relevant."""
    source = Source("script.py", text + "\n")
    return len(idle(source.chunks, set()))


@pytest.mark.parametrize("name", IDLE)
def test_statements_that_share_no_variable_are_idle(name: str) -> None:
    assert skipped(IDLE[name]) == 1


@pytest.mark.parametrize("name", EXECUTED)
def test_statements_with_another_effect_are_executed(name: str) -> None:
    assert skipped(EXECUTED[name]) == 0


def test_relevant_statements_are_executed() -> None:
    source = Source("script.py", "SCALE = 3\n")
    assert not idle(source.chunks, set(source.chunks))
