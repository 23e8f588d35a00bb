"""Options of a command line, as the calls of `add_argument` declare them."""

from __future__ import annotations

from collections.abc import Mapping

from amplint.records import dataclass
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Source
from amplint.source.tree import every


@dataclass(frozen=True, slots=True)
class CommandOption:
    """An option: the text that it has where it is not given, its type and its action, as they are written."""

    default: str | None
    kind: str | None
    action: str | None

    @property
    def turns_on(self) -> bool:
        """Whether it is a switch that is off unless it is given."""
        return self.action == "store_true"


@cached_per_file
def options(source: Source) -> Mapping[str, CommandOption]:
    """The options of the parsers in a file, by the attribute that holds them."""
    chunks = (chunk for chunk in source.chunks if "add_argument" in chunk.words)
    calls = (call for chunk in chunks for call in every(chunk.module, cst.Call))
    declared = (call for call in calls if last_name(call.func) == "add_argument")
    return {name: option for call in declared for name, option in _declared(call)}


def _declared(call: cst.Call) -> list[tuple[str, CommandOption]]:
    """The option that a call declares with its name, none where that is computed."""
    keywords = {argument.keyword.value: argument.value for argument in call.args if argument.keyword is not None}
    given = {keyword: _text(value) for keyword, value in keywords.items()}
    flags = [_text(argument.value) for argument in call.args if argument.keyword is None]
    long = [flag for flag in flags if flag is not None and flag.startswith("--")]
    name = given["dest"] if "dest" in given else long[0].lstrip("-").replace("-", "_") if long else None
    kind, action = keywords.get("type"), keywords.get("action")
    option = CommandOption(
        given.get("default"),
        dotted(kind) if kind is not None else None,
        given.get("action") or (dotted(action) if action is not None else None),
    )
    return [(name, option)] if name else []


def _text(node: cst.BaseExpression) -> str | None:
    value = node.evaluated_value if isinstance(node, cst.SimpleString) else None
    return value if isinstance(value, str) else None
