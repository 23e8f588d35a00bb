"""Lists to which tensors are appended, comprehensions of tensors, and what their elements have in common."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.regex import regex
from amplint.semantics.python.containers import each, record_each
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.tensors.tensors import derived, tensor
from amplint.semantics.values.state import State
from amplint.semantics.values.values import NONE, Ref, Tensor, Unknown, Value
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk

_MADE = regex(r"\b(\w+)(?:: [^\n=]{1,60})? = (?:\[\]|list\(\)|\[[^\n]{1,200}\sfor\s)")
"""The name of a list that begins empty, or of a comprehension."""
_READ = regex(r"(?:\b(?:cat|stack|concat|concatenate|hstack|vstack|dstack)\(\s{0,40}| in )[\[(]?(\w+)[,)\[:\]]")
"""The name of what is joined, or gone through."""
_EMPTY, _COMPREHENSION, _LIST = "display", "comprehension", "builtins.list"
_COMPUTED = "<computed>"
"""The attribute of a list for the value of unknown type that is appended to it."""


@cached_per_chunk
def _gathering(chunk: Chunk) -> frozenset[str]:
    """The names of lists of a chunk that are appended to, and joined or gone through."""
    if "append" not in chunk.words:
        return frozenset()
    made = frozenset(_MADE.findall(chunk.text))
    return made.intersection(_READ.findall(chunk.text)) if made else made


class Gathered(Tracker):
    """Tracks the tensors that lists gather: all elements are like the first one while their dtypes agree."""

    methods = frozenset({"append", "clear", "extend", "insert"})

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._lists = set[int]()
        self.elements = dict[int, Tensor]()
        """Symbol of an element of a comprehension -> the element."""

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """The names of lists that gather what is joined."""
        return Words(watched=frozenset[str]().union(*map(_gathering, chunks)))

    def method(self, state: State, call: Call) -> Value | None:
        """Handle `tensors.append(tensor)`; other changes are not followed."""
        owner, given = call.owner, call.arguments.values
        if not isinstance(owner, Unknown) or not self._is_list(owner.symbol):
            return None
        if call.name != "append" or len(given) != 1:
            self._mix(state, owner.symbol)
        elif isinstance(given[0], Tensor) and self._is_empty(state, owner):
            self._lists.add(owner.symbol)
            record_each(state, owner.symbol, _representative(given[0]))
        else:
            self._add(state, owner, given[0])
        return None

    def comprehension_value(self, element: Value) -> Value | None:
        """Record an element."""
        if isinstance(element, Tensor):
            self.elements[element.symbol] = element
        return None

    def item_set(self, state: State, target: cst.Subscript, owner: Value, value: Value) -> None:
        """An element is replaced."""
        if isinstance(owner, Unknown) and (
            owner.symbol in self._lists or gathered(self.machine, state, owner) is not None
        ):
            self._add(state, owner, value)

    def unseen(self, state: State, call: Call) -> None:
        """Unseen code of the project may change a list that it is given."""
        if self._lists and not isinstance(call.callee, Ref):
            for value in call.arguments.values:
                if isinstance(value, Unknown) and value.symbol in self._lists:
                    self._mix(state, value.symbol)

    def subscript_value(self, state: State, node: cst.Subscript, owner: Value) -> Value | None:
        """The element of such a list."""
        if not self._lists or not isinstance(owner, Unknown) or owner.symbol not in self._lists:
            return None
        known = gathered(self.machine, state, owner) if isinstance(node.slice[0].slice, cst.Index) else None
        return derived(self.machine, known, "element", known.rank) if known is not None else None

    def _add(self, state: State, owner: Unknown, added: Value) -> None:
        """Forget what the elements have in common if `added` has it not."""
        self._compute(state, owner, added)
        known = gathered(self.machine, state, owner)
        if known is None or not _alike(known, added):
            self._differ(state, owner.symbol)

    def _compute(self, state: State, owner: Unknown, added: Value) -> None:
        """Record an element of unknown type, if it is the first one or the same as the first one."""
        if isinstance(added, Unknown) and self._is_empty(state, owner):
            self._lists.add(owner.symbol)
            state.set_attribute(owner.symbol, _COMPUTED, added)
        elif _COMPUTED in state.heap.get(owner.symbol, {}) and _computed(state, owner) != added:
            state.set_attribute(owner.symbol, _COMPUTED, NONE)

    def _mix(self, state: State, symbol: int) -> None:
        """Forget all that is known of the elements."""
        self._differ(state, symbol)
        if _COMPUTED in state.heap.get(symbol, {}):
            state.set_attribute(symbol, _COMPUTED, NONE)

    def _differ(self, state: State, symbol: int) -> None:
        record_each(state, symbol, self.machine.unknown("mixed", parts=(symbol,)))

    def _is_empty(self, state: State, owner: Unknown) -> bool:
        """Whether nothing was appended to a list that began empty."""
        return each(state, owner) is None and self.machine.symbols.key(owner.symbol)[0] != _COMPREHENSION

    def _is_list(self, symbol: int) -> bool:
        key = self.machine.symbols.key(symbol)
        if key[:2] == ("call", _LIST):
            return not self.machine.symbols.parts(symbol)
        return key[0] in (_EMPTY, _COMPREHENSION)


def _representative(one: Tensor) -> Tensor:
    """What a tensor has in common with others of its dtype."""
    return Tensor(one.symbol, one.dtype, one.why_half, among=one.among, supposed=one.supposed)


def _alike(known: Tensor, added: Value) -> bool:
    """Whether a tensor has the dtypes of the others, for the same reason."""
    if not isinstance(added, Tensor):
        return False
    return (known.dtype, known.among, known.supposed) == (added.dtype, added.among, added.supposed)


def gathered(machine: Machine, state: State, value: Value) -> Tensor | None:
    """The tensor like which all elements of a list or a comprehension are, None if that is not known."""
    if not isinstance(value, Unknown):
        return None
    if (known := each(state, value)) is not None:
        return known if isinstance(known, Tensor) else None
    if machine.symbols.key(value.symbol)[0] != _COMPREHENSION:
        return None
    return machine[Gathered].elements.get(machine.symbols.parts(value.symbol)[-1])


def computed(machine: Machine, state: State, value: Value) -> Tensor | None:
    """The one value of unknown type that was appended to a list, as a tensor; None if that is not known."""
    known = _computed(state, value) if isinstance(value, Unknown) else None
    return tensor(machine, known) if known is not None else None


def _computed(state: State, owner: Unknown) -> Unknown | None:
    known = state.heap.get(owner.symbol, {}).get(_COMPUTED)
    return known if isinstance(known, Unknown) else None
