"""AMP216."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.sharding import is_chosen_apart, may_lack_group
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import ApiUse, Event, ScalerMeetsShards, ScalerRecordsRead, ScriptEnd
from amplint.source import syntax as cst
from amplint.torchlib.names import GRAD_SCALERS, SCALER_PARAMETERS, SHARDED_SCALER, SUCCESSORS

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class PlainScalerWithFsdp(Rule):
    """A plain `GradScaler` serves a model that `FullyShardedDataParallel` has sharded.

    ## Why is this bad?
    Under FSDP every rank holds a part of each gradient, and `GradScaler` looks for inf and NaN in that part only. When
    a gradient overflows on one rank, that rank skips the step and halves its scale, while the others step: from then on
    the shards of the model belong to different iterations and the ranks scale their losses differently. Nothing raises.
    `ShardedGradScaler` exchanges what was found between the ranks.

    `fully_shard` (FSDP2) keeps its parameters as `DTensor`s, which exchange it by themselves (checked with PyTorch
    2.13): there a plain `GradScaler` is right. So it is with `ShardingStrategy.NO_SHARD`, and where the script itself
    exchanges what was found, in `scaler._per_optimizer_states`.

    ## Example
    ```python
    model = FullyShardedDataParallel(model)
    scaler = torch.amp.GradScaler("cuda")
    ```

    ## Use instead
    ```python
    from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

    model = FullyShardedDataParallel(model)
    scaler = ShardedGradScaler()
    ```

    ## Fix safety
    `ShardedGradScaler` is a `GradScaler` with the same arguments, which are passed by keyword since their order
    differs. It works without sharding too, as long as a process group is there.

    ## References
    - <https://github.com/pytorch/pytorch/blob/main/torch/distributed/fsdp/sharded_grad_scaler.py>
    """

    code = "AMP216"
    name = "plain-scaler-with-fsdp"
    severity = Severity.ERROR
    only_numbers = True
    screen = (b"FullyShardedDataParallel", b"GradScaler")
    fixable = Applicability.SAFE
    reason = "Each rank sees only its own shard's inf and NaN, so one rank skips a step that the others take."

    def __init__(self) -> None:
        self.found: dict[cst.CSTNode, ScalerMeetsShards] = {}
        self.exchanged: set[cst.CSTNode | None] = set()
        self.knows_better = False

    def on_api_use(self, event: ApiUse) -> Iterator[Report]:
        self.knows_better = self.knows_better or event.name.endswith(".ShardedGradScaler")
        yield from ()

    def on_scaler_records_read(self, event: ScalerRecordsRead) -> Iterator[Report]:
        self.exchanged.add(event.scaler.created)
        yield from ()

    def on_scaler_meets_shards(self, event: ScalerMeetsShards) -> Iterator[Report]:
        if event.scaler.created is not None and event.scaler.cls in GRAD_SCALERS and event.scaler.cls != SHARDED_SCALER:
            self.found.setdefault(event.scaler.created, event)
        yield from ()

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        for created, met in self.found.items() if not self.knows_better else ():
            if created in self.exchanged:
                continue
            yield self.report(
                met,
                "a plain GradScaler scales the gradients of a model that FSDP has sharded",
                advice="Use torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler where the model is sharded.",
                at=created,
                notes=[(met.wrapped, "the parameters are sharded here")],
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, ScalerMeetsShards)
        created = event.scaler.created
        if not isinstance(created, cst.Call):
            return None
        if is_chosen_apart(event.wrapped, created, rewrite) and may_lack_group(rewrite):
            return None
        old = event.scaler.cls in SUCCESSORS
        edits = [
            rewrite.replace(created.func, "ShardedGradScaler"),
            *rewrite.name_arguments(created, SCALER_PARAMETERS[old:]),
        ]
        if GRAD_SCALERS[event.scaler.cls] == "cpu":
            edits.append(rewrite.set_argument(created, "device", '"cpu"'))
        module = SHARDED_SCALER.rpartition(".")[0]
        imports = (f"from {module} import ShardedGradScaler",)
        done = tuple(filter(None, edits))
        return Fix("Use ShardedGradScaler", done, imports=imports) if len(done) == len(edits) else None
