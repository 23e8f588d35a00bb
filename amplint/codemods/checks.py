"""What a conversion would have to answer for: findings in the result that the original does not have."""

from __future__ import annotations

from collections import Counter

from amplint.engine.analyse import Job, analyse
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.engine.screen import screen
from amplint.findings import Finding
from amplint.fixes.apply import apply_round
from amplint.source.source import encode

ROUNDS = 6


def findings(text: str, path: str) -> list[Finding]:
    """What the rules find in `text`, the content of the file at `path`, with all but the opportunities."""
    rules = tuple(r for c, r in sorted(load_registry().rules.items()) if r.handlers() and not c.startswith("AMP9"))
    raw = encode(text)
    return analyse(Job(path, path, raw, screen(rules, raw)), Modules()).findings


def new_findings(old: list[Finding], text: str, path: str) -> list[Finding]:
    """The findings in `text` of a kind that there were fewer of before."""
    before = Counter(finding.code for finding in old)
    now = findings(text, path)
    more = Counter(finding.code for finding in now) - before
    return [finding for finding in now if more[finding.code]]


def repaired(old: list[Finding], text: str, path: str, names: frozenset[str]) -> tuple[str, list[Finding]]:
    """`text` with the repairs of new findings of the rules `names`, and the new findings that then remain."""
    for _ in range(ROUNDS):
        remaining = new_findings(old, text, path)
        fixes = [finding.fix for finding in remaining if finding.name in names and finding.fix is not None]
        better, applied = apply_round(text, fixes) if fixes else (text, [])
        if not applied:
            return text, remaining
        text = better
    return text, new_findings(old, text, path)
