"""What autocast does to the result type of an operation, for the operations the interpreter knows by name.

Source: the operator lists of torch 2.13's dispatcher; tests/test_policy.py compares the CPU's with the running PyTorch.
"""

from __future__ import annotations

LOWER = frozenset(
    "addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d "
    "conv_transpose3d einsum linear matmul mm mv prelu scaled_dot_product_attention".split()
)
FLOAT32_CUDA = frozenset(
    "acos asin binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss cosine_similarity cumprod cumsum dist "
    "erfinv exp expm1 group_norm hinge_embedding_loss huber_loss kl_div l1_loss layer_norm log log10 log1p log2 "
    "log_softmax logsumexp margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss norm "
    "interpolate pdist poisson_nll_loss pow prod reciprocal renorm rms_norm rsqrt sinh smooth_l1_loss "
    "soft_margin_loss softmax softplus sum tan triplet_margin_loss".split()
)
FOLLOWS_INPUT = frozenset(
    "abs relu sigmoid tanh gelu silu leaky_relu mean var std sqrt square clamp clamp_min clamp_max max min amax amin "
    "view reshape permute transpose flatten squeeze unsqueeze contiguous clone detach expand repeat neg unbind chunk "
    "split masked_fill masked_fill_ where cat stack dropout batch_norm normalize softmin roll flip mul_ add_ sub_ div_ "
    "mul add sub div exp_ log_ sqrt_ clamp_ fill_ t gather index_select narrow select tril triu".split()
)
MODULE_OPS = {
    "Linear": "linear", "Conv1d": "conv1d", "Conv2d": "conv2d", "Conv3d": "conv3d", "Bilinear": "bilinear",
    "ConvTranspose1d": "conv_transpose1d", "ConvTranspose2d": "conv_transpose2d", "ConvTranspose3d": "conv_transpose3d",
    "LayerNorm": "layer_norm", "GroupNorm": "group_norm", "Softmax": "softmax", "LogSoftmax": "log_softmax",
    "Sigmoid": "sigmoid", "ReLU": "relu", "GELU": "gelu", "Tanh": "tanh", "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits", "MSELoss": "mse_loss", "L1Loss": "l1_loss",
    "NLLLoss": "nll_loss", "SmoothL1Loss": "smooth_l1_loss", "KLDivLoss": "kl_div", "Dropout": "dropout",
}  # fmt: skip
"""Class of `torch.nn` -> the operation its call runs."""


def result_dtype(op: str, given: str | None, region: tuple[str, str] | None) -> str | None:
    """The dtype of `op`'s result, None when unknown.

    `given` is the tensor operand's dtype, `region` the (device type, dtype) of the autocast region that is on, if any.
    """
    if region is None:
        return given if op in FOLLOWS_INPUT or op in LOWER or op in FLOAT32_CUDA else None
    device, dtype = region
    if op in LOWER and given != "float64":
        return dtype
    if device == "cuda" and op in FLOAT32_CUDA and given != "float64":
        return "float32"
    return given if op in FOLLOWS_INPUT else None
