"""Operations that PyTorch does not have for half tensors.

Source: torch 2.13, run on the CPU, and its own list of what each operation supports (`torch.testing`'s OpInfo) for
CUDA; tests/test_half_support.py asks both.
"""

from __future__ import annotations

from amplint.torchlib.policy import words

NEVER = words(
    "quantile nanquantile cholesky cholesky_ex cholesky_inverse cholesky_solve inv inv_ex inverse det logdet slogdet "
    "svd svdvals svd_lowrank pca_lowrank qr geqrf householder_product orgqr ormqr eigh eigvalsh eig eigvals solve "
    "solve_triangular triangular_solve tensorsolve tensorinv lu lu_factor lu_factor_ex lu_solve ldl_factor lstsq "
    "matrix_rank cond pinv pinverse polar"
)
"""Operations of `torch`, `torch.linalg` and tensors that refuse float16 and bfloat16 on every device."""

RETURNED = {
    **dict.fromkeys(NEVER - words("polar eig eigvals matrix_rank"), (1, 1)),
    **dict.fromkeys(words("svd svd_lowrank pca_lowrank lu"), (3, 3)),
    **dict.fromkeys(words("qr geqrf eigh slogdet triangular_solve"), (2, 2)),
    **dict.fromkeys(words("lu_factor ldl_factor inv_ex cholesky_ex"), (1, 2)),
    "lu_factor_ex": (1, 3),
    "lstsq": (2, 4),
}
"""Operation of `NEVER` -> how many of the tensors it returns have the dtype of its operand, and how many there are."""

LIFTED = words("cdist pdist")
"""Operations that refuse both, too, and that CUDA autocast computes in float32."""

FFT = words("fft ifft rfft irfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn hfft ihfft")
"""Functions of `torch.fft` that refuse bfloat16 on every device; CUDA takes float16 for some sizes."""

COMPLEX = words("complex view_as_complex")
"""Functions of `torch` that refuse bfloat16 on every device."""


CUDA_LACKS = words(
    "angle histc igamma igammac lu_unpack ldl_solve ctc_loss ndtri log_ndtr erfcx zeta airy_ai spherical_bessel_j0 "
    "bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 "
    "modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 chebyshev_polynomial_t "
    "chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he "
    "laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u "
    "shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w"
)
"""Operations of `torch`, `torch.linalg` and `torch.special` that refuse both on CUDA alone."""


def lacks(name: str) -> frozenset[str]:
    """The half dtypes that the function with this qualified name, or the tensor method with this name, refuses."""
    module, _, last = name.rpartition(".")
    if (module == "torch.fft" and last in FFT) or (module == "torch" and last in COMPLEX):
        return frozenset({"bfloat16"})
    if module in ("", "torch", "torch.linalg") and last in NEVER:
        return frozenset({"float16", "bfloat16"})
    if module in ("torch", "torch.nn.functional") and last in LIFTED:
        return frozenset({"float16", "bfloat16"})
    return frozenset()
