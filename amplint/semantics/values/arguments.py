"""The evaluated arguments of one call."""

from __future__ import annotations

from dataclasses import field

from amplint.records import dataclass
from amplint.semantics.values.values import Value
from amplint.source import syntax as cst


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
    values: tuple[Value, ...] = field(init=False, compare=False, repr=False)
    """All values in order."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple([argument.value for argument in self.given]))

    def get(self, keyword: str, position: int | None = None) -> Argument | None:
        """The argument passed as `keyword` or at `position`, None if it is absent or hidden behind a star."""
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
