"""Codemods that consist of the fixes of one rule."""

from __future__ import annotations

import functools

from amplint.codemods.conversion import Change, Plan, Remark
from amplint.engine.analyse import analyse
from amplint.engine.diagnostics import ALWAYS_ON
from amplint.engine.job import Job
from amplint.engine.registry import load_registry
from amplint.engine.screen import follows, screen
from amplint.findings import Finding
from amplint.rule import Rule
from amplint.source.encoding import encode
from amplint.training.surroundings import cached_by_text, check_time, modules


@functools.cache
def rule_named(name: str) -> type[Rule]:
    """The rule with this name. Raises LookupError if no plug-in provides it."""
    found = load_registry().find(name)
    if found is None:
        raise LookupError(f"the rule {name} is missing")
    return found


@functools.cache
def all_rules() -> tuple[type[Rule], ...]:
    """Every rule that is on by default, without what is for callers of the file."""
    return tuple(map(_of_file, (one for one in load_registry().rules.values() if one.default and one.handlers())))


def _of_file(rule: type[Rule]) -> type[Rule]:
    own = {kind: name for kind, name in rule.handlers().items() if kind not in rule.of_callers}
    return type(rule.__name__, (rule,), {"handlers": classmethod(lambda cls: own)}) if rule.of_callers else rule


@functools.cache
def selected() -> frozenset[str]:
    """The codes that a conversion selects: rules that assume half, and that of checkpoints.

    A conversion saves the scaler's state with the optimizer's, also where nothing in sight restores them. It chooses
    the device type itself, so that a region or scaler for it alone is no reason to look again.
    """
    asking = (rule for rule in all_rules() if rule.assumed or rule.name == "scaler-not-checkpointed")
    return frozenset(rule.code for rule in asking if rule.name != "autocast-has-no-effect")


def findings_of(
    rules: tuple[type[Rule], ...],
    text: str,
    path: str,
    asked: frozenset[str] = frozenset(),
    *,
    whole: bool = False,
    inside: bool = False,
) -> list[Finding]:
    """The findings of `rules` in `text`, the content of the file at `path` if it is in one.

    Rules with a code in `asked` speak as if selected by it, and those that can also assume half. With `whole`, the
    findings include those in imported files. With `inside`, half is assumed in regions alone.
    """
    raw = encode(text)
    if whole:
        return analyse(Job(path, path, raw, (), rules, asked=asked, whole=True), modules()).findings
    screened = screen(rules, raw, asked)
    others = tuple(rule for rule in rules if rule not in screened) if path and follows(raw) else ()
    if not screened and not others:
        return []
    return analyse(Job(path, path, raw, screened, others, asked=asked, inside=inside), modules()).findings


@cached_by_text
def lint(text: str, path: str, codes: frozenset[str] | None = None) -> list[Finding]:
    """The findings of all rules in `text`, also those that assume half for tensors of unknown dtype.

    With `codes`, those of rules with these codes, unless one is that of a diagnostic.
    """
    check_time()
    few = codes is not None and codes.isdisjoint(ALWAYS_ON)
    rules = tuple(rule for rule in all_rules() if not few or rule.code in (codes or ()))
    return findings_of(rules, text, path, selected())


def plan_repairs(rule: type[Rule], text: str, path: str) -> Plan:
    """Fix everything that `rule` finds, safely or not; refuse where a finding has no fix."""
    changes: list[Change] = []
    refused: list[Remark] = []
    for finding in findings_of((rule,), text, path):
        row = finding.span.start.row
        if finding.fix is not None:
            changes.append(Change(finding.fix, (Remark(row, finding.fix.message),)))
        elif finding.code in ALWAYS_ON:
            refused.append(Remark(row, finding.message))
        elif finding.elsewhere is None:
            refused.append(Remark(row, f"{finding.message}, and nothing certain can take its place here"))
    return Plan(tuple(dict.fromkeys(changes)), tuple(refused))
