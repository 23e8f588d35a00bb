"""What is known of operations of several operands agrees with the running PyTorch, for every combination of dtypes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from amplint.torchlib.operations import outcome
from amplint.torchlib.policy import Regime
from amplint.torchlib.promotion import Typed
from tests.dtypes.emulation import cuda_policy
from tests.dtypes.oracle import NO_KERNEL

DTYPES = {name: getattr(torch, name) for name in ("float16", "bfloat16", "float32", "float64")}
INDEX, MATRIX = torch.arange(4), torch.randint(0, 4, (4, 4))
Call = tuple[str, Callable[..., Tensor]]
CALLS: dict[str, Call] = {
    "add": ("22", torch.add),
    "addbmm": ("233", torch.addbmm),
    "addcdiv": ("222", torch.addcdiv),
    "addcmul": ("222", torch.addcmul),
    "addmm": ("222", torch.addmm),
    "addmv": ("121", torch.addmv),
    "addr": ("211", torch.addr),
    "atan2": ("22", torch.atan2),
    "baddbmm": ("333", torch.baddbmm),
    "batch_norm": ("211", F.batch_norm),
    "bilinear": ("223", F.bilinear),
    "binary_cross_entropy": ("22", F.binary_cross_entropy),
    "binary_cross_entropy_with_logits": ("22", F.binary_cross_entropy_with_logits),
    "bmm": ("33", torch.bmm),
    "cat": ("22", lambda *x: torch.cat(x)),
    "cdist": ("22", torch.cdist),
    "chain_matmul": ("222", torch.chain_matmul),
    "concat": ("22", lambda *x: torch.concat(x)),
    "conv1d": ("33", lambda x, w: F.conv1d(x, w[..., :1])),
    "conv2d": ("441", F.conv2d),
    "conv_transpose2d": ("44", F.conv_transpose2d),
    "cosine_embedding_loss": ("221", F.cosine_embedding_loss),
    "cosine_similarity": ("22", F.cosine_similarity),
    "cross_entropy": ("22", F.cross_entropy),
    "dist": ("22", torch.dist),
    "div": ("22", torch.div),
    "dot": ("11", torch.dot),
    "einsum_elementwise": ("22", lambda x, y: torch.einsum("ij,ij->ij", x, y)),
    "einsum": ("22", lambda x, y: torch.einsum("ij,jk->ik", x, y)),
    "fmod": ("22", torch.fmod),
    "grid_sample": ("44", lambda x, grid: F.grid_sample(x, grid[..., :2])),
    "group_norm": ("311", lambda x, w, b: F.group_norm(x, 2, w, b)),
    "hinge_embedding_loss": ("22", F.hinge_embedding_loss),
    "hstack": ("22", lambda *x: torch.hstack(x)),
    "huber_loss": ("22", F.huber_loss),
    "index_add": ("22", lambda x, y: x.index_add(0, INDEX, y)),
    "heaviside": ("22", torch.heaviside),
    "index_copy": ("22", lambda x, y: x.index_copy(0, INDEX, y)),
    "index_put": ("22", lambda x, y: x.index_put((INDEX,), y)),
    "index_reduce": ("22", lambda x, y: x.index_reduce(0, INDEX, y, "mean")),
    "inner": ("22", torch.inner),
    "kl_div": ("22", F.kl_div),
    "l1_loss": ("22", F.l1_loss),
    "layer_norm": ("211", lambda x, w, b: F.layer_norm(x, (4,), w, b)),
    "lerp": ("22", lambda x, y: torch.lerp(x, y, 0.5)),
    "linear": ("221", F.linear),
    "margin_ranking_loss": ("111", F.margin_ranking_loss),
    "masked_scatter": ("22", lambda x, y: x.masked_scatter(MATRIX > 1, y)),
    "matmul": ("22", torch.matmul),
    "maximum": ("22", torch.maximum),
    "mm": ("22", torch.mm),
    "mse_loss": ("22", F.mse_loss),
    "multi_dot": ("222", lambda *x: torch.linalg.multi_dot(x)),
    "multi_margin_loss": ("2", lambda x: F.multi_margin_loss(x, INDEX)),
    "multilabel_soft_margin_loss": ("22", F.multilabel_soft_margin_loss),
    "mv": ("21", torch.mv),
    "outer": ("11", torch.outer),
    "pairwise_distance": ("22", F.pairwise_distance),
    "poisson_nll_loss": ("22", F.poisson_nll_loss),
    "pow": ("22", torch.pow),
    "prelu": ("21", F.prelu),
    "remainder": ("22", torch.remainder),
    "rms_norm": ("21", lambda x, w: F.rms_norm(x, (4,), w)),
    "scaled_dot_product_attention": ("444", F.scaled_dot_product_attention),
    "scatter": ("22", lambda x, y: x.scatter(1, MATRIX, y)),
    "scatter_add": ("22", lambda x, y: x.scatter_add(1, MATRIX, y)),
    "scatter_reduce": ("22", lambda x, y: x.scatter_reduce(1, MATRIX, y, "sum")),
    "smooth_l1_loss": ("22", F.smooth_l1_loss),
    "soft_margin_loss": ("22", F.soft_margin_loss),
    "stack": ("22", lambda *x: torch.stack(x)),
    "tensordot": ("22", lambda x, y: torch.tensordot(x, y, dims=1)),
    "triplet_margin_loss": ("222", F.triplet_margin_loss),
    "vdot": ("11", torch.vdot),
    "vecdot": ("22", torch.linalg.vecdot),
    "vstack": ("22", lambda *x: torch.vstack(x)),
    "where": ("22", lambda x, y: torch.where(MATRIX > 1, x, y)),
}
"""Operation -> the dimensions of its operands, and how it is called."""
UNSETTLED = {"layer_norm", "group_norm", "batch_norm", "cdist", "multi_margin_loss"}
"""What devices differ about, so that not everything can be known; what is said is right even so."""


@pytest.fixture(scope="module")
def on_cuda() -> Iterator[None]:
    with cuda_policy():
        yield


def disagreements(op: str, device: str) -> Iterator[str]:
    dimensions, call = CALLS[op]
    for dtypes in itertools.product(DTYPES, repeat=len(dimensions)):
        for region in (None, "float16", "bfloat16"):
            on = torch.autocast("cpu", DTYPES[region]) if region else contextlib.nullcontext()
            operands = [torch.rand([4] * int(n)).to(DTYPES[d]) for n, d in zip(dimensions, dtypes, strict=True)]
            try:
                with torch.no_grad(), on:
                    measured = str(call(*operands).dtype).removeprefix("torch.")
            except RuntimeError as failure:
                measured = "raises"
                if NO_KERNEL in str(failure) and device == "cuda":
                    continue
            regime = Regime({device}, {region}) if region else None
            given = [Typed(frozenset({d}), int(n)) for n, d in zip(dimensions, dtypes, strict=True)]
            known = outcome(op, given, regime)
            said = {"raises"} if known.refusal else known.dtypes
            if said != {measured} and (said or op not in UNSETTLED):
                yield f"{dtypes} in {region}: is {measured}, not {said}"


@pytest.mark.parametrize("op", CALLS)
def test_cpu(op: str) -> None:
    assert not list(disagreements(op, "cpu"))


@pytest.mark.usefixtures("on_cuda")
@pytest.mark.parametrize("op", CALLS)
def test_cuda(op: str) -> None:
    assert not list(disagreements(op, "cuda"))
