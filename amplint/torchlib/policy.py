"""What autocast does to the result dtype of the operations that the interpreter knows by name.

Source: the dispatcher of torch 2.13. tests/test_policy.py runs every operation of these tables under autocast.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass


def words(text: str) -> frozenset[str]:
    """The words of `text`."""
    return frozenset(text.split())


_LOSSES = words(
    "binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss hinge_embedding_loss huber_loss "
    "kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss poisson_nll_loss "
    "smooth_l1_loss soft_margin_loss triplet_margin_loss"
)
_MATRIX_PRODUCTS = words(
    "addbmm addmm baddbmm bmm chain_matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
    "einsum linear matmul mm multi_dot prelu scaled_dot_product_attention vecdot"
)
LOWER = {"cuda": _MATRIX_PRODUCTS | {"addmv", "addr", "mv"}, "cpu": _MATRIX_PRODUCTS}
"""Device type -> operations whose result has the region's dtype."""

NOT_CAST_IN_PLACE = words("addbmm_ addmm_ addmv_ addr_ baddbmm_")
NOT_CAST_WITH_OUT = words("addbmm addmm addmv addr baddbmm bmm chain_matmul matmul mm multi_dot mv")
"""Forms of `LOWER`'s operations that autocast leaves alone: in-place methods, and functions that are given `out`."""

FLOAT32 = {
    "cuda": _LOSSES | words(
        "acos asin cdist cosh cosine_similarity cumprod cumsum dist erfinv exp expm1 group_norm gumbel_softmax "
        "interpolate layer_norm local_response_norm log log10 log1p log2 log_softmax logsumexp matrix_norm "
        "multilabel_soft_margin_loss norm normalize pairwise_distance pdist pow prod reciprocal renorm rms_norm "
        "rsqrt sinh softmax softmin softplus square sum tan vector_norm"
    ),
    "cpu": _LOSSES | words(
        "adaptive_avg_pool3d avg_pool3d binary_cross_entropy cdist grid_sample local_response_norm prod quantile "
        "trace"
    ),
}  # fmt: skip
"""Device type -> operations whose result is float32 (float64 for float64)."""

PROMOTE = {
    "cuda": words("addcdiv addcmul atan2 bilinear cross dot grid_sample index_put scatter_add tensordot vdot"),
    "cpu": words("cat index_copy stack"),
}
"""Device type -> operations whose operands autocast brings to the widest dtype among them."""

BANNED = {"binary_cross_entropy": frozenset({"cuda", "xpu"})}
"""Operation -> device types whose autocast refuses to run it."""

KEEPS = words(
    "abs absolute add add_ addcmul amax amin broadcast_to cat ceil chunk clamp clamp_ clamp_max clamp_min clamp_min_ "
    "clip clip_ clone contiguous cpu cuda cummax cummin detach diag diagonal diff expand expand_as fill_ flatten "
    "flip floor gather index_fill index_fill_ index_select kthvalue masked_fill masked_fill_ masked_select max "
    "max_pool1d max_pool2d maximum median min minimum moveaxis movedim mul mul_ nan_to_num nan_to_num_ narrow neg "
    "outer pad permute pixel_shuffle relu relu6 relu_ repeat repeat_interleave reshape reshape_as roll round scatter "
    "scatter_ select sign sort split squeeze stack sub sub_ swapaxes t take_along_dim topk transpose tril tril_ triu "
    "triu_ trunc unbind unflatten unfold unsqueeze view view_as where"
)
"""Operations whose result has the dtype of their input, integers included."""
FOLLOWS_INPUT = KEEPS | words(
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d addcdiv atan avg_pool1d "
    "avg_pool2d batch_norm celu cos div div_ dropout dropout1d dropout2d elu erf exp_ frac gelu glu hardsigmoid "
    "hardswish hardtanh instance_norm leaky_relu lerp lgamma log_ logit logsigmoid mean mish nanmean selu sigmoid "
    "sigmoid_ silu sin softsign sqrt sqrt_ std tanh tanh_ tanhshrink var"
)
"""Operations whose result has the dtype of their floating input, on every device."""

BOOLEAN = words(
    "all any bool eq ge gt isclose isfinite isin isinf isnan le logical_and logical_not logical_or logical_xor lt ne"
)
INTEGRAL = words("bool uint8 int8 int16 int32 int64")
INTEGER = words("argmax argmin argsort bincount count_nonzero long multinomial nonzero one_hot searchsorted")

MODULE_OPS = {
    "Linear": "linear", "Conv1d": "conv1d", "Conv2d": "conv2d", "Conv3d": "conv3d", "PReLU": "prelu",
    "ConvTranspose1d": "conv_transpose1d", "ConvTranspose2d": "conv_transpose2d",
    "ConvTranspose3d": "conv_transpose3d", "BatchNorm1d": "batch_norm", "BatchNorm2d": "batch_norm",
    "BatchNorm3d": "batch_norm", "InstanceNorm1d": "instance_norm", "InstanceNorm2d": "instance_norm",
    "InstanceNorm3d": "instance_norm", "LayerNorm": "layer_norm", "GroupNorm": "group_norm", "RMSNorm": "rms_norm",
    "LocalResponseNorm": "local_response_norm", "Softmax": "softmax", "LogSoftmax": "log_softmax",
    "Softmin": "softmin", "Softplus": "softplus", "Sigmoid": "sigmoid", "LogSigmoid": "logsigmoid", "Tanh": "tanh",
    "ReLU": "relu", "ReLU6": "relu6", "GELU": "gelu", "SiLU": "silu", "Mish": "mish", "ELU": "elu", "CELU": "celu",
    "SELU": "selu", "LeakyReLU": "leaky_relu", "GLU": "glu", "Hardtanh": "hardtanh", "Hardswish": "hardswish",
    "Hardsigmoid": "hardsigmoid", "Dropout": "dropout", "Dropout1d": "dropout", "Dropout2d": "dropout",
    "Identity": "view", "Flatten": "flatten", "Unflatten": "unflatten", "MaxPool1d": "max_pool1d",
    "MaxPool2d": "max_pool2d", "AvgPool1d": "avg_pool1d", "AvgPool2d": "avg_pool2d",
    "AdaptiveAvgPool1d": "adaptive_avg_pool1d", "AdaptiveAvgPool2d": "adaptive_avg_pool2d", "Upsample": "interpolate",
    "AdaptiveMaxPool2d": "adaptive_max_pool2d", "PixelShuffle": "pixel_shuffle",
    "CosineSimilarity": "cosine_similarity", "PairwiseDistance": "pairwise_distance",
    "BCELoss": "binary_cross_entropy", "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "CosineEmbeddingLoss": "cosine_embedding_loss", "CrossEntropyLoss": "cross_entropy", "CTCLoss": "ctc_loss",
    "HingeEmbeddingLoss": "hinge_embedding_loss", "HuberLoss": "huber_loss", "KLDivLoss": "kl_div",
    "L1Loss": "l1_loss", "MarginRankingLoss": "margin_ranking_loss", "MSELoss": "mse_loss",
    "MultiMarginLoss": "multi_margin_loss", "MultiLabelMarginLoss": "multilabel_margin_loss", "NLLLoss": "nll_loss",
    "PoissonNLLLoss": "poisson_nll_loss", "SmoothL1Loss": "smooth_l1_loss", "SoftMarginLoss": "soft_margin_loss",
    "TripletMarginLoss": "triplet_margin_loss",
}  # fmt: skip
"""Class of `torch.nn` -> the operation its call runs."""


@dataclass(frozen=True, slots=True)
class Regime:
    """The autocast that is on: what its device type and dtype can be, None for anything."""

    devices: Set[str] | None
    dtypes: Set[str] | None
