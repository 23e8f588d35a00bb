"""AMP703."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.premises import Premise
from amplint.rule import Report, Rule
from amplint.semantics.events import ApiUse, Setting
from amplint.semantics.values.values import Const, Items
from amplint.torchlib.legacy import MMCV, MMCV_REMOVED_SINCE, is_mmcv
from amplint.torchlib.versions import Wanted


class MmcvFp16(Rule):
    """Mixed precision comes from mmcv 1.x (`Fp16OptimizerHook`, `auto_fp16`, `force_fp32`, `fp16 = dict(...)`).

    ## Why is this bad?
    mmcv 2.0 removed all of it: with mmengine, `AmpOptimWrapper` runs the forward pass under autocast and scales the
    loss. The decorators cast arguments by name in every module that remembered to set `fp16_enabled`; a tensor they do
    not name keeps its dtype, and a module that forgot the attribute runs in float32.

    ## Example
    ```python
    fp16 = dict(loss_scale="dynamic")
    optimizer_config = dict(grad_clip=dict(max_norm=35))
    ```

    ## Use instead
    ```python
    optim_wrapper = dict(
        type="AmpOptimWrapper", loss_scale="dynamic", optimizer=dict(type="SGD", lr=0.01), clip_grad=dict(max_norm=35)
    )
    ```
    In a loop of your own: `torch.autocast("cuda")` around the forward pass, `torch.amp.GradScaler("cuda")` around the
    loss and the optimizer. There is one finding for a file; its notes are the other places. It says so where the
    project requires an older mmcv. `fp16 = dict(type="apex", ...)` is none of mmcv's.

    ## References
    - <https://mmcv.readthedocs.io/en/latest/compatibility.html>
    - <https://mmengine.readthedocs.io/en/latest/common_usage/speed_up_training.html>
    """

    code = "AMP703"
    name = "mmcv-fp16"
    severity = Severity.INFO
    anywhere = True
    once = True
    screen = ((b"auto_fp16", b"force_fp32", b"wrap_fp16_model", b"Fp16OptimizerHook", b"loss_scale"), (b"mm", b"fp16"))
    reason = "mmcv 2.0 removed it; mmengine and PyTorch bring their own mixed precision."

    def on_api_use(self, event: ApiUse) -> Iterator[Report]:
        if is_mmcv(event.name):
            name = event.name.rpartition(".")[2]
            yield self.report(
                event, f"mmcv 2.0 has removed {name}", advice=f"Use {MMCV[name]}.", premises=_unseen(event.required)
            )

    def on_setting(self, event: Setting) -> Iterator[Report]:
        older = _get(event.value, "type")
        if event.name == "fp16" and older is None and _get(event.value, "loss_scale") is not None:
            advice = "Use optim_wrapper = dict(type='AmpOptimWrapper', ...) with the loss scale in it."
            message = "only mmcv 1.x reads the setting fp16 = dict(loss_scale=...)"
            yield self.report(event, message, advice=advice, premises=_unseen(event.mmcv))
        hook = _get(event.value, "type")
        if isinstance(hook, Const) and hook.value in MMCV:
            advice = "Use optim_wrapper = dict(type='AmpOptimWrapper', ...)."
            message = f"mmcv 2.0 has removed {hook.value}"
            yield self.report(event, message, advice=advice, premises=_unseen(event.mmcv))


def _unseen(mmcv: Wanted | None) -> tuple[Premise, ...]:
    """What a project takes for granted that requires an older mmcv."""
    older = mmcv is not None and mmcv.before is not None and mmcv.before <= MMCV_REMOVED_SINCE
    return (Premise.MOVES_ON_FROM_MMCV,) if older else ()


def _get(settings: Items, key: str) -> object:
    keys = settings.keys or ()
    return settings.values[keys.index(Const(key))] if Const(key) in keys else None
