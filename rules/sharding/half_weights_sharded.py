"""AMP711."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.repairs import load_in_float32
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, HalfStepped

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class HalfWeightsSharded(Rule):
    """A model is sharded with a mixed-precision policy, and its weights are half already: no float32 copy is left.

    ## Why is this bad?
    `MixedPrecisionPolicy(param_dtype=torch.bfloat16)` promises float32 weights that are cast to bfloat16 for each pass.
    `fully_shard` and `FullyShardedDataParallel` keep the weights in the dtype in which they get them, though, and so
    does the optimizer with its state. With weights that were loaded in bfloat16 or converted to it, the policy does
    nothing: an update that is less than 1/256 of its weight is lost. Gains of norm layers stay exactly 1, weight decay
    vanishes, and the loss ends higher, without an error or a warning. DeepSpeed keeps float32 copies itself.

    ## Example
    ```python
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16)
    fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ```

    ## Use instead
    ```python
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
    fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ```
    Nothing is reported where no optimizer of PyTorch's steps the model, or where the policy computes in another dtype.

    ## Fix safety
    Unsafe: the weights are kept in float32, which takes twice the memory for them and for the optimizer's state.

    ## References
    - <https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html>
    - <https://github.com/pytorch/torchtitan/issues/1133>
    - <https://github.com/vllm-project/speculators/pull/711>
    """

    code = "AMP711"
    name = "half-weights-sharded"
    severity = Severity.ERROR
    screen = ((b"fully_shard", b"FullyShardedDataParallel"), b"MixedPrecision", (b"half", b"float16"), b".step(")
    fixable = Applicability.UNSAFE
    reason = "The weights are sharded in the dtype they come in; the policy casts what is there already."

    def on_half_stepped(self, event: HalfStepped) -> Iterator[Report]:
        shards = event.shards
        if shards is not None and shards.dtype == event.dtype:
            yield self.report(
                event,
                f"{shards.sharder.title} gets {event.dtype} weights: its policy leaves no float32 copy to update",
                advice="Shard float32 weights; the policy casts them for each forward pass.",
                at=shards.node,
                notes=[
                    (event.cast, f"the weights become {event.dtype} here"),
                    (event.node, "this step rounds the updates"),
                ],
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, HalfStepped)
        return load_in_float32(event.cast, rewrite)
