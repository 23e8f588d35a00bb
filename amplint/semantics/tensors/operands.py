"""Which operation a call runs, and which of its arguments take part in it, by position and by name."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.values.arguments import Argument, Arguments
from amplint.semantics.values.values import Const
from amplint.torchlib.equations import contracts
from amplint.torchlib.policy import words

_OTHER = (("other", 0),)
_SHAPED = (("weight", 1), ("bias", 2))
_LAYER = (("weight", 0), ("bias", 1))
_TARGET = (("target", 0),)
_MATRICES = (("mat1", 0), ("mat2", 1))
_BATCHES = (("batch1", 0), ("batch2", 1))
_VALUES = (("tensor1", 0), ("tensor2", 1))
BESIDES: dict[str, tuple[tuple[str, int], ...]] = {
    **dict.fromkeys(
        words(
            "add sub rsub mul div true_divide divide floor_divide remainder fmod maximum minimum fmax fmin atan2 "
            "arctan2 hypot logaddexp xlogy bitwise_and bitwise_or bitwise_xor dist"
        ),
        _OTHER,
    ),
    **dict.fromkeys(words("linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d"), _LAYER),
    **dict.fromkeys(
        words(
            "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div "
            "poisson_nll_loss soft_margin_loss hinge_embedding_loss multilabel_soft_margin_loss"
        ),
        _TARGET,
    ),
    **dict.fromkeys(("layer_norm", "group_norm"), _SHAPED),
    **dict.fromkeys(("index_add", "index_copy"), (("source", 2), ("tensor", 2))),
    **dict.fromkeys(("scatter", "scatter_add", "scatter_reduce"), (("src", 2),)),
    **dict.fromkeys(("addbmm", "baddbmm"), _BATCHES),
    **dict.fromkeys(("addcmul", "addcdiv"), _VALUES),
    "addmm": _MATRICES,
    "addmv": (("mat", 0), ("vec", 1)),
    "addr": (("vec1", 0), ("vec2", 1)),
    "batch_norm": (("running_mean", 0), ("running_var", 1), ("weight", 2), ("bias", 3)),
    "bilinear": (("input2", 0), ("weight", 1), ("bias", 2)),
    "bmm": (("mat2", 0),),
    "cdist": (("x2", 0),),
    "cosine_embedding_loss": (("input2", 0), ("target", 1)),
    "cosine_similarity": (("x2", 0),),
    "cross": _OTHER,
    "cross_entropy": (("target", 0), ("weight", 1)),
    "dot": (("tensor", 0), ("other", 0)),
    "grid_sample": (("grid", 0),),
    "index_put": (("values", 1),),
    "lerp": (("end", 0), ("weight", 1)),
    "margin_ranking_loss": (("input2", 0), ("target", 1)),
    "masked_scatter": (("source", 1),),
    "matmul": _OTHER,
    "mm": (("mat2", 0),),
    "mv": (("vec", 0),),
    "nll_loss": (("weight", 1),),
    "outer": (("vec2", 0),),
    "pairwise_distance": (("x2", 0),),
    "pow": (("exponent", 0),),
    "prelu": (("weight", 0),),
    "rms_norm": (("weight", 1),),
    "scaled_dot_product_attention": (("key", 0), ("value", 1), ("attn_mask", 2)),
    "tensordot": _OTHER,
    "triplet_margin_loss": (("positive", 0), ("negative", 1)),
    "vdot": _OTHER,
    "vecdot": (("y", 0), ("other", 0)),
    "where": (("other", 1),),
}
"""Operation -> the parameters beside the first one whose dtypes count, each with its position after that."""


LIMITS = {"clamp": (("min", 0), ("max", 1)), "clip": (("min", 0), ("max", 1)), "clamp_min": (("min", 0),),
          "clamp_max": (("max", 0),)}  # fmt: skip


def runs(op: str, arguments: Arguments) -> str:
    """The operation that decides about the dtype of what `op` returns."""
    if op in LIMITS:
        return "clamp"
    if op in ("div", "divide", "true_divide") and arguments.value("rounding_mode") not in (None, Const(None)):
        return "floor_divide"
    if op == "einsum":
        equation = arguments.value("equation", 0)
        found = contracts(equation.value) if isinstance(equation, Const) and isinstance(equation.value, str) else None
        return "einsum" if found else "einsum_elementwise" if found is False else ""
    return op


def besides(op: str, arguments: Arguments, shift: int) -> Iterator[Argument]:
    """The arguments whose dtypes count beside the first operand, of which `shift` tells whether it is an argument."""
    if op == "einsum":
        yield from arguments.given[2:]
    if op == "chain_matmul":
        yield from arguments.given[shift:]
    seen = set[int]()
    for keyword, position in LIMITS.get(op) or BESIDES.get(op, ()):
        argument = arguments.get(keyword, position + shift)
        if argument is not None and argument.value != Const(None) and id(argument) not in seen:
            seen.add(id(argument))
            yield argument
