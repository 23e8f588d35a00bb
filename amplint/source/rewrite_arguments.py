"""Edits of the arguments of a call."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.findings import Edit, Position, Span
from amplint.source import syntax as cst
from amplint.source.rewrite_base import RewriterBase


class ArgumentEdits(RewriterBase):
    """Edits of the arguments of a call; each is None if `*args` or `**kwargs` hide the arguments."""

    def find_argument(self, call: cst.Call, keyword: str | None, position: int | None = None) -> cst.Arg | None:
        """The argument passed by `keyword`, or else the plain positional one at index `position`."""
        for argument in call.args:
            if keyword is not None and argument.keyword is not None and argument.keyword.value == keyword:
                return argument
        if position is None or position >= _plain(call):
            return None
        return call.args[position]

    def arguments(self, call: cst.Call, names: Sequence[str]) -> dict[str, cst.BaseExpression] | None:
        """The arguments of `call` by parameter, the first ones being `names`; None if `*args` or `**kwargs` hide
        them.
        """
        found: dict[str, cst.BaseExpression] = {}
        for index, argument in enumerate(call.args):
            if argument.star or (argument.keyword is None and index >= len(names)):
                return None
            found[argument.keyword.value if argument.keyword is not None else names[index]] = argument.value
        return found

    def set_argument(self, call: cst.Call, keyword: str | None, value: str, position: int | None = None) -> Edit | None:
        """Pass `value` as `keyword`, also known as position `position`: replace the present argument, or add one.

        Without a keyword the argument is added at `position`, which must be the next free one.
        """
        found = self.find_argument(call, keyword, position)
        if found is not None:
            return self.replace(found.value, value)
        stars = {argument.star for argument in call.args}
        if keyword is None:
            free = position == _plain(call) and "*" not in stars
            return self.insert_argument(call, position, value) if position is not None and free else None
        if "**" in stars or ("*" in stars and position is not None):
            return None
        return self.insert_argument(call, len(call.args), f"{keyword}={value}")

    def insert_argument(self, call: cst.Call, index: int, text: str) -> Edit | None:
        """Insert `text` (`value`, `name=value`, or several) before the argument at `index`, or at the end."""
        arguments = call.args
        if not arguments:
            return self._fill(call, self._adapted(text))
        if isinstance(arguments[0].value, cst.GeneratorExp) and not self.parentheses(arguments[0].value):
            return None
        if index < len(arguments):
            start = self.span(arguments[index]).start
            before = self._lines.before(start)
            rows = [self.span(one).start.row for one in arguments[:index]]
            if not before.strip() and len(rows) > 1 and rows[-1] == rows[-2]:
                end = self.span(arguments[index - 1]).end
                return Edit(Span(end, end), f", {self._adapted(text)}")
            gap = " " if before.strip() else self.source.newline + before
            return Edit(Span(start, start), f"{self._adapted(text)},{gap}")
        return self._append(call, self._adapted(text))

    def name_arguments(self, call: cst.Call, names: Sequence[str]) -> list[Edit] | list[None]:
        """Pass the positional arguments by keyword, the first as `names[0]`; [None] if `*args` hides one."""
        if any(argument.star == "*" for argument in call.args):
            return [None]
        positional = [argument for argument in call.args if argument.keyword is None and not argument.star]
        named = zip(positional, names, strict=False)
        return [self.replace(argument.value, f"{name}={self.text(argument.value)}") for argument, name in named]

    def _fill(self, call: cst.Call, text: str) -> Edit:
        """Replace empty parentheses, so that two fixes cannot both fill them."""
        end = self.source.span(call).end
        after_function = self._lines.offset(self.span(call.func).end)
        start = self._lines.position(self.source.text.index("(", after_function))
        if start.row == end.row:
            return Edit(Span(start, end), f"({text})")
        return Edit(Span(start, Position(start.row, start.column + 1)), f"({text}")

    def _append(self, call: cst.Call, text: str) -> Edit:
        last = call.args[-1]
        start, end = self.span(last).start, self.span(last).end
        own_row = not self._lines.before(start).strip()
        comma = self._next(end, ",")
        if comma is None:
            gap = self.source.newline + self._lines.before(start) if own_row and not self._lines.after(end) else " "
            return Edit(Span(end, end), f",{gap}{text}")
        rest = self._lines.after(comma.end).strip()
        if own_row and (not rest or rest.startswith("#")):
            below = Position(comma.end.row + 1, 1)
            return Edit(Span(below, below), f"{self._lines.before(start)}{text},{self.source.newline}")
        return Edit(Span(comma.end, comma.end), f" {text},")


def _plain(call: cst.Call) -> int:
    """The number of positional arguments before the first `*args`, keyword or `**kwargs`."""
    plain = 0
    for argument in call.args:
        if argument.keyword is not None or argument.star:
            break
        plain += 1
    return plain
