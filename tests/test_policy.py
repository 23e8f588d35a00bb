"""The table of what autocast does agrees with the running PyTorch: its CPU kernels, and its dispatcher for CUDA."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

from amplint.torchlib.operations import known, outcome
from amplint.torchlib.policy import BANNED, FOLLOWS_INPUT, MODULE_OPS, Regime, treatment
from amplint.torchlib.promotion import Typed

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

DTYPES = {"float16": torch.float16, "float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}
LOSSES = {
    "cross_entropy": lambda x: F.cross_entropy(x, x.argmax(1)),
    "nll_loss": lambda x: F.nll_loss(x, x.argmax(1)),
    "multi_margin_loss": lambda x: F.multi_margin_loss(x, x.argmax(1)),
    "multilabel_margin_loss": lambda x: F.multilabel_margin_loss(x, x.argsort(1)),
    "margin_ranking_loss": lambda x: F.margin_ranking_loss(row(x), row(x), row(x)),
    "cosine_embedding_loss": lambda x: F.cosine_embedding_loss(x, x, row(x)),
    "triplet_margin_loss": lambda x: F.triplet_margin_loss(x, x, x),
    "ctc_loss": lambda x: F.ctc_loss(x.unsqueeze(1), torch.ones(1, 2).long(), torch.tensor([4]), torch.tensor([2])),
}  # fmt: skip
CALLS: dict[str, Callable[[Tensor], Any]] = {
    **LOSSES,
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x.unsqueeze(0), 1),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(image(x), 1),
    "adaptive_avg_pool3d": lambda x: F.adaptive_avg_pool3d(volume(x), 1),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x.unsqueeze(0), 1),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(image(x), 1),
    "addbmm": lambda x: torch.addbmm(x, x.unsqueeze(0), x.unsqueeze(0)),
    "addcdiv": lambda x: torch.addcdiv(x, x, x),
    "addcdiv_": lambda x: x.addcdiv_(x, x),
    "addcmul": lambda x: torch.addcmul(x, x, x),
    "addcmul_": lambda x: x.addcmul_(x, x),
    "addmm": lambda x: torch.addmm(x, x, x),
    "addmv": lambda x: torch.addmv(row(x), x, row(x)),
    "addr": lambda x: torch.addr(x, row(x), row(x)),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2)),
    "as_strided_": lambda x: x.as_strided_((2, 2), (1, 2)),
    "avg_pool1d": lambda x: F.avg_pool1d(x.unsqueeze(0), 2),
    "avg_pool2d": lambda x: F.avg_pool2d(image(x), 2),
    "avg_pool3d": lambda x: F.avg_pool3d(volume(x), 2),
    "baddbmm": lambda x: torch.baddbmm(x.unsqueeze(0), x.unsqueeze(0), x.unsqueeze(0)),
    "batch_norm": lambda x: F.batch_norm(x, *[lifted(row(x))] * 4),
    "bmm": lambda x: torch.bmm(x.unsqueeze(0), x.unsqueeze(0)),
    "broadcast_to": lambda x: x.broadcast_to(2, 4, 4),
    "cat": lambda x: torch.cat([x, x]),
    "chain_matmul": lambda x: torch.chain_matmul(x, x, x),
    "chunk": lambda x: x.chunk(2),
    "clamp": lambda x: x.clamp(0, 1),
    "clamp_": lambda x: x.clamp_(0, 1),
    "clamp_max": lambda x: x.clamp_max(1),
    "clamp_max_": lambda x: x.clamp_max_(1),
    "clamp_min": lambda x: x.clamp_min(0),
    "clamp_min_": lambda x: x.clamp_min_(0),
    "clip": lambda x: x.clip(0, 1),
    "clip_": lambda x: x.clip_(0, 1),
    "conv1d": lambda x: F.conv1d(x.unsqueeze(0), x.unsqueeze(2)),
    "conv2d": lambda x: F.conv2d(image(x), image(x)),
    "conv3d": lambda x: F.conv3d(volume(x), volume(x)),
    "conv_transpose1d": lambda x: F.conv_transpose1d(x.unsqueeze(0), x.unsqueeze(2)),
    "conv_transpose2d": lambda x: F.conv_transpose2d(image(x), image(x)),
    "conv_transpose3d": lambda x: F.conv_transpose3d(volume(x), volume(x)),
    "cuda": lambda x: x.cuda(),
    "diagonal": lambda x: x.diagonal(),
    "dropout": lambda x: F.dropout(x),
    "einsum_elementwise": lambda x: torch.einsum("ij,ij->ij", x, x),
    "einsum": lambda x: torch.einsum("ij,jk->ik", x, x),
    "expand": lambda x: x.expand(2, 4, 4),
    "expand_as": lambda x: x.expand_as(x),
    "fill_": lambda x: x.fill_(1),
    "flip": lambda x: x.flip(0),
    "gather": lambda x: x.gather(0, x.argsort(0)),
    "glu": lambda x: F.glu(x),
    "grid_sample": lambda x: F.grid_sample(image(x), x.reshape(1, 2, 4, 2)),
    "group_norm": lambda x: F.group_norm(x, 2),
    "index_fill": lambda x: x.index_fill(0, row(x).argsort(), 1.0),
    "index_fill_": lambda x: x.index_fill_(0, row(x).argsort(), 1.0),
    "index_select": lambda x: x.index_select(0, row(x).argsort()),
    "instance_norm": lambda x: F.instance_norm(image(x)),
    "interpolate": lambda x: F.interpolate(image(x), scale_factor=2.0),
    "kthvalue": lambda x: x.kthvalue(1),
    "kl_div": lambda x: F.kl_div(x, x, reduction="batchmean"),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "lerp": lambda x: torch.lerp(x, x, 0.5),
    "lerp_": lambda x: x.lerp_(x, 0.5),
    "linear": lambda x: F.linear(x, x),
    "local_response_norm": lambda x: F.local_response_norm(image(x), 2),
    "masked_fill": lambda x: x.masked_fill(x > 0, 1.0),
    "masked_fill_": lambda x: x.masked_fill_(x > 0, 1.0),
    "masked_select": lambda x: x.masked_select(x > 0),
    "matrix_norm": torch.linalg.matrix_norm,
    "matmul": lambda x: x @ x,
    "max_pool1d": lambda x: F.max_pool1d(x.unsqueeze(0), 2),
    "max_pool2d": lambda x: F.max_pool2d(image(x), 2),
    "meshgrid": lambda x: torch.meshgrid(x.flatten(), indexing="ij"),
    "mm": lambda x: torch.mm(x, x),
    "moveaxis": lambda x: x.moveaxis(0, 1),
    "movedim": lambda x: x.movedim(0, 1),
    "multi_dot": lambda x: torch.linalg.multi_dot([x, x, x]),
    "mv": lambda x: torch.mv(x, row(x)),
    "narrow": lambda x: x.narrow(0, 0, 1),
    "normalize": lambda x: F.normalize(x),
    "outer": lambda x: row(x).outer(row(x)),
    "pad": lambda x: F.pad(x, (1, 1)),
    "pairwise_distance": lambda x: F.pairwise_distance(x, x),
    "pdist": F.pdist,
    "permute": lambda x: x.permute(1, 0),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.reshape(1, 4, 2, 2), 2),
    "pow": lambda x: x**2,
    "prelu": lambda x: F.prelu(x, row(x)),
    "quantile": lambda x: x.quantile(0.5),
    "renorm": lambda x: x.renorm(2, 0, 1.0),
    "repeat": lambda x: x.repeat(1, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(2),
    "reshape": lambda x: x.reshape(16),
    "reshape_as": lambda x: x.reshape_as(x),
    "rms_norm": lambda x: F.rms_norm(x, (4,)),
    "roll": lambda x: x.roll(1),
    "scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(image(x), image(x), image(x)),
    "scatter": lambda x: x.scatter(0, x.argsort(0), 1.0),
    "scatter_": lambda x: x.scatter_(0, x.argsort(0), 1.0),
    "select": lambda x: x.select(0, 0),
    "split": lambda x: x.split(2),
    "stack": lambda x: torch.stack([x, x]),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "swapaxes_": lambda x: x.swapaxes_(0, 1),
    "swapdims": lambda x: x.swapdims(0, 1),
    "swapdims_": lambda x: x.swapdims_(0, 1),
    "take": lambda x: x.take(x.argsort(0)),
    "tensor_split": lambda x: x.tensor_split(2),
    "tile": lambda x: x.tile(2),
    "take_along_dim": lambda x: x.take_along_dim(x.argsort(0), 0),
    "topk": lambda x: x.topk(2),
    "transpose": lambda x: x.transpose(0, 1),
    "transpose_": lambda x: x.transpose_(0, 1),
    "unflatten": lambda x: x.unflatten(0, (2, 2)),
    "unfold": lambda x: x.unfold(0, 2, 1),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "vecdot": lambda x: torch.linalg.vecdot(x, x),
    "vector_norm": torch.linalg.vector_norm,
    "view": lambda x: x.view(16),
    "view_as": lambda x: x.view_as(x),
    "where": lambda x: torch.where(x > 0, x, x),
}  # fmt: skip
"""How to call the operations that need more than one tensor, or one of another shape."""
PAIRS = (
    "add",
    "add_",
    "cdist",
    "cosine_similarity",
    "dist",
    "div",
    "div_",
    "maximum",
    "minimum",
    "mul",
    "mul_",
    "multiply",
    "multiply_",
    "sub",
    "sub_",
    "subtract",
    "subtract_",
)
ALONG = (
    "cummax",
    "cummin",
    "cumprod",
    "cumprod_",
    "cumsum",
    "cumsum_",
    "log_softmax",
    "logsumexp",
    "softmax",
    "softmin",
)


def result_dtype(op: str, given: str | None, regime: Regime | None) -> str | None:
    """The dtype of `op`'s result for one operand of dtype `given`, None when unknown."""
    rank = 4 if op == "local_response_norm" else None
    return known(outcome(op, [Typed(frozenset({given}) if given is not None else None, rank)], regime).dtypes)


def row(x: Tensor) -> Tensor:
    return x.select(0, 0)


def image(x: Tensor) -> Tensor:
    return x.unsqueeze(0).unsqueeze(0)


def volume(x: Tensor) -> Tensor:
    return image(x).unsqueeze(0).expand(1, 1, 4, 4, 4)


def lifted(x: Tensor) -> Tensor:
    return x.float() if x.dtype == torch.float16 else x


def called(op: str, x: Tensor) -> Any:
    """What `op` makes of the 4x4 matrix `x`; the first tensor where it makes several."""
    if op in CALLS:
        result = CALLS[op](x)
    else:
        function = next(getattr(home, op) for home in (Tensor, torch, F) if hasattr(home, op))
        if op.endswith("_loss") or op.startswith("binary_cross"):
            result = getattr(F, op)(x, x)
        else:
            result = function(x, x) if op in PAIRS else function(x, 0) if op in ALONG or op == "unbind" else function(x)
    while isinstance(result, tuple | list):
        result = result[0]
    return result


def run(op: str, x: Tensor) -> str:
    """The dtype of what `op` makes of the 4x4 matrix `x`."""
    return str(called(op, x).dtype).removeprefix("torch.")


@contextlib.contextmanager
def cuda() -> Iterator[None]:
    """Fake CUDA tensors under the real dispatcher's CUDA autocast; it needs no GPU and computes nothing."""
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", torch.float16)
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            yield
    finally:
        torch.set_autocast_enabled("cuda", False)


TABLE = treatment("2.13")
OPS = sorted(FOLLOWS_INPUT.union(*TABLE.lower.values(), *TABLE.float32.values()) - {"cuda"})
NOT_FAKED = {"binary_cross_entropy", "conv1d", "ctc_loss", "grid_sample", "masked_select"}
"""Operations that fake tensors refuse, that need the values, or that are banned."""
NO_KERNEL = {("pdist", "float16"), ("quantile", "float16")}


@pytest.mark.parametrize("op", OPS)
def test_cpu(op: str) -> None:
    for given in {"float16", "float32", "float64"}:
        x = torch.rand(4, 4, dtype=torch.float64).mul(0.5).add(0.25).to(DTYPES[given])
        if (op, given) not in NO_KERNEL:
            with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
                measured = run(op, x)
            assert result_dtype(op, given, Regime({"cpu"}, {"float16"})) == measured


@pytest.mark.parametrize("op", [op for op in OPS if op not in NOT_FAKED])
def test_cuda(op: str) -> None:
    for given in {"float16", "float32"}:
        if (op, given) not in NO_KERNEL:
            with cuda():
                measured = run(op, torch.empty(4, 4, device="cuda", dtype=DTYPES[given]))
            assert result_dtype(op, given, Regime({"cuda"}, {"float16"})) == measured


def test_banned() -> None:
    with cuda():
        x = torch.empty(4, 4, device="cuda")
        for op in BANNED:
            with pytest.raises(RuntimeError, match="unsafe to autocast"):
                getattr(F, op)(x, x)
    assert set(BANNED) == {"binary_cross_entropy"}


@pytest.mark.parametrize("name", MODULE_OPS)
def test_modules(name: str) -> None:
    assert issubclass(getattr(nn, name), nn.Module)
    assert MODULE_OPS[name] in OPS


def test_comparisons_and_counts() -> None:
    x = torch.rand(4, 4)
    for op in ("eq", "ge", "gt", "le", "lt", "ne"):
        assert str(getattr(x, op)(x).dtype) == f"torch.{result_dtype(op, 'float32', None)}"
    for op in ("argmax", "argmin", "argsort", "count_nonzero", "nonzero"):
        assert str(getattr(x, op)().dtype) == f"torch.{result_dtype(op, 'float32', None)}"


@pytest.mark.parametrize("op", ["abs", "cumsum", "exp", "prod", "relu", "sigmoid", "sqrt", "sum", "tril"])
def test_integers(op: str) -> None:
    x = torch.ones(4, 4, dtype=torch.int64)
    assert run(op, x) == result_dtype(op, "int64", None)


@pytest.mark.parametrize(
    ("op", "given", "regime", "expected"),
    [
        ("softmax", "float16", None, "float16"),
        ("matmul", "float32", None, "float32"),
        ("softmax", "float16", Regime({"cuda"}, {"float16"}), "float32"),
        ("softmax", "float16", Regime({"xpu"}, {"float16"}), "float32"),
        ("softmax", "float16", Regime({"cuda", "cpu"}, {"float16"}), None),
        ("softmax", "float16", Regime(None, {"float16"}), None),
        ("softmax", "float16", Regime({"mps"}, {"float16"}), "float32"),
        ("softmax", "float16", Regime({"hpu"}, {"float16"}), None),
        ("matmul", "float32", Regime(None, {"float16"}), "float16"),
        ("matmul", "float32", Regime({"cuda"}, {"float16", "bfloat16"}), None),
        ("matmul", "float32", Regime({"cuda"}, None), None),
        ("matmul", "float64", Regime({"cuda"}, {"float16"}), "float64"),
        ("relu", None, Regime({"cuda"}, {"float16"}), None),
        ("no_such_operation", "float16", None, None),
    ],
)
def test_what_is_not_certain_is_unknown(
    op: str, given: str | None, regime: Regime | None, expected: str | None
) -> None:
    assert result_dtype(op, given, regime) == expected
