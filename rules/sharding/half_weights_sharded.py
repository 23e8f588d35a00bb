"""AMP711."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.repairs import load_in_float32
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, HalfSharded, HalfStepped, ScriptEnd, ShardedStep
from amplint.source import syntax as cst

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
    Where no step of a sharded model is in sight, this is an info. Nothing is reported where the policy computes in
    another dtype, of weights that are not trained, and in scripts that evaluate a model.

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
    only_numbers = True
    screen = ((b"fully_shard", b"FullyShardedDataParallel"), b"MixedPrecision", (b"half", b"float16"))
    fixable = Applicability.UNSAFE
    reason = "The weights are sharded in the dtype they come in; the policy casts what is there already."

    def __init__(self) -> None:
        self._sharded: list[HalfSharded] = []
        self._steps = False

    def on_half_sharded(self, event: HalfSharded) -> Iterator[Report]:
        self._sharded.append(event)
        yield from ()

    def on_half_stepped(self, event: HalfStepped) -> Iterator[Report]:
        shards = event.shards
        if shards is not None and shards.dtype == event.dtype:
            notes = [_converted(event), (event.node, "this step rounds the updates")]
            yield self._told(event, shards.sharder.title, shards.node, notes)

    def on_sharded_step(self, event: ShardedStep) -> Iterator[Report]:
        self._steps = True
        yield from ()

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        for sharded in self._sharded if not self._steps else ():
            yield self._told(sharded, sharded.shards.sharder.title, sharded.node, [_converted(sharded)])

    def _told(
        self, event: HalfStepped | HalfSharded, title: str, at: cst.CSTNode, notes: list[tuple[cst.CSTNode, str]]
    ) -> Report:
        return self.report(
            event,
            f"{title} gets {event.dtype} weights: its policy leaves no float32 copy to update",
            advice="Shard float32 weights; the policy casts them for each forward pass.",
            at=at,
            notes=notes,
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, (HalfStepped, HalfSharded))
        return load_in_float32(event.cast, rewrite)


def _converted(event: HalfStepped | HalfSharded) -> tuple[cst.CSTNode, str]:
    return event.cast, f"the weights become {event.dtype} here"
