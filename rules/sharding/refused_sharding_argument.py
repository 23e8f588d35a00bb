"""AMP715."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, FrozenPolicySet, ShardingRefused
from amplint.source import syntax as cst
from amplint.torchlib.sharding import POLICY_OF, TAKEN, TWINS

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

RENAMED = {"mixed_precision": "mp_policy", "mp_policy": "mixed_precision"}


class RefusedShardingArgument(Rule):
    """`fully_shard` gets an argument or a policy of `FullyShardedDataParallel`, or the other way round.

    ## Why is this bad?
    PyTorch has two ways to shard a model: `FullyShardedDataParallel` (FSDP1) takes
    `mixed_precision=MixedPrecision(...)`, `fully_shard` (FSDP2) `mp_policy=MixedPrecisionPolicy(...)`. An argument
    of the other one raises `TypeError: fully_shard() got an unexpected keyword argument 'mixed_precision'`, and so does
    `buffer_dtype` for a `MixedPrecisionPolicy`, or `output_dtype` for a `MixedPrecision`. A policy of the other one
    raises as well: `FullyShardedDataParallel` at once, `fully_shard` in the first forward pass, because it casts no
    inputs by it and finds no `output_dtype` in it.

    A `MixedPrecision` can be changed after it was made. A `MixedPrecisionPolicy` cannot, nor a copy of one:
    `policy.reduce_dtype = torch.float32` raises `FrozenInstanceError: cannot assign to field 'reduce_dtype'`.

    ## Example
    ```python
    from torch.distributed.fsdp import MixedPrecision, fully_shard

    fully_shard(model, mixed_precision=MixedPrecision(param_dtype=torch.bfloat16))
    ```

    ## Use instead
    ```python
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    ```

    ## Fix safety
    The call could only raise. The argument gets its other name where the policy is one that the call takes.

    ## References
    - <https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html>
    - <https://docs.pytorch.org/docs/stable/fsdp.html>
    """

    code = "AMP715"
    name = "refused-sharding-argument"
    severity = Severity.ERROR
    screen = (b"torch.distributed", (b"fully_shard", b"FullyShardedDataParallel", b"MixedPrecision"))
    fixable = Applicability.SAFE

    def on_sharding_refused(self, event: ShardingRefused) -> Iterator[Report]:
        called, twin = event.called, TWINS[event.called]
        at = next((argument for argument in event.call.args if _keyword(argument) == event.name), None)
        if event.name in TAKEN[called]:
            message = f"{called} gets a {event.policy}, which is for {twin}"
            reason = f"It reads settings that a {event.policy} does not have: it raises here, or in the forward pass."
            advice = f"Pass a {POLICY_OF[called]}."
        else:
            message = f"{called} has no parameter {event.name}, which is one of {twin}"
            reason = "PyTorch raises TypeError: got an unexpected keyword argument."
            right = RENAMED.get(event.name)
            advice = f"Its name is {right}, and it takes a {POLICY_OF[called]}." if right else "Leave it out."
        yield self.report(event, message, reason=reason, advice=advice, at=at or event.put)

    def on_frozen_policy_set(self, event: FrozenPolicySet) -> Iterator[Report]:
        yield self.report(
            event,
            f"a {event.policy} is frozen: {event.name} cannot be set",
            reason=f"PyTorch raises FrozenInstanceError: cannot assign to field '{event.name}'.",
            advice=f"Pass {event.name} where the policy is made, or make another by dataclasses.replace.",
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event, ShardingRefused):
            return None
        argument, right = rewrite.find_argument(event.call, event.name), RENAMED.get(event.name)
        if argument is None or argument.keyword is None or right is None or event.name in TAKEN[event.called]:
            return None
        if event.policy != POLICY_OF[event.called] or rewrite.find_argument(event.call, right) is not None:
            return None
        return Fix(f"Pass the policy as {right}", (rewrite.replace(argument.keyword, right),))


def _keyword(argument: cst.Arg) -> str | None:
    return argument.keyword.value if argument.keyword is not None else None
