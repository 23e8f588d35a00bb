"""YAML as PyYAML's safe loader reads it; values with custom tags are unknown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from amplint.findings import Position
from amplint.regex import regex
from amplint.source import syntax as cst
from amplint.source.configs.display import MOST_DIGITS, MOST_NESTED, Builder, Scalar
from amplint.source.encoding import SourceError
from amplint.source.layout import Layout

_MERGE = "<<"
_TAG = "tag:yaml.org,2002:"
_CORE = frozenset({None, "!", f"{_TAG}map", f"{_TAG}seq", f"{_TAG}omap"})
_TRUE, _FALSE = frozenset({"yes", "true", "on"}), frozenset({"no", "false", "off"})
_INTEGER = regex(r"[-+]?(?:0x[0-9a-fA-F_]+|0b[01_]+|[0-9_]+)")
Pair = tuple[cst.BaseExpression, cst.BaseExpression]


def read(layout: Layout) -> cst.BaseExpression:
    """The value of the first document of a text, that of None without one. Raises SourceError."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Reader(layout, yaml.parse(layout.text, Loader=loader)).document()
    except yaml.YAMLError as failure:
        mark = getattr(failure, "problem_mark", None) or getattr(failure, "context_mark", None)
        position = Position(mark.line + 1, mark.column + 1) if mark is not None else None
        problem = getattr(failure, "problem", None) or getattr(failure, "reason", None) or "it cannot be read"
        raise SourceError(f"not YAML: {problem}", position) from None


class _Reader:
    def __init__(self, layout: Layout, events: Iterator[Any]) -> None:
        self._layout = layout
        self._events = events
        self._builder = Builder()
        self._anchors: dict[str, cst.BaseExpression] = {}
        self._resolver = yaml.resolver.Resolver()

    def document(self) -> cst.BaseExpression:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                return self._value(next(self._events), 0)
        return self._builder.scalar(None, 0, 0)

    def _value(self, event: Any, depth: int) -> cst.BaseExpression:
        if depth > MOST_NESTED:
            raise SourceError("not YAML: it is nested too deeply", self._position(event))
        if isinstance(event, yaml.AliasEvent):
            known = self._anchors.get(event.anchor)
            if known is None:
                raise SourceError(f"not YAML: no anchor {event.anchor!r} before this", self._position(event))
            return known
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(event, depth)
        else:
            node = self._mapping(event, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _sequence(self, event: Any, depth: int) -> cst.BaseExpression:
        values, last = [], next(self._events)
        while not isinstance(last, yaml.SequenceEndEvent):
            values.append(self._value(last, depth + 1))
            last = next(self._events)
        start, end = self._range(event, last)
        made = self._builder.sequence(values, start, end)
        return made if event.tag in _CORE else self._builder.unknown(start, end)

    def _mapping(self, event: Any, depth: int) -> cst.BaseExpression:
        pairs: dict[str, Pair] = {}
        merged: list[cst.BaseExpression] = []
        last = next(self._events)
        while not isinstance(last, yaml.MappingEndEvent):
            is_merge = isinstance(last, yaml.ScalarEvent) and last.value == _MERGE and last.implicit[0]
            key = self._value(last, depth + 1)
            value = self._value(next(self._events), depth + 1)
            if is_merge:
                merged.append(value)
            else:
                pairs[self._name(key)] = key, value
            last = next(self._events)
        for name, pair in self._merged(merged):
            pairs.setdefault(name, pair)
        start, end = self._range(event, last)
        made = self._builder.mapping(list(pairs.values()), start, end)
        return made if event.tag in _CORE else self._builder.unknown(start, end)

    def _merged(self, values: list[cst.BaseExpression]) -> Iterator[tuple[str, Pair]]:
        """The entries merged by `<<`: of several mappings, the first takes precedence."""
        for value in values:
            several = [element.value for element in value.elements] if isinstance(value, cst.List) else [value]
            for one in several:
                for element in one.elements if isinstance(one, cst.Dict) else ():
                    if isinstance(element, cst.DictElement):
                        yield self._name(element.key), (element.key, element.value)

    def _name(self, key: cst.BaseExpression) -> str:
        return repr(key) if isinstance(key, (cst.Name, cst.BaseNumber, cst.SimpleString)) else str(id(key))

    def _scalar(self, event: Any) -> cst.BaseExpression:
        start, end = event.start_mark.index, event.end_mark.index
        tag = event.tag
        if tag is None or tag == "!":
            implicit = event.implicit if tag is None else (False, True)
            tag = self._resolver.resolve(yaml.ScalarNode, event.value, implicit)
        kind = tag[len(_TAG) :] if tag.startswith(_TAG) else ""
        read = _READERS.get(kind)
        try:
            return self._builder.scalar(read(event.value), start, end) if read else self._builder.unknown(start, end)
        except ValueError:
            return self._builder.unknown(start, end)

    def _range(self, first: Any, last: Any) -> tuple[int, int]:
        """The range of a collection; a block collection ends before the next token."""
        start, end = first.start_mark.index, last.end_mark.index
        return start, max(start, len(self._layout.text[:end].rstrip()) if end > start else end)

    def _position(self, event: Any) -> Position:
        return Position(event.start_mark.line + 1, event.start_mark.column + 1)


def _bool(text: str) -> Scalar:
    folded = text.lower()
    if folded not in _TRUE | _FALSE:
        raise ValueError(text)
    return folded in _TRUE


def _int(text: str) -> Scalar:
    if len(text) > MOST_DIGITS or _INTEGER.fullmatch(text) is None:
        raise ValueError(text)  # base 60, or infinite
    plain = text.replace("_", "")
    digits = plain.lstrip("+-")
    return int(plain, 0) if digits[:2] in ("0x", "0b") else int(plain, 8 if digits[:1] == "0" and digits != "0" else 10)


def _float(text: str) -> Scalar:
    plain = text.replace("_", "").lower()
    return float(plain.replace(".inf", "inf").replace(".nan", "nan"))


def _null(text: str) -> Scalar:
    return None


def _str(text: str) -> Scalar:
    return text


_READERS = {"bool": _bool, "int": _int, "float": _float, "null": _null, "str": _str, "merge": _str, "value": _str}
