"""Running averages of weights in libraries: the averaged argument, and the decay."""

from __future__ import annotations

from amplint.records import dataclass


@dataclass(frozen=True, slots=True)
class Averager:
    """A class that keeps an average of weights, in their dtype, and updates it in that dtype.

    `weights` and `decay` are arguments with their positions, `usual` the default decay.
    """

    names: frozenset[str]
    weights: tuple[str, int]
    decay: tuple[str, int]
    usual: float
    source: str


AVERAGERS = {
    name: averager
    for averager in (
        Averager(
            frozenset({"diffusers.training_utils.EMAModel", "diffusers.EMAModel"}),
            ("parameters", 0),
            ("decay", 1),
            0.9999,
            "`EMAModel.__init__` and `step` in diffusers 0.20 to 0.35: `p.clone().detach()`, `s_param.sub_(...)`",
        ),
        Averager(
            frozenset(
                f"timm.utils.{module}{cls}" for module in ("", "model_ema.") for cls in ("ModelEma", "ModelEmaV2")
            ),
            ("model", 0),
            ("decay", 1),
            0.9999,
            "`ModelEma` and `ModelEmaV2` in timm 0.4 to 1.0: `deepcopy(model)`, `ema_v.copy_(update_fn(...))`",
        ),
        Averager(
            frozenset({"timm.utils.ModelEmaV3", "timm.utils.model_ema.ModelEmaV3"}),
            ("model", 0),
            ("decay", 1),
            0.9999,
            "`ModelEmaV3` in timm 0.9.16 to 1.0: `deepcopy(model)`, `torch._foreach_lerp_`",
        ),
        Averager(
            frozenset({"ema_pytorch.EMA", "ema_pytorch.ema_pytorch.EMA"}),
            ("model", 0),
            ("beta", 2),
            0.9999,
            "`EMA.init_ema` and `update_moving_average` in ema-pytorch 0.2 to 0.8: `deepcopy`, `lerp_`",
        ),
    )
    for name in averager.names
}
UPDATES = {
    **dict.fromkeys(AVERAGERS, frozenset({"step", "update"})),
    "torch.optim.swa_utils.AveragedModel": frozenset({"update_parameters"}),
}
"""Class of averages -> its methods that take the weights once."""
UPDATING = frozenset().union(*UPDATES.values())
MOVES = {"mul_": ("other", 0, True), "lerp_": ("weight", 1, False)}
"""Method of a tensor -> its factor with the position, and whether that is the share retained."""
