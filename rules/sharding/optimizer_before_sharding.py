"""AMP713."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, ShardedStep
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class OptimizerBeforeSharding(Rule):
    """An optimizer is made before its model is sharded, and steps parameters that are no longer the model's.

    ## Why is this bad?
    `fully_shard` puts new parameters in the place of the old ones, as does `FullyShardedDataParallel` without
    `use_orig_params=True`. The optimizer holds the old ones, which get no gradients any more: its steps change nothing,
    and the loss stays where it is. Nothing raises.

    ## Example
    ```python
    optimizer = torch.optim.AdamW(model.parameters())
    fully_shard(model)
    ```

    ## Use instead
    ```python
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    ```
    Nothing is reported where the script puts parameters into the optimizer's groups itself, or hands both to a
    framework.

    ## Fix safety
    Unsafe: the line moves below the sharding, where the optimizer's first steps begin to change the model.

    ## References
    - <https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html>
    - <https://docs.pytorch.org/docs/stable/fsdp.html>
    """

    code = "AMP713"
    name = "optimizer-before-sharding"
    severity = Severity.ERROR
    only_numbers = True
    screen = ((b"fully_shard", b"FullyShardedDataParallel"), b"optim", b".step(")
    fixable = Applicability.UNSAFE
    reason = "Sharding replaces the model's parameters; the optimizer keeps the old ones, which get no gradients."

    def on_sharded_step(self, event: ShardedStep) -> Iterator[Report]:
        if event.outdated:
            yield self.report(
                event,
                f"the optimizer is made before {event.shards.sharder.title} and steps parameters of no model",
                advice="Make the optimizer once the model is sharded.",
                at=event.made,
                notes=[
                    (event.shards.node, "the model gets new parameters here"),
                    (event.node, "this step changes nothing"),
                ],
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, ShardedStep)
        made, sharded = event.made, event.shards.node
        target = _target(rewrite.source.parent(made))
        if target is None or not rewrite.shares_block(made, sharded):
            return None
        block = list(rewrite.block_of(made))
        places = {id(statement): place for place, statement in enumerate(block)}
        first, last = (places.get(id(rewrite.statement_of(node)), -1) for node in (made, sharded))
        if min(first, last) < 0:
            return None
        if first > last or any(target in rewrite.names(one) for one in block[first + 1 : last + 1]):
            return None
        removed = rewrite.remove_statement(made)
        moved = rewrite.insert_after(sharded, f"{target} = {rewrite.text(made)}")
        edits = (removed, moved) if removed is not None and moved is not None else ()
        return Fix("Make the optimizer once the model is sharded", edits, Applicability.UNSAFE) if edits else None


def _target(binding: cst.CSTNode | None) -> str | None:
    """The variable that is the only target of an assignment."""
    if not isinstance(binding, cst.Assign) or len(binding.targets) != 1:
        return None
    target = binding.targets[0].target
    return target.value if isinstance(target, cst.Name) else None
