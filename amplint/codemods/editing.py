"""Edits of a script, and the passes of a codemod, each of which edits the result of the one before."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence

from amplint.codemods.conversion import Remark
from amplint.codemods.rows import row_before
from amplint.findings import Edit, Span
from amplint.fixes.splice import locate, splice
from amplint.source.rewrite_lines import deletions
from amplint.training.refusal import Refusal
from amplint.training.script import Script


class Passes:
    """A script in successive passes; `first` is the original, `script` the present one."""

    def __init__(self, first: Script) -> None:
        self.first = self.script = first

    def row(self, row: int) -> int:
        """The row of the first script that corresponds to a row of the present one."""
        return row_before(self.first.text, self.script.text, row)

    @contextlib.contextmanager
    def mapped_refusals(self) -> Iterator[None]:
        """Raise refusals with the rows of the first script."""
        try:
            yield
        except Refusal as refusal:
            raise Refusal(self.row(refusal.row(self.script.source)), refusal.why) from None


def edited(script: Script, edits: Iterable[Edit]) -> Script:
    """The script after `edits`, which must not overlap."""
    done = list(edits)
    return Script(splice(script.text, locate(script.lines, done)), script.path) if done else script


def without(script: Script, items: Sequence[Span], gone: Collection[int]) -> Iterator[Edit]:
    """The edits that delete some of `items` from a list in brackets."""
    for start, end in deletions(script.lines, items, gone, bracketed=True) if gone else ():
        yield Edit(Span(script.lines.position(start), script.lines.position(end)), "")


def remarks_on(refusal: Refusal, script: Script) -> tuple[Remark, ...]:
    """The remarks on all reasons of a refusal, in the order of the text."""
    return tuple(Remark(*reason) for reason in refusal.reasons(script.source))
