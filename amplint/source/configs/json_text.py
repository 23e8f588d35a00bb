"""JSON with the comments and trailing commas that DeepSpeed's reader accepts."""

from __future__ import annotations

from json import JSONDecodeError, JSONDecoder

from amplint.findings import Position
from amplint.regex import regex
from amplint.source import syntax as cst
from amplint.source.configs.display import MOST_DIGITS, MOST_NESTED, Builder, Scalar
from amplint.source.encoding import SourceError
from amplint.source.layout import Layout

_BLANK = regex(r"(?:[ \t\r\n]|(?:\#|//)[^\n]*\n|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)*(?:(?:\#|//)[^\n]*\Z)?")
_NUMBER = regex(r"-?\d+(?P<real>(?:\.\d+)?(?:[eE][-+]?\d+)?)")
_WORDS: dict[str, Scalar] = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_DECODER = JSONDecoder(strict=False)
_WORD = regex("|".join(_WORDS))


def read(layout: Layout) -> cst.BaseExpression:
    """The value of a text. Raises SourceError."""
    reader = _Reader(layout)
    value = reader.value(0)
    if reader.here < len(layout.text):
        raise reader.failure("more text behind the value")
    return value


class _Reader:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._text = layout.text
        self._builder = Builder()
        self.here = 0
        self._skip()

    def failure(self, message: str) -> SourceError:
        row, column = self._layout.place(self.here)
        return SourceError(f"not JSON: {message}", Position(row, column + 1))

    def value(self, depth: int) -> cst.BaseExpression:
        if depth > MOST_NESTED:
            raise self.failure("it is nested too deeply")
        start, sign = self.here, self._text[self.here : self.here + 1]
        if sign == "{":
            return self._mapping(depth)
        if sign == "[":
            return self._sequence(depth)
        if sign == '"':
            return self._string()
        word = _WORD.match(self._text, start)
        if word is not None:
            self._skip(word.end())
            return self._builder.scalar(_WORDS[word.group()], start, word.end())
        number = _NUMBER.match(self._text, start)
        if number is None:
            raise self.failure("a value is expected")
        self._skip(number.end())
        digits = number.group()
        whole = not number["real"] and len(digits) <= MOST_DIGITS
        return self._builder.scalar(int(digits) if whole else float(digits), start, number.end())

    def _string(self) -> cst.BaseExpression:
        start = self.here
        try:
            value, end = _DECODER.raw_decode(self._text, start)
        except JSONDecodeError as failure:
            raise self.failure(failure.msg[:1].lower() + failure.msg[1:]) from None
        self._skip(end)
        return self._builder.scalar(value, start, end)

    def _mapping(self, depth: int) -> cst.BaseExpression:
        start, pairs = self.here, []
        self._skip(start + 1)
        while not self._closes("}"):
            if self._text[self.here : self.here + 1] != '"':
                raise self.failure("a key in quotes is expected")
            key = self._string()
            if self._text[self.here : self.here + 1] != ":":
                raise self.failure('":" is expected')
            self._skip(self.here + 1)
            pairs.append((key, self.value(depth + 1)))
            self._comma("}")
        end = self.here + 1
        self._skip(end)
        return self._builder.mapping(pairs, start, end)

    def _sequence(self, depth: int) -> cst.BaseExpression:
        start, values = self.here, []
        self._skip(start + 1)
        while not self._closes("]"):
            values.append(self.value(depth + 1))
            self._comma("]")
        end = self.here + 1
        self._skip(end)
        return self._builder.sequence(values, start, end)

    def _closes(self, sign: str) -> bool:
        return self._text[self.here : self.here + 1] == sign

    def _comma(self, closing: str) -> None:
        if self._text[self.here : self.here + 1] == ",":
            self._skip(self.here + 1)
        elif not self._closes(closing):
            raise self.failure(f'"," or "{closing}" is expected')

    def _skip(self, to: int | None = None) -> None:
        found = _BLANK.match(self._text, self.here if to is None else to)
        assert found is not None
        self.here = found.end()
