"""Dispatch: events to rules, reports to findings; a failing rule is dropped for the file and named in a diagnostic."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from amplint.engine.diagnostics import START, RuleCrashed, describe, diagnostic
from amplint.engine.expected import is_expected_to_raise
from amplint.engine.purposes import purposes, purposes_of_function
from amplint.engine.reachability.fallbacks import is_in_fallback
from amplint.engine.reachability.switches import Switches
from amplint.engine.reachability.uncalled import Uncalled
from amplint.engine.reachability.unreached import Unreached
from amplint.findings import Finding, Fix, Guessed, Note, Severity
from amplint.premises import Premise, named, remaining_severity, weight
from amplint.rule import Handler, Report, Rule
from amplint.semantics.events.protocol import Backward
from amplint.semantics.values.values import Scaler
from amplint.source.configs.names import is_config
from amplint.source.rewrite import Rewriter
from amplint.source.source import ForeignNode

if TYPE_CHECKING:
    from amplint.semantics.events import Event
    from amplint.semantics.reading.program import Program
    from amplint.source import syntax as cst

_Place = tuple[str, str, "cst.CSTNode"]
_FAILURES = (Exception, SystemExit, GeneratorExit)
"""What a rule may raise without ending more than itself."""


class Dispatcher:
    """Dispatches the events of one file to the rules that handle them, and collects their reports.

    Rules with a code in `asked` were selected explicitly: they also get events that only hold under an assumption about
    dtypes, and their findings may rest on more than one unseen premise.
    Each rule reports a node once. A rule with `every_path` is reported only if it reported every event of that kind at
    that node. Findings that lie entirely in another file are left to that file's own analysis, unless the `whole`
    program counts: then they are reported here, except for assumed ones outside of regions, with fixes of that file.
    With `inside`, those of the file itself are left out as well. All findings rest on `premises`.
    """

    def __init__(
        self,
        program: Program,
        rules: Iterable[type[Rule]],
        asked: Set[str] = frozenset(),
        *,
        whole: bool = False,
        inside: bool = False,
        premises: tuple[Premise, ...] = (),
    ) -> None:
        self._premises = premises
        self._program = program
        self._whole = whole
        self._inside = inside
        self._asked = asked
        self._source = program.main
        self._rewriter = Rewriter(program.main)
        self._handlers: dict[str, list[tuple[Rule, Handler]]] = {}
        self._reports: dict[tuple[str, cst.CSTNode], tuple[_Place, Report]] = {}
        self._reported: Counter[_Place] = Counter()
        self._seen: Counter[_Place] = Counter()
        self._guesses: dict[tuple[str, cst.CSTNode], tuple[Guessed, ...]] = {}
        self._purposes = purposes(program.main)
        self._unreached = Unreached(program)
        self._uncalled = Uncalled(program, self._unreached)
        self._switches = Switches(program)
        self._crashes: dict[str, Finding] = {}
        self.away: list[Finding] = []
        for kind in rules:
            try:
                rule = kind()
            except _FAILURES as failure:
                self._crashes[kind.code] = self._crash(kind, failure)
                continue
            for event_kind, method in kind.handlers().items():
                self._handlers.setdefault(event_kind, []).append((rule, getattr(rule, method)))

    @property
    def kinds(self) -> Set[str]:
        """The kinds of events that at least one rule handles."""
        return self._handlers.keys()

    def emit(self, event: Event) -> None:
        """Pass `event` to every rule that handles its kind."""
        for rule, handler in self._handlers.get(event.kind, ()):
            place = (rule.code, event.kind, event.node)
            if rule.code in self._crashes or (event.assumed and (event.option or not self._assumes(rule))):
                continue
            away = self._whole and event.entered_from is not None
            if (away or self._inside) and event.assumed and event.region is None:
                continue
            try:
                reports = {(rule.code, report.at): (place, report) for report in handler(event)}
            except _FAILURES as failure:
                self._crashes[rule.code] = self._crash(rule, failure, event.node)
                continue
            self._seen[place] += 1
            self._reported[place] += bool(reports)
            for key, (_, report) in reports.items():
                self._record_guesses(key, report)
                report = self._weighed(report)
                if key not in self._reports or _rank(report) < _rank(self._reports[key][1]):
                    self._reports[key] = place, report

    def _weighed(self, report: Report) -> Report:
        """The report, with the premises that its path is run, is called, and that what it needs is switched on."""
        event = report.event
        home = self._program.source_of(event.node)
        refused = home is not None and is_in_fallback(home, event.node)
        if report.rule.anywhere or refused:
            return replace(report, premises=(*report.premises, Premise.REFUSED_BEFORE)) if refused else report
        more = [Premise.NOTHING_RAISES] if self._unreached.is_unreached(event) else []
        places = (place for one in (event, *report.besides) for place in _places(one))
        off = next(filter(None, map(self._switches.premise, places)), None)
        more += [one for one in (off, self._uncalled.premise(event)) if one is not None]
        return replace(report, premises=(*report.premises, *more)) if more else report

    def _assumes(self, rule: Rule) -> bool:
        """Whether a rule gets events that only hold under an assumption about dtypes."""
        return bool(rule.assumed) and rule.code in self._asked

    def _record_guesses(self, key: tuple[str, cst.CSTNode], report: Report) -> None:
        """Record the guesses that every report of a rule at a node depends on."""
        guesses = dict.fromkeys(guessed for event in (report.event, *report.besides) for guessed in event.guesses)
        rests = (one for one in guesses if not one.about or one.about in report.rule.goes_by)
        known = self._guesses.get(key)
        self._guesses[key] = tuple(one for one in rests if known is None or one in known)

    def findings(self) -> list[Finding]:
        """The findings in the order of the text, including diagnostics about failed rules.

        Those that lie entirely in other files are `away`, at the calls of this file that lead there.
        """
        kept: dict[Any, Finding] = {}
        self.away = []
        for key, (place, report) in self._reports.items():
            rule = report.rule
            if rule.code in self._crashes or not self._counts(place, report):
                continue
            try:
                finding = self._finding(report, self._guesses[key])
                away = finding is not None and self._is_away(report, finding)
            except _FAILURES as failure:
                self._crashes[rule.code] = self._crash(rule, failure, report.event.node)
                continue
            if finding is not None and away:
                self.away.append(finding)
            elif finding is not None:
                kept.setdefault((finding.code, finding.span, finding.elsewhere if self._whole else None), finding)
        found = sorted([*kept.values(), *self._crashes.values()], key=lambda finding: (finding.span, finding.code))
        once = {report.rule.code for _, report in self._reports.values() if report.rule.once}
        return list(_merged_by_code(found, once)) if once else found

    def _counts(self, place: _Place, report: Report) -> bool:
        """Whether a report is kept: on every path that the rule requires, and by no other rule for the same mistake."""
        rule = report.rule
        if rule.every_path and not report.on_one_path and self._reported[place] < self._seen[place]:
            return False
        if not rule.yields_to or rule.code in self._asked:
            return True
        others = (other for _, other in self._reports.values() if other.rule.code in rule.yields_to)
        return not any(other.event.node is report.event.node or other.at is report.at for other in others)

    def _finding(self, report: Report, guesses: tuple[Guessed, ...]) -> Finding | None:
        """The finding for a report.

        None for a rule that reports only what it can repair and cannot repair here, and where a test expects an
        exception.
        """
        rule = report.rule
        here = self._source.owns(report.at)
        elsewhere = None if here else self._note(report.at, report.message)
        notes = self._notes(report)
        at = report.at if here else report.event.entered_from
        if at is None and self._source.owns(report.event.node):
            at = report.event.node
        if not here and elsewhere is None:
            caller = next((note for note in map(self._caller, reversed(report.event.sites)) if note is not None), None)
            elsewhere = replace(caller, message=report.message) if caller is not None and caller.filename else None
        fix = self._fix(report) if here or self._whole else None
        severity, unseen = self._severity_and_premises(report)
        if (
            severity is None
            or at is None
            or (fix is None and rule.only_fixable)
            or is_expected_to_raise(self._source, at)
        ):
            return None
        return Finding(
            code=rule.code,
            name=rule.name,
            severity=severity,
            message=f"{report.message} (where {option} is chosen)"
            if (option := report.event.option)
            else report.message,
            filename=self._source.filename,
            span=self._source.span(at),
            reason=" ".join(filter(None, (report.reason, named(unseen)))),
            advice=report.advice,
            notes=notes,
            fix=fix,
            elsewhere=elsewhere,
            claims=report.claims,
            shown=self._note(report.event.node, "") if report.claims and report.event.node is not at else None,
            guesses=tuple(dict.fromkeys(replace(guessed, about="") for guessed in guesses)),
        )

    def _is_away(self, report: Report, finding: Finding) -> bool:
        """Whether a report lies entirely in another file, unless the whole program counts."""
        if self._whole or self._source.owns(report.at):
            return False
        place = self._note(report.at, "")
        return {note.filename for note in finding.notes} <= {place.filename if place is not None else None}

    def _severity_and_premises(self, report: Report) -> tuple[Severity | None, tuple[Premise, ...]]:
        """The severity of a finding, None if it is dropped, and the premises that it rests on."""
        severity = Severity.INFO if report.event.assumed else report.severity
        certain = report.rule.anywhere or severity is Severity.ERROR
        purposes = () if certain else (*self._purposes, *self._purposes_of_function(report))
        unseen = (*self._premises, *report.premises, *purposes)
        asked = report.rule.code in self._asked
        left = remaining_severity(severity, unseen, asked=asked)
        if left is not None and not report.rule.anywhere and self._program.unresolved() is not None:
            unseen = (*unseen, Premise.IMPORTS_THERE)
            left = remaining_severity(severity, unseen, asked=asked)
        lessened = self._lessens(report) if left is Severity.ERROR and not report.rule.anywhere else None
        return (left, unseen) if lessened is None else (Severity.INFO, (*unseen, lessened))

    def _lessens(self, report: Report) -> Premise | None:
        """The purpose of the file that makes an error an info: of numbers, or in a branch that a test need not take."""
        if Premise.MEASURED in self._purposes and report.rule.only_numbers:
            return Premise.MEASURED
        chosen = any(message and node in report.event.decisions for node, message in report.event.steps)
        return Premise.TESTED if Premise.TESTED in self._purposes and chosen else None

    def _purposes_of_function(self, report: Report) -> tuple[Premise, ...]:
        """The premises that concern the innermost function in which a finding happens, and its caller."""
        around = [(one, self._program.source_of(one)) for one in reversed(report.event.calls[-2:])]
        texts = [source.code(one) for one, source in around if source is not None]
        return purposes_of_function(*texts) if texts else ()

    def _notes(self, report: Report) -> tuple[Note, ...]:
        """The notes of a report, without duplicates and without those that point at the finding itself."""
        own = self._note(report.at, "")
        notes = (self._note(node, message) for node, message in report.notes)
        apart = (note for note in notes if note is not None and (own is None or replace(note, message="") != own))
        return tuple(dict.fromkeys(apart))

    def _note(self, node: cst.CSTNode, message: str) -> Note | None:
        """A note with `message` at `node`; None in a library's stand-in, which has no file."""
        if self._source.owns(node):
            return Note(message, self._source.span(node))
        source = self._program.source_of(node)
        assert source is not None
        if not source.path:
            return None
        return Note(message, source.span(node), os.path.relpath(source.path, os.path.dirname(self._source.path)))

    def _caller(self, site: cst.CSTNode | None) -> Note | None:
        """A note at a call site, None in a library's stand-in."""
        return self._note(site, "") if site is not None else None

    def _is_one_of_two_dtypes(self) -> bool:
        """Whether the findings are those under one of several half dtypes that the script can choose."""
        return bool(self._premises) and len(self._program.offered) > 1

    def _fix(self, report: Report) -> Fix | None:
        if is_config(self._source.path) or (report.rule.fix_fits_one_dtype and self._is_one_of_two_dtypes()):
            return None
        home = self._program.source_of(report.at)
        if home is None or not (home is self._source or home.path):
            return None
        try:
            return report.rule.fix(report.event, self._rewriter if home is self._source else Rewriter(home))
        except ForeignNode:
            return None
        except _FAILURES as failure:
            crash = self._crash(report.rule, failure, report.at, "The repair by rule")
            self._crashes.setdefault(f"{report.rule.code} fix", crash)
            return None

    def _crash(
        self, rule: Rule | type[Rule], failure: BaseException, node: cst.CSTNode | None = None, what: str = "Rule"
    ) -> Finding:
        try:
            span = self._source.span(node) if node is not None else START
        except Exception:
            span = START
        message = f"{what} {rule.code} ({rule.name}) failed: {describe(failure)}"
        reason = "This is a defect in the rule; please report it to its authors. Everything else was checked."
        return diagnostic(RuleCrashed, self._source.filename, message, span=span, reason=reason)


def _places(event: Event) -> Iterator[cst.CSTNode]:
    """What has to be run for an event: the construction of its scaler and, in a function, its node and its regions."""
    scaler = getattr(event, "scaler", None)
    if isinstance(scaler, Scaler) and scaler.created is not None:
        yield scaler.created
    if event.calls:
        yield event.node
        yield from (one.context.node for one in event.regions) if isinstance(event, Backward) else ()


def _rank(report: Report) -> tuple[bool, int]:
    """The order of reports at one place, of which the lowest is kept: without assumptions, with the fewest premises."""
    return report.event.assumed, weight(report.premises)


def _merged_by_code(found: Iterable[Finding], once: Set[str]) -> Iterator[Finding]:
    """`found` with one finding per code in `once`: the first, whose notes list the other places."""
    others: dict[str, list[Finding]] = {}
    found = list(found)
    for finding in found:
        others.setdefault(finding.code, []).append(finding)
    for finding in found:
        first, *more = others[finding.code]
        if finding.code not in once:
            yield finding
        elif finding is first:
            notes = (*finding.notes, *(Note(f"{one.message}: {_begun(one.advice)}", one.span) for one in more))
            many = f" ({len(more) + 1} places in this file)" if more else ""
            yield replace(finding, message=f"{finding.message}{many}", notes=notes)


def _begun(advice: str) -> str:
    """Advice as the continuation of a sentence."""
    return advice[:1].lower() + advice[1:].rstrip(".")
