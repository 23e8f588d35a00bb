"""What CUDA refuses raises in a dry run, and nothing else: mistakes by hand, and PyTorch's own list of operators."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

from amplint.torchlib.policy import words
from amplint.trace.dry import dry_run
from amplint.trace.gpus import GPUS
from tests.trace.versions import VERSION


@pytest.fixture
def gpu() -> Iterator[None]:
    """A dry run round a test."""
    with dry_run(GPUS["h100"]):
        yield


def there(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers on the GPU."""
    return torch.rand(*sizes, device="cuda").to(dtype)


def half(*sizes: int) -> torch.Tensor:
    """Numbers in half on the GPU."""
    return there(*sizes, dtype=torch.float16)


def put(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Write `values` at two indices."""
    tensor[torch.tensor([0, 1])] = values
    return tensor


def packed(lengths: torch.Tensor) -> torch.Tensor:
    """What an LSTM makes of sequences of two lengths."""
    sequences = pack_padded_sequence(there(2, 3, 4), lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(nn.LSTM(4, 5).cuda()(sequences)[0])[0]


def ctc(lengths: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The loss of two sequences."""
    return F.ctc_loss(there(5, 2, 4).log_softmax(-1), targets, lengths, torch.tensor([3, 3]))


TARGETS = torch.ones(2, 3, dtype=torch.long)
PRODUCT = r"not implemented for 'Long'"
CONVOLUTION = "expected scalar type Half but found Float|should be the same"
"""What PyTorch says depends on whether the CPU has convolutions in half."""
APART = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "embedding": (lambda: F.embedding(torch.tensor([1]), there(3, 3)), APART),
    "embedding of one": (lambda: F.embedding(torch.tensor(1), there(3, 3)), APART),
    "targets": (lambda: F.cross_entropy(there(3, 3), torch.tensor([0, 1, 2])), APART),
    "weights of classes": (lambda: F.cross_entropy(there(3, 3), there(3).long(), weight=torch.ones(3)), APART),
    "mse": (lambda: F.mse_loss(there(3), torch.ones(3)), APART),
    "mask": (lambda: there(3).masked_fill(torch.ones(3) > 0, 0.0), APART),
    "where": (lambda: torch.where(there(3) > 0, torch.zeros(3), there(3)), APART),
    "stack": (lambda: torch.stack([there(3).sum(), torch.tensor(1.0)]), APART),
    "index put": (lambda: put(there(3, 3), torch.ones(2, 3)), APART),
    "index of the gpu": (lambda: torch.ones(3)[torch.tensor([0]).cuda()], "indices should be either on cpu or on the"),
    "out": (lambda: torch.mm(there(2, 2), there(2, 2), out=torch.empty(2, 2)), APART),
    "lengths": (lambda: packed(torch.tensor([3, 2]).cuda()), "'lengths' argument should be a 1D CPU int64 tensor"),
    "ctc targets": (lambda: ctc(torch.tensor([5, 5]), TARGETS), APART),
    "numpy": (lambda: np.asarray(there(2)), "can't convert cuda:0 device type tensor to numpy"),
    "linear": (lambda: F.linear(half(2, 3), there(3, 3)), "same dtype"),
    "convolution": (lambda: F.conv2d(half(1, 1, 3, 3), there(1, 1, 3, 3)), CONVOLUTION),
    "bias": (lambda: F.conv2d(half(1, 1, 3, 3), half(1, 1, 3, 3), there(1)), "bias type"),
    "grid": (lambda: F.grid_sample(half(1, 1, 4, 4), there(1, 2, 2, 2)), "expected scalar type Half but found Float"),
    "layer norm": (lambda: nn.LayerNorm(3).cuda()(half(2, 3)), "expected scalar type Half but found Float"),
    "group norm": (lambda: nn.GroupNorm(1, 3).cuda()(half(2, 3)), "expected scalar type Half but found Float"),
    "attention": (lambda: F.scaled_dot_product_attention(half(1, 2, 2), there(1, 2, 2), half(1, 2, 2)), "same dtype"),
    "distances": (lambda: torch.cdist(half(3, 3), half(3, 3)), "not implemented for 'Half'"),
    "eigenvalues": (lambda: torch.linalg.eigh(half(3, 3)), "Low precision dtypes not supported|not implemented"),
    "nuclear norm": (lambda: torch.linalg.norm(half(3, 3), "nuc"), "Low precision dtypes not supported"),
    "histogram": (lambda: half(3).histc(), "not implemented for 'Half'"),
    "odd transform": (lambda: torch.fft.rfft(half(12)), r"powers of two when computing in half .* size of\[12\]"),
    "transform of bfloat16": (lambda: torch.fft.fft(half(8).bfloat16()), "Unsupported dtype BFloat16"),
    "product of integers": (lambda: there(2, 2).long() @ there(2, 2).long(), PRODUCT),
    "convolution of integers": (lambda: F.conv1d(there(1, 1, 3).long(), there(1, 1, 3).long()), PRODUCT),
    "leaf in place": (lambda: there(2).requires_grad_().add_(1), "a leaf Variable that requires grad"),
}


@pytest.mark.usefixtures("gpu")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cuda_refuses(name: str) -> None:
    run, message = REFUSED[name]
    with pytest.raises((RuntimeError, TypeError), match=message):
        run()


TAKEN: dict[str, Callable[[], torch.Tensor]] = {
    "a number of the cpu": lambda: torch.tensor(2.0) * there(3),
    "bounds": lambda: there(3).clamp(min=torch.tensor(0.0)),
    "a mask's value": lambda: there(3).masked_fill(there(3) > 0, torch.tensor(0.0)),
    "indices of the cpu": lambda: there(3)[torch.tensor([0])],
    "a mask of the cpu": lambda: there(3)[torch.ones(3) > 0],
    "one value": lambda: put(there(3, 3), torch.tensor(1.0)),
    "packed sequences": lambda: packed(torch.tensor([3, 2])),
    "ctc with lengths of the cpu": lambda: ctc(torch.tensor([5, 5]), TARGETS.cuda()),
    "ctc of cudnn": lambda: ctc(torch.tensor([5, 5], dtype=torch.int32), TARGETS.view(-1).int()),
    "constants inside": lambda: torch.unravel_index(torch.tensor([1]).cuda(), (2, 2))[0],
    "batch norm": lambda: nn.BatchNorm1d(3).cuda()(half(2, 3)),
    "transform": lambda: torch.fft.irfft(torch.fft.rfft(half(2, 8))),
    "transform that pads": lambda: torch.fft.fftn(half(2, 5), s=(8,)),
    "copied": lambda: there(2).to("cuda", torch.float32, False, True),
    "nothing to cast": lambda: there(2).to(torch.device("cuda"), non_blocking=True, copy=True),
}


@pytest.mark.usefixtures("gpu")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TAKEN)
def test_what_cuda_takes(name: str) -> None:
    assert TAKEN[name]().is_cuda


@pytest.mark.usefixtures("gpu")
def test_transforms_keep_half() -> None:
    spectrum = torch.fft.rfft(half(2, 8).requires_grad_())
    assert (spectrum.dtype, torch.fft.irfft(spectrum).dtype) == (torch.complex32, torch.float16)
    assert spectrum.requires_grad


EXPLAINED = {
    "as_strided.partial_views": "its operands are views of larger ones, and moving them takes what is seen alone",
    "torch.ops.aten._flash_attention_forward": "an operator of CUDA that functions are led to",
    "torch.ops.aten._efficient_attention_forward": "an operator of CUDA that functions are led to",
    "torch.ops.aten._safe_softmax.default": "of integers the CPU has none",
    "histc": "of integers the CPU has none",
    "linalg.det": "its first example is empty",
    "nn.functional.pdist": "its first example is empty",
    "broadcast_shapes": "takes no tensor",
    "linalg.matrix_power": "is a product where the list tests inverses as well",
    "linalg.svd": "the list's own function for it casts",
    "svd": "the list's own function for it casts",
    "nn.functional.silu.complex": "the list has it apart from the one of real numbers",
    "nn.functional.bilinear": "the list has it by the GPU at hand",
    "einsum": "the list's example multiplies elements",
    "native_dropout_backward": "a product of elements",
    "torch._scaled_mm": "the list has it by the GPU at hand",
    "sparse.sampled_addmm": "of half tensors the CPU has none, and CUDA only since 2.14",
    **{f"signal.windows.{name}": "takes no tensor" for name in words("hann hamming cosine gaussian kaiser nuttall")},
    **{f"signal.windows.{name}": "takes no tensor" for name in words("bartlett blackman exponential")},
    **{f"signal.windows.general_{name}": "takes no tensor" for name in words("cosine hamming")},
}


def sample(operator: Any, dtype: torch.dtype) -> Any:
    """The first example of an operator in float16 or int64; made in float32 where the CPU cannot make it in half."""
    for made in (dtype, torch.float32) if dtype.is_floating_point else (dtype,):
        with contextlib.suppress(Exception):  # PyTorch's own tests, some of which need what is not here
            return next(iter(operator.sample_inputs("cpu", made)))
    return None


def runs(operator: Any, dtype: torch.dtype, example: Any) -> bool:
    """Whether the example runs on the GPU."""

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(dtype).cuda() if value.dtype == torch.float32 else value.cuda()

    given, args, kwargs = tree_map(moved, (example.input, example.args, example.kwargs))
    try:
        operator.op(given, *args, **kwargs)
    except (RuntimeError, TypeError, ValueError):
        return False
    return True


def differing(dtype: torch.dtype) -> dict[str, str]:
    """The operators that a dry run has in a dtype and CUDA has not, or the other way round."""
    wrong = {}
    with dry_run(GPUS["h100"]):
        for operator in op_db:
            name = f"{operator.name}.{operator.variant_test_name}".rstrip(".")
            claimed = dtype in operator.dtypesIfCUDA
            known = dtype.is_floating_point or claimed or dtype in operator.dtypes
            by_gpu = name.startswith("fft.") and VERSION < (2, 13)  # the list has float16 by the GPU at hand
            asked = known and not by_gpu and "jiterator" not in name and name not in EXPLAINED
            example = sample(operator, dtype) if asked else None
            if example is not None and runs(operator, dtype, example) != claimed:
                wrong[name] = "does not run" if claimed else "runs"
    return wrong


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.float16, torch.int64], ids=str)
def test_operators_run_in_the_dtypes_that_cuda_has_them_in(dtype: torch.dtype) -> None:
    with ThreadPoolExecutor(1) as thread:  # examples remember the stack they are made in, which is long in a test
        assert thread.submit(differing, dtype).result() == {}


@pytest.mark.skipif(VERSION < (2, 8), reason="PyTorch had no out_dtype before 2.8")
def test_products_of_half_matrices_that_give_float32() -> None:
    with dry_run(GPUS["a100"]):
        one = torch.randn(4, 8, device="cuda", dtype=torch.float16)
        other = torch.randn(8, 3, device="cuda", dtype=torch.float16)
        exact = one.float() @ other.float()
        total = torch.zeros(4, 3, device="cuda")
        torch.addmm(total, one, other, out_dtype=torch.float32, out=total)
        made = [
            total,
            torch.mm(one, other, out_dtype=torch.float32),
            torch.bmm(one[None], other[None], out_dtype=torch.float32)[0],
            torch.addmm(torch.zeros_like(exact), one, other, out_dtype=torch.float32),
            torch.baddbmm(torch.zeros_like(exact)[None], one[None], other[None], out_dtype=torch.float32)[0],
        ]
        assert all(each.dtype == torch.float32 and each.is_cuda and torch.equal(each, exact) for each in made)
