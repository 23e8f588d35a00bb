"""AMP753."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import ConvertedInShards


class Float8AfterSharding(Rule):
    """torchao converts the linear layers of a model to float8 after `fully_shard` or FSDP has sharded it.

    ## Why is this bad?
    `convert_to_float8_training` puts new layers in the place of the linear ones, and gives them the parameters that it
    finds there. `fully_shard` gathers the weights for the layers that it has seen: the new ones keep their shards, and
    the first forward pass ends with `RuntimeError: got mixed torch.Tensor and DTensor`. Of a model in
    `FullyShardedDataParallel` the conversion itself raises `TypeError: cannot assign 'torch.FloatTensor' as parameter
    'weight'`. Only with `use_orig_params=True` it does not.

    ## Example
    ```python
    fully_shard(model)
    convert_to_float8_training(model, module_filter_fn=fits)
    ```

    ## Use instead
    ```python
    convert_to_float8_training(model, module_filter_fn=fits)
    fully_shard(model)
    ```

    ## References
    - <https://docs.pytorch.org/ao/stable/api_reference/api_ref_float8.html>
    - <https://github.com/pytorch/torchtitan/blob/main/docs/float8.md>
    """

    code = "AMP753"
    name = "float8-after-sharding"
    severity = Severity.ERROR
    screen = (b"convert_to_float8_training", (b"fully_shard", b"FullyShardedDataParallel"))
    reason = "Sharding gathers weights for the layers it has seen, and the new ones keep a shard."

    def on_converted_in_shards(self, event: ConvertedInShards) -> Iterator[Report]:
        yield self.report(
            event,
            "layers are converted to float8 after the model was sharded",
            advice="Convert the model first, and shard it then.",
            notes=[(event.shards.node, "it is sharded here")],
        )
