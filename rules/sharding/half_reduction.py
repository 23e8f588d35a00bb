"""AMP714."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, PolicyMade
from amplint.source import syntax as cst
from amplint.torchlib.names import DTYPES, HALF_DTYPES

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class HalfReduction(Rule):
    """A policy of FSDP adds gradients up in half across ranks, or converts buffers to half.

    ## Why is this bad?
    Gradients of all ranks are added in `reduce_dtype`, which is `param_dtype` where it is not given. In bfloat16 each
    sum keeps 8 bits: of 256 equal gradients a running sum loses most of the later half. In float16 sums overflow and
    small gradients vanish. `buffer_dtype` rounds what a model keeps beside its weights: positions and angles of rotary
    embeddings, running statistics, schedules of noise.

    float32 costs bandwidth for gradients, and nothing to speak of for buffers. This is an info: how much is lost
    depends on the number of ranks and on the buffers of the model. Where only bfloat16 sums are asked for, which trade
    digits for bandwidth, it is reported only where the rule is selected by its code. A script that only evaluates a
    model adds no gradients up, so that there its buffers alone count.

    ## Example
    ```python
    policy = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16)
    ```

    ## Use instead
    ```python
    policy = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.float32)
    ```

    ## Fix safety
    Unsafe: gradients travel in twice as many bytes. An argument that is no written dtype, such as a setting, is left.

    ## References
    - <https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html>
    - <https://github.com/meta-pytorch/torchtune/issues/2267>
    - <https://github.com/facebookresearch/d2go/pull/585>
    """

    code = "AMP714"
    name = "half-reduction"
    severity = Severity.INFO
    screen = (b"MixedPrecision", b"torch.distributed", (b"float16", b"half"))
    fixable = Applicability.UNSAFE

    def on_policy_made(self, event: PolicyMade) -> Iterator[Report]:
        lost = _lost(event)
        if lost:
            yield self.report(
                event,
                " and ".join(f"{what} in {dtype}" for _, what, dtype in lost),
                reason="Sums over ranks and buffers need more digits than half has; weights are cast without them.",
                advice=f"Pass {', '.join(f'{name}=torch.float32' for name, *_ in lost)}.",
                premises=_unseen(lost),
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, PolicyMade)
        if not isinstance(event.node, cst.Call):
            return None
        places = [(name, event.policy.parameters.index(name)) for name, *_ in _lost(event)]
        given = [rewrite.find_argument(event.node, name, position) for name, position in places]
        if any(one is not None and not _is_written(one.value, rewrite) for one in given):
            return None
        edits = [rewrite.set_argument(event.node, name, "torch.float32", position) for name, position in places]
        done = tuple(filter(None, edits))
        if len(done) < len(edits):
            return None
        return Fix("Ask for float32", done, Applicability.UNSAFE, imports=("import torch",))


def _is_written(dtype: cst.BaseExpression, rewrite: Rewriter) -> bool:
    """Whether an argument names a dtype of PyTorch, as `torch.bfloat16` does."""
    return f"torch.{rewrite.text(dtype).rpartition('.')[2]}" in DTYPES


def _unseen(lost: list[tuple[str, str, str]]) -> tuple[Premise, ...]:
    """The premises without evidence: float16 sums lose small gradients, the rest depends on ranks and model."""
    if any(name == "reduce_dtype" and dtype == "float16" for name, _, dtype in lost):
        return ()
    return (Premise.BUFFERS_COUNT,) if any(name == "buffer_dtype" for name, *_ in lost) else (Premise.DIGITS,)


def _lost(event: PolicyMade) -> list[tuple[str, str, str]]:
    """The arguments that set half or keep it, each with its purpose, and the dtype."""
    dtypes = event.dtypes
    computed = dtypes.get("param_dtype") if "reduce_dtype" in dtypes else None
    reduced, kept = dtypes.get("reduce_dtype") or computed, dtypes.get("buffer_dtype")
    reduced = None if event.only_infers else reduced
    kept = None if event.bufferless else kept
    found = [
        ("reduce_dtype", "gradients are added up", reduced),
        ("buffer_dtype", "buffers are kept", kept),
    ]
    return [(name, what, dtype) for name, what, dtype in found if dtype in HALF_DTYPES]
