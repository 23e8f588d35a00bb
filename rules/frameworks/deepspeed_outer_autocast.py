"""AMP721."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import EngineInRegion, Event
from amplint.source import syntax as cst
from amplint.torchlib.changes import OUTER_REGION_OFF, OUTER_REGION_REFUSED
from amplint.torchlib.versions import assumed

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class DeepspeedOuterAutocast(Rule):
    """A DeepSpeed engine runs inside of an autocast region, and its configuration asks for none.

    ## Why is this bad?
    The engine has a precision of its own, by the blocks `"bf16"` and `"fp16"` of its configuration. DeepSpeed 0.17.2 to
    0.17.5 refuse a region around it: `AssertionError: torch.autocast is enabled outside DeepSpeed, but not in the
    DeepSpeed config.` Since 0.17.6 the engine switches the region off inside of it, and logs a warning: the model runs
    in the dtype of its weights, as if the region were not there. Only what is computed outside of the engine, such as
    a loss, still runs under autocast. The block `"torch_autocast"` asks the engine for a region of its own.

    Where the project's requirements, lock file or `library-versions` ask for a version that raises, this is an error;
    nothing is reported where they ask for an older one, whose engine ran in the region.

    ## Example
    ```python
    engine, *_ = deepspeed.initialize(model=model, config={"train_batch_size": 8, "bf16": {"enabled": True}})
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = engine(inputs)
    ```

    ## Use instead
    ```python
    engine, *_ = deepspeed.initialize(model=model, config={"train_batch_size": 8, "bf16": {"enabled": True}})
    loss = engine(inputs)
    ```
    Where the configuration is a file, or is not written out, this is an info.

    ## Fix safety
    Unsafe: what else runs in the region, such as the loss, is then computed in the dtype of its inputs.

    ## References
    - <https://www.deepspeed.ai/docs/config-json/>
    - <https://github.com/deepspeedai/DeepSpeed/issues/7529>
    - <https://github.com/deepspeedai/DeepSpeed/pull/7543>
    """

    code = "AMP721"
    name = "deepspeed-outer-autocast"
    severity = Severity.ERROR
    screen = (b"deepspeed", b"initialize", b"autocast")
    fixable = Applicability.UNSAFE
    reason = "DeepSpeed 0.17.2 to 0.17.5 raise; later versions switch the region off inside of the engine."

    def on_engine_in_region(self, event: EngineInRegion) -> Iterator[Report]:
        version = event.version
        since, until = (version.has(change) if version else None for change in (OUTER_REGION_REFUSED, OUTER_REGION_OFF))
        refused = since is True and until is False
        yield self.report(
            event,
            f"DeepSpeed's engine {'raises' if refused else 'does not run'} under this autocast region",
            reason=f"{self.reason[:-1]}; {assumed(OUTER_REGION_REFUSED, version)}.",
            severity=None if refused else Severity.WARNING,
            advice='Leave the region out, or ask the engine for it: "torch_autocast" in its configuration.',
            notes=[
                (event.made, "the engine is made here" + ("" if event.premises else ", without torch_autocast")),
                *([(event.entered, "autocast is on from here")] if event.entered is not None else []),
            ],
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, EngineInRegion)
        edit = rewrite.drop_region(event.entered) if isinstance(event.entered, cst.With) else None
        return Fix("Leave the region out", (edit,), Applicability.UNSAFE) if edit is not None else None
