"""The words by which trackers make code relevant."""

from __future__ import annotations

import pytest

from amplint.engine import screen
from amplint.semantics.python.interpreter import interpret
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.reading.parts import AMBIGUOUS_METHODS
from amplint.semantics.reading.program import Program
from amplint.semantics.trackers import TRACKERS
from amplint.semantics.values.state import State
from amplint.source import syntax as cst
from amplint.source.source import Source

SCRIPT = """
from library import {imported}

def work(items):
    for item in items:
        {name}(item)
    for other in items:
        print(other)

def idle(items):
    for item in items:
        print(item)
"""
TRIGGERS = frozenset[str]().union(*(tracker.triggers for tracker in TRACKERS))


class Calls(Tracker):
    """Notes the name of each call."""

    seen: set[str]

    def call_begins(self, state: State, call: Call) -> None:
        """A call of a name."""
        assert isinstance(call.node.func, cst.Name)
        self.seen.add(call.node.func.value)


class CallsOfFollow(Calls):
    """The same, where `follow` makes code relevant."""

    triggers = frozenset({"follow"})


def seen(program: Program, tracker: type[Calls]) -> set[str]:
    """What `tracker` notes of `program`."""
    tracker.seen = set()
    interpret(program, lambda event: None, {"backward"}, (*TRACKERS, tracker))
    return tracker.seen


@pytest.mark.parametrize(("imported", "name"), [("follow", "follow"), ("follow as f", "f")])
def test_a_tracker_makes_code_relevant_by_its_own_words(imported: str, name: str) -> None:
    program = Program(Source("script.py", SCRIPT.format(imported=imported, name=name)))
    assert seen(program, Calls) == set()
    assert seen(program, CallsOfFollow) == {name}
    assert seen(program, Calls) == set()


@pytest.mark.parametrize("text", ["# follow as f", "help = 'what to follow as f says'", '"""follow as f"""'])
def test_only_imports_rename(text: str) -> None:
    program = Program(Source("script.py", SCRIPT.format(imported="f", name="f") + text))
    assert seen(program, CallsOfFollow) == set()


@pytest.mark.parametrize(
    "imports", ["from library import (\n    another,\n    follow as f,\n)", "a = 1; from b import follow as f"]
)
def test_imports_of_several_names_rename(imports: str) -> None:
    program = Program(Source("script.py", imports + SCRIPT.format(imported="c", name="f")))
    assert seen(program, CallsOfFollow) == {"f"}


def test_each_ambiguous_method_is_a_trigger() -> None:
    assert AMBIGUOUS_METHODS <= TRIGGERS


@pytest.mark.parametrize("word", screen.FOLLOWED)
def test_what_leads_to_imports_is_in_a_trigger(word: bytes) -> None:
    assert any(word.decode().strip("(").lower() in trigger.lower() for trigger in TRIGGERS)
