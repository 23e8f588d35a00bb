"""AMP804."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Finding, Severity
from amplint.trace.check import Check, Place, place, within
from amplint.trace.data import HalfLoss, RunData

from .nonfinite import NonfiniteOrigin
from .settling import DEFAULT

_SHARE = 0.05
"""The share lost in successful trainings."""
_ENOUGH = 256
"""The least number of elements for which a share is meaningful."""
_SMALLEST, _LARGEST = -24, 14
"""The exponents of float16's smallest number, and of its largest with some room."""


class GradientUnderflow(Check):
    """Gradients become 0 in float16 that a loss scale would keep.

    ## Why is this bad?
    The smallest number of float16 is 6e-8; a gradient below half of that is 0, and what it should change does not
    learn. A loss scale multiplies all gradients, so that they lie where float16 has numbers, and the scaler divides
    them again before the step.

    ## Example
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(inputs).loss
    loss.backward()
    optimizer.step()
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(inputs).loss
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling>
    """

    code = "AMP804"
    name = "gradient-underflow"
    severity = Severity.WARNING
    reason = "A gradient that is 0 teaches nothing; a loss scale moves it to where float16 has numbers."

    def findings(self, record: RunData) -> Iterator[Finding]:
        """One finding for each line, with the operation that loses the largest share.

        None for a non-finite loss, whose gradients have another problem.
        """
        yield from self._in_place(record)
        if any(True for _ in NonfiniteOrigin().findings(record)):
            return
        end = min((step.scale for step in record.scaler_steps if step.skipped), default=2 * DEFAULT)
        lines: dict[Place, HalfLoss] = {}
        for loss in record.losses:
            line = place(loss)
            if loss.row and _is_lost(loss, end) and (line not in lines or _share(loss) > _share(lines[line])):
                lines[line] = loss
        for line, loss in lines.items():
            yield self.found_at(
                line,
                f"{_share(loss):.0%} of the gradients that {loss.op} computes for this line are 0 in {loss.dtype} and "
                f"not in float32{within(loss)}, at a loss scale of {loss.scale:.9g}",
                advice=f"Scale the loss by {loss.scale * 2.0 ** _missing(loss):.9g} or more, with a GradScaler.",
            )

    def _in_place(self, record: RunData) -> Iterator[Finding]:
        """One finding for each line that makes gradients smaller than half can represent."""
        for one in record.observations:
            if one.kind == "vanished" and one.row and (one.share or 0.0) > _SHARE:
                where = f" ({one.module})" if one.module else ""
                yield self.found(
                    one.filename,
                    one.row,
                    f"{one.op} makes {one.share:.0%} of gradients 0 in {one.dtype}{where}",
                    advice="Convert gradients to float32 first, and divide them there.",
                )


def _share(loss: HalfLoss) -> float:
    return loss.underflowed / loss.elements if loss.elements else 0.0


def _missing(loss: HalfLoss) -> int:
    """How many times the scale has to be doubled to keep nine of ten lost numbers."""
    return _SMALLEST - loss.smallest if loss.smallest is not None else 0


def _is_lost(loss: HalfLoss, end: float) -> bool:
    """Whether a scale below `end` prevents the loss, and leaves the largest number finite."""
    return (
        loss.phase == "backward"
        and loss.elements >= _ENOUGH
        and _share(loss) > _SHARE
        and loss.largest is not None
        and loss.largest + _missing(loss) <= _LARGEST
        and loss.scale * 2.0 ** _missing(loss) < end
    )
