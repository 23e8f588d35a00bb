"""What the rules find in one file: parse, interpret, dispatch; whatever goes wrong becomes a diagnostic."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence

from amplint.engine.deep import call_deep, deep_recursion
from amplint.engine.diagnostics import RuleCrashed, SyntaxErrorFound, describe, diagnostic
from amplint.findings import Finding, Position, Span
from amplint.rule import Rule


def analyse(filename: str, raw: bytes, rules: Sequence[type[Rule]]) -> list[Finding]:
    """Findings and diagnostics in the order of the text. Without rules only the syntax is checked. Raises nothing."""
    return call_deep(_analyse, filename, raw, rules)


def _analyse(filename: str, raw: bytes, rules: Sequence[type[Rule]]) -> list[Finding]:
    if not rules and _python_says(raw) is None:
        return []
    from amplint.engine.dispatch import Dispatcher
    from amplint.semantics import interpret
    from amplint.semantics.program import Program
    from amplint.source.source import Source, SourceError

    try:
        # At the ordinary recursion limit `ast` refuses what is nested so deeply that libcst would overflow the stack.
        source = Source.from_bytes(filename, raw)
        if not rules:
            return []
        with deep_recursion():
            dispatcher = Dispatcher(source, rules)
            interpret(Program(source), dispatcher.emit, dispatcher.kinds)
            return dispatcher.findings()
    except SourceError as failure:
        return [_syntax_error(filename, raw, failure.message, failure.position)]
    except (RecursionError, MemoryError) as failure:
        return [diagnostic(SyntaxErrorFound, filename, f"too deeply nested to be analysed ({describe(failure)})")]
    except Exception as failure:
        reason = "This is a defect in amplint; please report it together with the file."
        return [diagnostic(RuleCrashed, filename, f"The analysis failed: {describe(failure)}", reason=reason)]


def _syntax_error(filename: str, raw: bytes, message: str, position: Position) -> Finding:
    """A diagnostic in Python's own words where these are about the syntax: they are better known than libcst's."""
    own = _python_says(raw)
    if isinstance(own, SyntaxError) and own.lineno and message.startswith("syntax error"):
        message, position = f"syntax error: {own.msg}", Position(own.lineno, max(1, own.offset or 1))
    span = Span(position, Position(position.row, position.column + 1))
    return diagnostic(SyntaxErrorFound, filename, message, span=span)


def _python_says(raw: bytes) -> Exception | None:
    """What this Python's own parser, some ten times faster than libcst, has against the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(raw, "<linted>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as failure:
        return failure
    return None
