"""Validity of a cell as Python of its own."""

from __future__ import annotations

import ast
import warnings

from amplint.findings import Position
from amplint.source.encoding import SourceError
from amplint.source.source import Source


def parses(text: str) -> bool:
    """Whether this Python can parse `text`."""
    return _failure(text) is None


def syntax_problem(text: str) -> SourceError | None:
    """The error in `text` as Python, in CPython's words for a syntax error; None if it is valid."""
    if "\0" in text:
        return SourceError("the cell contains NUL characters; Python cannot run it")
    failure = _failure(text)
    if isinstance(failure, SyntaxError):
        return _by_libcst(text, failure)
    if isinstance(failure, UnicodeEncodeError):
        return SourceError("the cell contains halves of characters (surrogates); Python cannot run it")
    if failure is not None:
        return SourceError(f"too deeply nested to be parsed ({type(failure).__name__})")
    return None


def _failure(text: str) -> Exception | None:
    """The exception that CPython's parser raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as failure:
        return failure
    return None


def _by_libcst(text: str, own: SyntaxError) -> SourceError | None:
    """The error of libcst, which knows the syntax of newer Pythons, for a text that this Python rejects."""
    try:
        Source("", text)
    except SourceError as failure:
        if own.lineno and failure.message.startswith("syntax error"):
            return SourceError(f"syntax error: {own.msg}", Position(own.lineno, max(1, own.offset or 1)))
        return failure
    return None
