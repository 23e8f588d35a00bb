"""Completion of a conversion: new findings are repaired, and remaining errors and warnings refuse it.

Those that are accepted do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from amplint.codemods import outputs
from amplint.codemods.conversion import Remark
from amplint.codemods.islands import RULES, islands, literal_device
from amplint.codemods.mending import remark_on
from amplint.codemods.repairs import lint
from amplint.codemods.rows import row_before
from amplint.findings import Finding, Severity
from amplint.fixes.apply import apply_verified
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import NEWLINE, Source
from amplint.source.tree import every
from amplint.training.bindings import called_name
from amplint.training.givers import gives_plain_losses
from amplint.training.halves import halves_of
from amplint.training.script import parsed
from amplint.training.surroundings import whole_program

ROUNDS = 10
ACCEPTED = ("scaler-not-checkpointed",)
"""Rules whose findings refuse nothing: a new scaler reaches its scale again within a few steps."""
_HARMLESS = ("hard-coded-float32-buffer", "checkpoint-inputs-without-grad")
"""Rules whose findings are about values that stay float32, or about what goes wrong in float32 as well."""
_OF_DEVICES = "autocast-has-no-effect"
"""The rule about the device of regions, which the conversion is told."""
_OF_LOSSES = "loss-in-half"
_OF_CHECKPOINTS, _OF_WINDOWS = "scaler-not-checkpointed", "scaled-loss-read"
_Key = tuple[str, Severity, str, str]
"""The kind of a finding, whose reason names its premises, and the text of its line."""


class Completion:
    """Completes the conversion of the text `before`, the content of the file at `path` if it is in one.

    Findings of rules with a code or a name in `allowed` are accepted.
    """

    def __init__(self, before: str, path: str, allowed: Sequence[str]) -> None:
        self._before = before
        self._path = path
        self._accepted = frozenset((*ACCEPTED, *allowed))
        self._known = Counter[_Key]()
        self._asked = frozenset[str]()

    def accept(self, names: Sequence[str]) -> None:
        """Accept the findings of the rules with these `names` as well."""
        self._accepted |= frozenset(names)

    def repaired(self, text: str, names: Sequence[str], half: str) -> tuple[str, list[Remark]]:
        """`text` with the fixes for findings of the rules with these `names`, and remarks on them.

        What a loss is given is cast at each of its calls or at none.
        Where models return `half`, calls of other files that raise for it are among them.
        """
        given, done = text, list[Remark]()
        for _ in range(ROUNDS if names else 0):
            new = [one for one in self._new(text) if one.name in names]
            raising = self._raising(text, half) if half else []
            bare = {one.message for one in new if one.name == _OF_LOSSES and one.fix is None}
            even = (one.fix for one in new if one.fix is not None and one.message not in bare)
            fixes = [*even, *islands(text, self._path, [*new, *raising])]
            repaired, applied, why = apply_verified(text, fixes)
            if not applied or why is not None:
                break
            text = repaired
            done += [
                Remark(row_before(self._before, text, fix.edits[0].span.start.row), fix.message) for fix in applied
            ]
        if _OF_CHECKPOINTS in names and any(_is_only_saved(one) for one in self._new(text)):
            return self.repaired(given, [one for one in names if one != _OF_CHECKPOINTS], half)
        return text, done

    def _raising(self, text: str, half: str) -> list[Finding]:
        """The findings in other files about operations that certainly raise for `half` outputs of models."""
        found = outputs.found(text, self._path).findings
        errors = (one for one in found if one.severity is Severity.ERROR and one.elsewhere is not None)
        return [one for one in errors if one.name in RULES and outputs.can_happen(one, half)]

    def new_problems(self, text: str) -> list[Remark]:
        """The new errors and warnings in `text` that are not accepted, by the rows of the original."""
        found = [one for one in self._new(text) if self._stops(one)]
        remarks = (replace(_remark(one), row=row_before(self._before, text, one.span.start.row)) for one in found)
        return sorted(dict.fromkeys(remarks), key=lambda remark: remark.row)

    def infos(self, text: str) -> list[Remark]:
        """The other new findings in `text`, by its rows, without opportunities."""
        halves = halves_of(text, self._path)
        source, run = parsed(text, self._path).source, outputs.found(text, self._path)
        new = (one for one in self._new(text) if not self._stops(one) and halves.concern(one))
        found = (one for one in new if not outputs.is_refuted(one, run))
        return [remark_on(one, whole_program(source), literal_device(source)) for one in found]

    def _stops(self, finding: Finding) -> bool:
        return finding.severity > Severity.INFO and self._accepted.isdisjoint((finding.code, finding.name))

    def _new(self, text: str) -> list[Finding]:
        """The findings in `text` in excess of those of their kind in the original, which keep their lines."""
        there = lint(text, self._path)
        keys, codes = _keys(text, there), {one.code for one in there}
        if not codes <= self._asked:
            self._asked |= codes
            self._known = Counter(_keys(self._before, lint(self._before, self._path, self._asked)))
        moved = Counter(key[:-1] for key in (self._known - Counter(keys)).elements())
        known, found = self._known.copy(), []
        for finding, key in zip(there, keys, strict=True):
            if is_harmless(finding, parsed(text, self._path).source):
                continue
            if known[key] > 0:
                known[key] -= 1
            elif moved[key[:-1]] > 0:
                moved[key[:-1]] -= 1
            else:
                found.append(finding)
        return found


def _is_only_saved(finding: Finding) -> bool:
    """Whether a finding is about a scaler whose state is saved and not restored where that of the optimizer is."""
    return finding.name == _OF_CHECKPOINTS and "saved but never restored" in finding.message


def is_harmless(finding: Finding, source: Source) -> bool:
    """Whether a new finding in the file `source`, or behind its imports, is about nothing that goes wrong."""
    if finding.name == _OF_WINDOWS and "number of micro-batches" in finding.message:
        return True  # it was so before
    if finding.severity > Severity.INFO or finding.name in _HARMLESS:
        return finding.name in _HARMLESS
    if finding.name == _OF_LOSSES and finding.elsewhere is None:
        call = _call_at(finding, source)
        given = call is not None and _is_given(call, source) and gives_plain_losses(source)
        return given or (call is not None and _is_read(call, source))
    return finding.name == _OF_DEVICES


def _call_at(finding: Finding, source: Source) -> cst.Call | None:
    """The call that a finding is about."""
    calls = (call for chunk in source.chunks for call in every(chunk.module, cst.Call))
    return next((call for call in calls if source.span(call) == finding.span), None)


def _is_given(call: cst.Call, source: Source) -> bool:
    """Whether the loss that `call` computes is neither defined nor imported by the file."""
    root = (dotted(call.func) or "").partition(".")[0]
    return bool(root) and root not in source.imports and root not in source.definitions


def _is_read(call: cst.Call, source: Source) -> bool:
    """Whether a loss is a method of an object, which a class in another file that is read defines."""
    name, method = called_name(call), isinstance(call.func, cst.Attribute)
    chunks = (chunk for chunk in whole_program(source).chunks if chunk.source is not source and name in chunk.words)
    functions = (one for chunk in chunks if chunk.is_class for one in every(chunk.module, cst.FunctionDef))
    return method and any(one.name.value == name for one in functions)


def _keys(text: str, findings: Sequence[Finding]) -> list[_Key]:
    lines = NEWLINE.split(text)
    return [(one.code, one.severity, one.reason, lines[one.span.start.row - 1].strip()) for one in findings]


def _remark(finding: Finding) -> Remark:
    return Remark(finding.span.start.row, f"in the result, {finding.message} ({finding.code})")
