"""AMP808."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import groupby

from amplint.findings import Finding, Severity
from amplint.torchlib.names import HALF_DTYPES
from amplint.trace.check import Check
from amplint.trace.data import RunData, Update

_SHARE = 0.5
"""The share of a weight's lost updates, averaged over steps, from which it is reported."""
_NAMED = 3
_KNOWN = frozenset(
    {
        *("acc_delta", "ax", "eta", "exp_avg", "exp_avg_sq", "exp_inf", "grad_avg", "max_exp_avg_sq"),
        *("momentum_buffer", "mu", "prev", "square_avg", "step", "step_size", "sum"),
    }
)
"""The state of PyTorch's optimizers. One with other state may compensate for the loss."""


class UpdateLost(Check):
    """Most updates of half weights are too small to change them.

    ## Why is this bad?
    bfloat16 has three digits, float16 has four: an update that is less than about a hundredth, or a thousandth, of a
    weight is rounded away, and the weight stays as it was, step after step. The smaller the learning rate, the less is
    learned, until nothing is.

    ## Example
    ```python
    model = Model().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    ```

    ## Use instead
    ```python
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(inputs).loss
    ```

    ## References
    - <https://arxiv.org/abs/2010.06192>
    """

    code = "AMP808"
    name = "update-lost"
    severity = Severity.WARNING
    reason = "A half weight has three or four digits, and an update below the last of them changes nothing."

    def findings(self, record: RunData) -> Iterator[Finding]:
        """One finding for each optimizer and dtype."""
        compensated = {(held.name, held.optimizer) for held in record.held if {name for name, _ in held.state} - _KNOWN}
        updates = [
            update
            for update in record.updates
            if update.dtype in HALF_DTYPES and (update.name, update.optimizer) not in compensated
        ]
        for (filename, row, optimizer, dtype), group in groupby(sorted(updates, key=_kind), _kind):
            shares: dict[str, list[float]] = {}
            for update in group:
                shares.setdefault(update.name, []).append(update.lost)
            lost = {name: _mean(share) for name, share in shares.items() if _mean(share) > _SHARE}
            if lost and row:
                names = sorted(lost, key=lambda name: -lost[name])
                more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
                yield self.found(
                    filename,
                    row,
                    f"{_mean(lost.values()):.0%} of what {optimizer} updates in {dtype} stays as it was: "
                    f"{', '.join(names[:_NAMED])}{more}",
                    advice="Keep the model in float32 and let autocast convert.",
                )


def _mean(shares: Collection[float]) -> float:
    return sum(shares) / len(shares)


def _kind(update: Update) -> tuple[str, int, str, str]:
    return update.filename, update.row, update.optimizer, update.dtype
