"""Choices among dtypes: the half dtypes that they offer, and the paths that take one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from amplint.semantics.python.tracker import Tracker
from amplint.semantics.reading.scopes import last_name
from amplint.semantics.values.facts import symbol_truth
from amplint.semantics.values.state import State
from amplint.semantics.values.values import NONE, Const, Items, OneOf, Ref, Unknown, Value
from amplint.semantics.words import DTYPE
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Source
from amplint.torchlib.names import DTYPES, HALF_DTYPES

_TORCH = Ref("torch")
_ANY_DTYPE = (Ref("torch.float32"), Ref("torch.float16"), Ref("torch.bfloat16"))


@cached_per_file
def _options(source: Source, name: str) -> tuple[Ref, ...]:
    """The dtypes that a command line accepts for the option `name`, any where it does not limit them."""
    spelled = re.escape(name).replace("_", "[-_]")
    found = re.search(rf"--{spelled}[\"'][^()]*?\bchoices\s*=\s*[\[(]([^\])]*)", source.text)
    listed = re.findall(r"[\"'](\w+)[\"']", found.group(1)) if found is not None else []
    accepted = tuple(one for one in _ANY_DTYPE if one.name.removeprefix("torch.") in listed)
    return accepted if len(accepted) > 1 else _ANY_DTYPE


class DtypeChoices(Tracker):
    """The dtypes among which a script chooses.

    `Machine.supposition` is the one to take from each choice that contains it. Where it is None, choices stay open, and
    their half dtypes are recorded in `Program.offered`.
    """

    def supposed(self, values: Sequence[Value]) -> int | None:
        """The position of the dtype to take."""
        names = [frozenset(_possible_dtypes(value)) for value in values]
        if not all(names) or len(frozenset().union(*names)) < 2:
            return None
        taken = self.machine.supposition
        if taken is None:
            self.machine.program.offered |= HALF_DTYPES.intersection(*[frozenset().union(*names)])
            return None
        return next((index for index, options in enumerate(names) if options == {taken}), None)

    def supposed_attribute(self, state: State, node: cst.Call, owner: Value, key: Value) -> Value | None:
        """The dtype to take from `getattr(torch, dtype)`, if the path has not found the name to be another one."""
        if owner != _TORCH or DTYPE.search(last_name(node.args[1].value) or "") is None:
            return None
        options = _options(self.machine.program.main, last_name(node.args[1].value) or "")
        position = self.supposed(options)
        if position is None or not isinstance(key, Unknown):
            return options[position] if position is not None else None
        name, symbols = Const(options[position].name.removeprefix("torch.")), self.machine.symbols
        if symbol_truth(symbols, state.facts, symbols.intern("==", name, parts=(key.symbol,))) is False:
            return None
        state.facts["value of", key.symbol] = name
        return options[position]

    def joined(self, left: Value, right: Value, joint: Value) -> None:
        """Record the dtypes that a variable, or an element of it, has on two paths."""
        if isinstance(joint, OneOf):
            self.supposed((left, right))
        elif isinstance(left, Items) and isinstance(right, Items) and isinstance(joint, Items):
            for pair in zip(left.values, right.values, joint.values, strict=True):
                self.joined(*pair)

    def supposed_paths(self, states: list[State]) -> list[State]:
        """`states` without those on which a variable has another dtype than the one to take, if one has that."""
        taken = self.machine.supposition
        if taken is None:
            return states
        places = dict.fromkeys(place for state in states[1:] for place in _places_of_different_dtypes(states[0], state))
        dropped: set[int] = set()
        for place in places:
            values = [_dtypes_at(state, place) for state in states]
            known = [value for value in values if value is not None]
            if self.supposed(known) is not None:
                others = (value is not None and [*_possible_dtypes(value)] != [taken] for value in values)
                dropped.update(position for position, other in enumerate(others) if other)
        return [state for position, state in enumerate(states) if position not in dropped] or states


def _possible_dtypes(value: Value) -> Iterator[str]:
    """The possible dtypes of `value`, none if it is no dtype."""
    names = value.options if isinstance(value, OneOf) else (value.name,) if isinstance(value, Ref) else ()
    for name in names:
        if name in DTYPES:
            yield DTYPES[name]


_Place = tuple[int, int, str, int]
"""Whether it is an attribute, the key of its table, its name, and the position in a tuple."""


def _places_of_different_dtypes(state: State, other: State) -> Iterator[_Place]:
    """The places at which two paths have different dtypes: variables, attributes, elements of tuples."""
    for kind, (tables, others) in enumerate(((state.frames, other.frames), (state.heap, other.heap))):
        for key, table in others.items():
            mine = tables.get(key)
            if mine is None or mine is table:
                continue
            for name, value in table.items():
                if isinstance(value, _HOLDS_DTYPES) and value is not mine.get(name):
                    yield from ((kind, key, name, index) for index, one in enumerate(_parts(value)) if _is_dtypes(one))


_HOLDS_DTYPES = (Items, OneOf, Ref)


def _dtypes_at(state: State, place: _Place) -> Value | None:
    """The dtype or choice of dtypes at a place; None if there is none."""
    kind, key, name, index = place
    parts = _parts((state.heap if kind else state.frames).get(key, {}).get(name, NONE))
    return parts[index] if index < len(parts) and _is_dtypes(parts[index]) else None


def _is_dtypes(value: Value) -> bool:
    """Whether `value` is a dtype or a choice of dtypes."""
    return any(_possible_dtypes(value))


def _parts(value: Value) -> tuple[Value, ...]:
    return value.values if isinstance(value, Items) else (value,)
