"""What autocast does to the result dtype of the operations that the interpreter knows by name.

Source: the tables in torchlib/autocast, by name. tests/test_policy.py runs every operation of these under autocast.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Set

from amplint.records import dataclass
from amplint.torchlib.tables import policy


def words(text: str) -> frozenset[str]:
    """The words of `text`."""
    return frozenset(text.split())


LOSSES = words(
    "binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss hinge_embedding_loss huber_loss "
    "kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss poisson_nll_loss "
    "smooth_l1_loss soft_margin_loss triplet_margin_loss"
)
"""Loss functions, computed in float32 by the autocast of every device."""
_CAST = words(
    "acos adaptive_avg_pool3d addbmm addcdiv addcmul addmm addmv addr asin atan2 avg_pool3d baddbmm bilinear "
    "binary_cross_entropy binary_cross_entropy_with_logits bmm cat cdist chain_matmul conv1d conv2d conv3d "
    "conv_transpose1d conv_transpose2d conv_transpose3d cosh cosine_embedding_loss cosine_similarity cross "
    "cross_entropy ctc_loss cumprod cumsum dist dot einsum einsum_elementwise erfinv exp expm1 grid_sample group_norm "
    "gumbel_softmax hinge_embedding_loss huber_loss index_copy index_put interpolate kl_div l1_loss layer_norm linear "
    "local_response_norm log log10 log1p log2 log_softmax logsumexp margin_ranking_loss matmul matrix_norm mm "
    "mse_loss multi_dot multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss mv nll_loss norm "
    "normalize pairwise_distance pdist poisson_nll_loss pow prelu prod quantile reciprocal renorm rms_norm rsqrt "
    "scaled_dot_product_attention scatter_add sinh smooth_l1_loss soft_margin_loss softmax softmin softplus square "
    "stack sum tan tensordot trace triplet_margin_loss vdot vecdot vector_norm"
)
"""The operations that the autocast of some device casts."""
_MADE_OF = {
    "chain_matmul": "chain_matmul mm",
    "cross_entropy": "nll_loss cross_entropy_loss",
    "einsum": "einsum bmm",
    "einsum_elementwise": "einsum",
    "grid_sample": "grid_sampler",
    "gumbel_softmax": "softmax",
    "interpolate": "upsample_nearest2d",
    "local_response_norm": "pow avg_pool3d",
    "matrix_norm": "linalg_matrix_norm",
    "multi_dot": "linalg_multi_dot mm",
    "multilabel_soft_margin_loss": "sum",
    "normalize": "linalg_vector_norm",
    "pairwise_distance": "norm",
    "softmin": "softmax",
    "square": "pow",
    "vecdot": "linalg_vecdot",
    "vector_norm": "linalg_vector_norm",
}
"""Operation -> the dispatcher's operators that decide about its result, where these have other names."""


@dataclass(frozen=True)
class Treatment:
    """Device type -> operations, by what a version of PyTorch does with them under autocast.

    The result of `lower` has the region's dtype, that of `float32` is float32 (float64 for float64); operands are
    brought to the widest dtype among them for `promote`, and `banned` raises.
    """

    lower: Mapping[str, frozenset[str]]
    float32: Mapping[str, frozenset[str]]
    promote: Mapping[str, frozenset[str]]
    banned: Mapping[str, frozenset[str]]


@functools.cache
def treatment(version: str | None = None) -> Treatment:
    """The treatment by a version of PyTorch, the newest known when None. Raises UnknownVersion."""
    table = policy(version)
    float32 = {
        device: table.float32[device] | table.float32_set_dtype[device] | table.float32_append_dtype[device]
        for device in table.float32
    }
    named = (_by_name(operators) for operators in (table.lower, float32, table.promote, table.banned))
    return Treatment(*named)


def _by_name(operators: Mapping[str, Set[str]]) -> dict[str, frozenset[str]]:
    return {
        device: frozenset(op for op in _CAST if not listed.isdisjoint(_MADE_OF.get(op, op).split()))
        for device, listed in operators.items()
    }


LOWER = treatment().lower["cuda"]
FLOAT32 = treatment().float32["cuda"]
BANNED = treatment().banned["cuda"]
"""What the newest version does on CUDA."""

NOT_CAST_IN_PLACE = words("addbmm_ addmm_ addmv_ addr_ baddbmm_")
NOT_CAST_WITH_OUT = words("addbmm addmm addmv addr baddbmm bmm chain_matmul matmul mm multi_dot mv")
"""Forms of `LOWER`'s operations that autocast leaves alone: in-place methods, and functions that are given `out`."""

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
    "avg_pool2d batch_norm bernoulli celu cos div div_ dropout dropout1d dropout2d elu erf exp2 exp_ frac gelu glu "
    "hardsigmoid std_mean var_mean "
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
    """The autocast that is on: what its device type and dtype can be, None for anything, and PyTorch's version."""

    devices: Set[str] | None
    dtypes: Set[str] | None
    version: str | None = None
