"""The base of rules about opportunities: their fix converts the whole file."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from amplint.codemods import Wish, as_fix
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Rule
from amplint.semantics.events import Event

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


LARGEST = 50_000
"""The limit in characters of converted files: to convert one takes some ten times as long as to lint it."""
MOST_EDITS = 10_000
"""The limit of edits in all findings about a file."""


class Opportunity(Rule):
    """A possible conversion. It is tried once per file, and a refusal is not reported.

    Each finding has the edits of the whole file; if these are very many, only the first findings have them.
    """

    severity = Severity.INFO
    default = False
    fixable = Applicability.UNSAFE
    only_fixable = True
    wishes: ClassVar[tuple[Wish, ...]]
    """The conversions to try, in this order."""
    title: ClassVar[str]

    def __init__(self) -> None:
        self._conversions: list[Fix | None] = []
        self._repeated = 0

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not self._conversions:
            source = rewrite.source
            wishes = self.wishes if len(source.text) <= LARGEST else ()
            tried = (as_fix(self.title, source.text, wish, source.path) for wish in wishes)
            self._conversions.append(next((fix for fix in tried if fix is not None), None))
        fix = self._conversions[0]
        self._repeated += 0 if fix is None else len(fix.edits)
        return fix if self._repeated <= MOST_EDITS else None
