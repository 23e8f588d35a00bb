"""AMP712."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.sharding import is_chosen_apart
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import ClipFollowed, Event, ScriptEnd, ShardsClipped
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

TAKEN = {"max_norm", "norm_type"}


class PlainClipOfShards(Rule):
    """`torch.nn.utils.clip_grad_norm_` clips the gradients of a model that `FullyShardedDataParallel` has sharded.

    ## Why is this bad?
    Each rank holds a part of each gradient, and PyTorch's function measures that part alone: every rank gets another
    norm, all of them too small, and divides its part by its own. The update is another one than the gradient asks for,
    and nothing raises. On two ranks the gradients of one layer had a norm of 566, which rank 0 took for 5.7.

    `fully_shard` (FSDP2) keeps its parameters as `DTensor`s, whose norm is that of all ranks: there the function is
    right. So it is with `ShardingStrategy.NO_SHARD`, and so is `clip_grad_value_`, which looks at single numbers.

    ## Example
    ```python
    model = FullyShardedDataParallel(model)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    ```

    ## Use instead
    ```python
    model = FullyShardedDataParallel(model)
    loss.backward()
    model.clip_grad_norm_(1.0)
    ```
    Nothing is reported where the script calls the model's own method somewhere: it knows, and chooses. Nor of clipping
    that another backward pass follows instead of a step.

    ## Fix safety
    The method is for this and takes the same limit. There is none for arguments that it does not have, nor where the
    model is sharded under a condition: only sharded models have the method.

    ## References
    - <https://docs.pytorch.org/docs/stable/fsdp.html#torch.distributed.fsdp.FullyShardedDataParallel.clip_grad_norm_>
    - <https://github.com/pytorch/pytorch/issues/72548>
    """

    code = "AMP712"
    name = "plain-clip-of-shards"
    severity = Severity.ERROR
    only_numbers = True
    screen = (b"FullyShardedDataParallel", b"clip_grad_norm_")
    fixable = Applicability.SAFE
    reason = "Each rank measures and scales its own part of the gradients."

    def __init__(self) -> None:
        self.found: dict[cst.CSTNode, ShardsClipped] = {}
        self.order: dict[cst.CSTNode, bool] = {}
        self.knows_better = False

    def on_clip_followed(self, event: ClipFollowed) -> Iterator[Report]:
        self.order[event.node] = event.used or self.order.get(event.node, False)
        yield from ()

    def on_shards_clipped(self, event: ShardsClipped) -> Iterator[Report]:
        if event.own:
            self.knows_better = True
        else:
            self.found.setdefault(event.node, event)
        yield from ()

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        for clipped in self.found.values() if not self.knows_better else ():
            if not self.order.get(clipped.node, True):
                continue
            yield self.report(
                clipped,
                "clip_grad_norm_ measures one rank's part of gradients that FSDP has sharded",
                advice="Call the model's own method where it is sharded: model.clip_grad_norm_(max_norm).",
                notes=[(clipped.shards.node, "the parameters are sharded here")],
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, ShardsClipped)
        if is_chosen_apart(event.shards.node, event.call, rewrite):
            return None
        parameters = rewrite.find_argument(event.call, "parameters", 0)
        call = parameters.value if parameters is not None else None
        rest = [argument for argument in event.call.args if argument is not parameters]
        named = {argument.keyword.value for argument in rest if argument.keyword is not None}
        if (
            not isinstance(call, cst.Call)
            or call.args
            or not isinstance(call.func, cst.Attribute)
            or not named <= TAKEN
        ):
            return None
        if any(argument.star for argument in rest) or len(rest) > len(TAKEN):
            return None
        given = ", ".join(map(rewrite.text, rest))
        edit = rewrite.replace(event.call, f"{rewrite.text(call.func.value)}.clip_grad_norm_({given})")
        return Fix("Let the model clip", (edit,))
