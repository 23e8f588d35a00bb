"""Operations that PyTorch does not have for half tensors.

Source: torch 2.13, run on the CPU, and its own list of what each operation supports (`torch.testing`'s OpInfo) for
CUDA; tests/test_half_support.py asks both.
"""

from __future__ import annotations

from amplint.torchlib.policy import words

NEVER = words(
    "quantile nanquantile cholesky cholesky_inverse cholesky_solve inv inverse det logdet slogdet svd svdvals qr geqrf "
    "eigh eigvalsh eig eigvals solve solve_triangular triangular_solve lu_factor lstsq matrix_rank cond"
)
"""Operations of `torch`, `torch.linalg` and tensors that refuse float16 and bfloat16 on every device."""

FFT = words("fft ifft rfft irfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn hfft ihfft")
"""Functions of `torch.fft` that refuse bfloat16 on every device; CUDA takes float16 for some sizes."""


def lacks(name: str) -> frozenset[str]:
    """The half dtypes that the function with this qualified name, or the tensor method with this name, refuses."""
    module, _, last = name.rpartition(".")
    if module == "torch.fft" and last in FFT:
        return frozenset({"bfloat16"})
    if module in ("", "torch", "torch.linalg") and last in NEVER:
        return frozenset({"float16", "bfloat16"})
    return frozenset()
