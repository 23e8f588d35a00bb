"""Operations that PyTorch does not implement for half tensors.

Source: torch 2.13, run on the CPU, and the dtypes listed by its own tests (`torch.testing`'s OpInfo) for CUDA;
tests/test_half_support.py compares both.
"""

from __future__ import annotations

from amplint.torchlib.catalogue import fact_values, operations_with, operations_with_form

NEVER = operations_with("no-half")
"""Operations of `torch`, `torch.linalg` and tensors that refuse float16 and bfloat16 on every device."""

RETURNED = {op: tuple(map(int, counts.split("/"))) for op, counts in fact_values("returns").items()}
"""Operation of `NEVER` -> how many tensors of its result have the dtype of its operand, and how many there are."""

LIFTED = operations_with("no-half-but-cast")
"""Operations that refuse both, too, but that CUDA autocast computes in float32."""

_LOSSES = LIFTED | (NEVER & operations_with("loss"))

FFT = operations_with("no-bfloat16") & operations_with_form("x")
"""Functions of `torch.fft` that refuse bfloat16 on every device; CUDA supports float16 for some sizes."""

COMPLEX = operations_with("no-bfloat16") & operations_with_form("f")
"""Functions of `torch` that refuse bfloat16 on every device."""

CUDA_LACKS = operations_with("no-half-on-cuda")
"""Operations of `torch`, `torch.linalg` and `torch.special` that refuse both on CUDA alone."""

CUDA_GAINED = {"angle": (2, 14)}
"""Operation of `CUDA_LACKS` -> the version of PyTorch since which CUDA supports float16."""

SINGULAR_VALUES = {"norm": frozenset({"nuc"}), "matrix_norm": frozenset({"nuc", 2, -2})}
"""Operation -> orders of a norm that are computed from singular values, which refuse both on every device."""


def lacks(name: str, *, on_cuda: bool = False) -> frozenset[str]:
    """The half dtypes that the function with this qualified name, or the tensor method with this name, refuses.

    With `on_cuda`, also those that it refuses on CUDA alone.
    """
    module, _, last = name.rpartition(".")
    if on_cuda and module in ("", "torch", "torch.special") and last in CUDA_LACKS.difference(CUDA_GAINED):
        return frozenset({"float16", "bfloat16"})
    if (module == "torch.fft" and last in FFT) or (module == "torch" and last in COMPLEX):
        return frozenset({"bfloat16"})
    if module in ("", "torch", "torch.linalg") and last in NEVER:
        return frozenset({"float16", "bfloat16"})
    if module in ("torch", "torch.nn.functional") and last in _LOSSES:
        return frozenset({"float16", "bfloat16"})
    return frozenset()
