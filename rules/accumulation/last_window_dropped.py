"""AMP303."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, WindowLost

from .edits import or_last_batch

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class LastWindowDropped(Rule):
    """The micro-batches after the last full window of an epoch never reach a step.

    ## Why is this bad?
    A loader of 102 batches leaves two of them over when four make a window. Their gradients are computed, and cleared
    by the `zero_grad()` at the start of the next epoch: with shuffling some samples go unused in every epoch, without
    it the same ones in all of them.

    Where the rule is selected by its code, loops over batches of unknown number are reported, too, in an epoch or in a
    function that clears the gradients first, and loops whose gradients nothing clears between two epochs: those left
    over are added to the first window of the next one, and the last ones reach no step.

    ## Example
    ```python
    for epoch in range(epochs):
        optimizer.zero_grad()
        for i, (inputs, targets) in enumerate(loader):
            loss = criterion(model(inputs), targets) / accumulation_steps
            loss.backward()
            if (i + 1) % accumulation_steps == 0:
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    for epoch in range(epochs):
        optimizer.zero_grad()
        for i, (inputs, targets) in enumerate(loader):
            loss = criterion(model(inputs), targets) / accumulation_steps
            loss.backward()
            if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
    ```

    ## Fix safety
    The fix steps at the last batch too. It is unsafe: there are more steps than before, and the shorter window is still
    divided by the length of a full one; divide by `len(loader) % accumulation_steps` to weigh it in full. A loader
    with `drop_last` is reported where the rule is selected by its code; a counter that goes on through all epochs, and
    a step behind the loop are not.

    ## References
    - <https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation>
    """

    code = "AMP303"
    name = "last-window-dropped"
    severity = Severity.WARNING
    screen = (b"backward", b"%", b"zero_grad")
    fixable = Applicability.UNSAFE
    reason = "Unless the number of batches is a multiple of the window, some are left over at the end of every epoch."

    def on_window_lost(self, event: WindowLost) -> Iterator[Report]:
        if event.cleared is None:
            yield self.report(
                event,
                "micro-batches after the last full window of an epoch are added to the first one of the next",
                reason="Nothing clears their gradients between two epochs, and those of the last epoch reach no step.",
                advice="Step at the last batch as well: ... or i + 1 == len(loader).",
            )
            return
        yield self.report(
            event,
            "micro-batches after the last full window of an epoch never reach a step",
            advice="Step at the last batch as well: ... or i + 1 == len(loader).",
            notes=[(event.cleared, "clears their gradients when the next epoch starts")],
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, WindowLost)
        edit = or_last_batch(event, rewrite)
        return Fix("Step at the last batch as well", (edit,), Applicability.UNSAFE) if edit else None
