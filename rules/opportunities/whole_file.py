"""What the rules about opportunities share: their repair converts the whole file."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from amplint.codemods import Wish, as_fix
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Rule
from amplint.semantics.events import Event

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class Opportunity(Rule):
    """A conversion that could be had. It is tried once for a file, and where it is refused nothing is said."""

    severity = Severity.INFO
    default = False
    fixable = Applicability.UNSAFE
    only_fixable = True
    wish: ClassVar[Wish]
    title: ClassVar[str]

    def __init__(self) -> None:
        self._conversions: list[Fix | None] = []

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not self._conversions:
            source = rewrite.source
            self._conversions.append(as_fix(self.title, source.text, self.wish, source.path))
        return self._conversions[0]
