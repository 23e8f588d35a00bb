"""Forward passes by methods that only subclasses define."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.semantics.events import UnseenForward
from amplint.semantics.models import models
from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading import bodies
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Method, Unknown, Value
from amplint.semantics.words import FORWARD_STEP
from amplint.source import syntax as cst
from amplint.source.source import Chunk


class UnseenSteps(Tracker):
    """Tracks calls of methods that only subclasses define, in methods of their base class."""

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return UnseenForward.kind in self.machine.wanted

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Calls of such methods, in files with regions."""
        if not any("autocast" in chunk.words for chunk in chunks):
            return Words()
        named = {word for chunk in chunks for word in chunk.words if "forward" in word}
        return Words(calls=frozenset(filter(FORWARD_STEP.search, named)))

    def call_begins(self, state: State, call: Call) -> None:
        """Handle the call of a method of `self`."""
        func = call.node.func
        if call.owner is None or not isinstance(func, cst.Attribute) or dotted(func.value) != "self":
            return
        if FORWARD_STEP.search(call.name) and call.arguments.given and _is_unseen(call.callee):
            owner = symbol_of(self.machine, call.owner)
            model = self.machine.unknown("attribute", call.name, parts=(owner,))
            guesses = FORWARD_STEP.guesses(call.name)
            models.forward(self.machine, state, call.node, model, func, event=UnseenForward, guesses=guesses)


def _is_unseen(callee: Value) -> bool:
    """Whether a method is defined elsewhere alone."""
    if not isinstance(callee, Method) or callee.function is None:
        return isinstance(callee, (Method, Unknown))
    body = node_of(callee.function)
    return bodies.is_abstract(body) or bodies.is_stub(body)
