"""Analysis of one file: parse, interpret, dispatch events to rules; every failure becomes a diagnostic."""

from __future__ import annotations

import ast
import warnings
from dataclasses import field
from typing import TYPE_CHECKING

from amplint.engine.deep import TookTooLong, call_deep, deep_recursion
from amplint.engine.diagnostics import START, CutShort, SyntaxErrorFound, describe, diagnostic, internal_error
from amplint.engine.job import Job
from amplint.engine.modules import Answers, Lookups, Modules
from amplint.engine.screen import follows, screen_together, words_of
from amplint.findings import Finding, Position, Span
from amplint.records import dataclass
from amplint.source.configs.names import is_config, reads_settings
from amplint.source.remembered import forget

if TYPE_CHECKING:
    from amplint.semantics.python.machine import Stopped
    from amplint.source.source import Source


MOST_BYTES = 2_000_000
"""What is larger is not parsed: syntax trees take two hundred times the space of the text, and more."""
_TIMES_LONGER = 10
"""How many times the limit of an interpretation an analysis may take: a single statement does not check that limit."""


@dataclass(frozen=True)
class Analysis:
    """Findings, and the queries about other files that they depend on (see `modules.is_still_valid`).

    File names in notes are relative to the folder of the file.
    """

    findings: list[Finding]
    asked: Answers = field(default_factory=dict)


def analyse(job: Job, modules: Modules) -> Analysis:
    """Findings and diagnostics in the order of the text. Without rules only the syntax is checked. Raises nothing."""
    try:
        return call_deep(_analyse, job, modules, seconds=_TIMES_LONGER * job.seconds)
    except TookTooLong:
        message = f"The analysis was ended after {_TIMES_LONGER * job.seconds:g} seconds; findings can be missing."
        return Analysis([diagnostic(CutShort, job.filename, message)])


def _analyse(job: Job, modules: Modules) -> Analysis:
    if len(job.raw) > MOST_BYTES and b"\0" not in job.raw:
        return Analysis([_too_large(job)] if job.rules or job.others else [])
    if not (job.rules or job.others) and not is_config(job.path) and _parser_error(job.raw) is None:
        return Analysis([])
    try:
        return _interpreted(job, modules)
    except (RecursionError, MemoryError) as failure:
        message = f"too deeply nested to be analysed ({describe(failure)})"
        return Analysis([diagnostic(SyntaxErrorFound, job.filename, message)])
    except Exception as failure:
        return Analysis([internal_error(job.filename, "The analysis", failure)])
    finally:
        forget()
        modules.contents.trim()


def _interpreted(job: Job, modules: Modules) -> Analysis:
    from amplint.engine.dispatch import Dispatcher
    from amplint.semantics import interpret
    from amplint.semantics.reading.program import Program, nothing
    from amplint.source.configs.file import ConfigFile
    from amplint.source.encoding import SourceError
    from amplint.source.source import Source

    try:
        # At the default recursion limit `ast` rejects nesting so deep that libcst would overflow the stack.
        opens = ConfigFile.of if is_config(job.path) else Source.from_bytes
        source = opens(job.filename, job.raw, job.path)
        if not (job.rules or job.others):
            return Analysis([])
        with deep_recursion():
            lookups = Lookups(modules, source, job.libraries)
            find = lookups if follows(job.raw) else nothing
            program = Program(source, find, job.torch, whole=job.whole, around=lookups)
            reached = (other for other in program.sources if other is not source)
            rules = (*job.rules, *screen_together(job.others, job.raw, reached, job.asked))
            assuming = [rule for rule in rules if rule.assumed and rule.code in job.asked]
            dispatcher = Dispatcher(program, rules, job.asked, whole=job.whole, inside=job.inside)
            stopped = None
            if rules:
                words = words_of(assuming) if assuming else None
                stopped = interpret(program, dispatcher.emit, dispatcher.kinds, words, job.seconds)
            cut = [] if stopped is None else [_cut_short(source, stopped)]
            found = dispatcher.findings()
            if not cut and dispatcher.away:
                from amplint.engine.away import with_calls

                found = with_calls(program, found, dispatcher.away, rules, job, lookups)
            if not cut and program.offered:
                from amplint.engine.dtype_choices import add_choice_findings

                found = add_choice_findings(program, found, rules, job)
            if not cut and reads_settings(job.raw):
                from amplint.engine.settings_read import with_settings

                found = with_settings(program, found, rules, job, lookups)
            return Analysis([*cut, *found], lookups.answers())
    except SourceError as failure:
        if is_config(job.path):
            span = Span(failure.position, failure.position)
            return Analysis([diagnostic(SyntaxErrorFound, job.filename, failure.message, span=span)])
        return Analysis([_syntax_error(job.filename, job.raw, failure.message, failure.position)])


def _cut_short(source: Source, stopped: Stopped) -> Finding:
    where = f"`{stopped.function}`" if stopped.function else "the top level of the file"
    span = source.span(stopped.node) if source.owns(stopped.node) else START
    message = f"The analysis stopped in {where} after {stopped.spent}; findings can be missing."
    return diagnostic(CutShort, source.filename, message, span=Span(span.start, span.start))


def _too_large(job: Job) -> Finding:
    message = f"The file is larger than {MOST_BYTES:,} bytes and was not followed; findings can be missing."
    return diagnostic(CutShort, job.filename, message)


def _syntax_error(filename: str, raw: bytes, message: str, position: Position) -> Finding:
    """A diagnostic with CPython's message for a syntax error, which is more familiar than libcst's."""
    own = _parser_error(raw)
    if isinstance(own, SyntaxError) and own.lineno and message.startswith("syntax error"):
        message, position = f"syntax error: {own.msg}", Position(own.lineno, max(1, own.offset or 1))
    span = Span(position, Position(position.row, position.column + 1))
    return diagnostic(SyntaxErrorFound, filename, message, span=span)


def _parser_error(raw: bytes) -> Exception | None:
    """The error of CPython's own parser, which is about ten times faster than libcst; None if the file parses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(raw, "<linted>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as failure:
        return failure
    return None
