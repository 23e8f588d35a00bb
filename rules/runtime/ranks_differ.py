"""AMP809."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.findings import Finding, Severity
from amplint.trace.check import Check, times
from amplint.trace.data import Divergence, RunData

_ADVICE = {
    "dtype": "Let every rank decide about mixed precision from the same arguments.",
    "backward": "Let every rank take as many batches for a step, and skip a bad one on all of them.",
    "nonfinite": "Look at what this rank was given: the others get the inf or NaN only with the gradients.",
    "skipped": "Find infs before the scaler does on all ranks alike; with FSDP use a ShardedGradScaler.",
}


class RanksDiffer(Check):
    """The ranks of one run did not do the same: other dtypes, other steps, or an inf or NaN on one of them alone.

    ## Why is this bad?
    The ranks of a distributed run train one model, and each must take every step with the same gradients. Where one
    skips a step alone, the weights are different from then on, and nothing says so. An inf of one rank reaches all
    others with the gradients, and looks there as if it came from the backward pass.

    ## Example
    ```python
    with torch.autocast("cuda", enabled=torch.cuda.is_bf16_supported()):
        loss = model(inputs).loss
    if loss.isnan():
        continue
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", enabled=args.amp):
        loss = model(inputs).loss
    ```

    ## References
    - <https://docs.pytorch.org/docs/stable/notes/ddp.html>
    """

    code = "AMP809"
    name = "ranks-differ"
    severity = Severity.ERROR
    reason = "All ranks train the same weights, and must take the same steps with the same gradients."

    def findings(self, record: RunData) -> Iterator[Finding]:
        """One finding for each kind of difference and line; the number of runs of a line is no finding."""
        for difference in record.divergences:
            if difference.kind in _ADVICE:
                advice = _ADVICE[difference.kind]
                yield self.found(difference.filename, difference.row, _message(difference), advice=advice)


def _message(difference: Divergence) -> str:
    inside = f" ({difference.module})" if difference.module else ""
    others = difference.lines - 1
    more = f", and {others} more {'line differs' if others == 1 else 'lines differ'}" if others else ""
    step = f" in step {difference.step + 1}" if difference.step is not None else ""
    if difference.kind == "nonfinite":
        made = tuple(pair for pair in difference.did if pair[1] != "finite")
        return f"the first {_ranks(made)} alone: {difference.op}{step}{inside}"
    if difference.kind == "skipped":
        return f"the scaler {_ranks(difference.did)}{step}"
    if difference.kind == "backward":
        return f"gradients were computed {_ranks([(rank, times(int(count))) for rank, count in difference.did])}"
    return f"{difference.op} ran {_ranks(difference.did, 'in ')}{inside}{more}"


def _ranks(did: Sequence[tuple[int, str]], before: str = "") -> str:
    """`in float16 on ranks 0, 1 and in float32 on rank 2`."""
    same: dict[str, list[str]] = {}
    for rank, what in did:
        same.setdefault(what, []).append(str(rank))
    return " and ".join(
        f"{before}{what} on {'ranks' if len(ranks) > 1 else 'rank'} {', '.join(ranks)}" for what, ranks in same.items()
    )
