"""The evaluated arguments of one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from amplint.semantics import constants
from amplint.semantics.values import Const, Items, Unknown, Value

if TYPE_CHECKING:
    from amplint.semantics.machine import Machine
    from amplint.semantics.state import State


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: its node, its value, its keyword and its stars."""

    node: cst.Arg
    value: Value
    keyword: str | None
    star: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """All arguments of a call in source order."""

    given: tuple[Argument, ...]

    def get(self, keyword: str, position: int | None = None) -> Argument | None:
        """The argument passed by `keyword` or at `position`, None when it is not given or hidden behind a star."""
        for index, argument in enumerate(self.given):
            if argument.keyword == keyword and not argument.star:
                return argument
            if argument.star == "*":
                position = None
            if index == position and argument.keyword is None and not argument.star:
                return argument
        return None

    def value(self, keyword: str, position: int | None = None) -> Value | None:
        """The value of that argument."""
        found = self.get(keyword, position)
        return found.value if found else None

    @property
    def values(self) -> tuple[Value, ...]:
        """All values in order."""
        return tuple(argument.value for argument in self.given)


def evaluated(machine: Machine, state: State, node: cst.Call) -> Arguments:
    """The arguments of the call `node`; what stars hand over is spread out where it is known."""
    given = []
    for argument in node.args:
        value = constants.handed(machine, state, machine.evaluate(state, argument.value), argument.value)
        keyword = argument.keyword.value if argument.keyword is not None else None
        spread = _spread(argument, value)
        given += [Argument(argument, value, keyword, argument.star)] if spread is None else spread
    return Arguments(tuple(given))


def _spread(argument: cst.Arg, value: Value) -> list[Argument] | None:
    """What `*value` or `**value` hands over, None where its members are not known.

    An unknown value under a name is left out: what is not known of it leaves the parameter as open as a caller would.
    """
    if not argument.star or not isinstance(value, Items):
        return None
    if argument.star == "*" and value.keys is None:
        return [Argument(argument, item, None, "") for item in value.values]
    if argument.star == "**" and value.keys is not None:
        names = [key.value if isinstance(key, Const) else None for key in value.keys]
        told = ((item, name) for item, name in zip(value.values, names, strict=True) if not isinstance(item, Unknown))
        return [Argument(argument, item, name, "") for item, name in told if isinstance(name, str)]
    return None
