"""AMP503."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Because, Event, HalfRefused
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_OF_TWO = frozenset(
    {"cdist", "cholesky_solve", "complex", "lstsq", "polar", "solve", "solve_triangular", "triangular_solve"}
)
"""Functions of two tensors with one dtype."""


class UnsupportedHalfOp(Rule):
    """An operation that PyTorch does not have for half tensors runs on one.

    ## Why is this bad?
    Quantiles, decompositions and solvers exist for float32 and float64 only: on a half tensor they raise
    `"cholesky_cpu" not implemented for 'Half'` or `Low precision dtypes not supported`. The Fourier transforms refuse
    bfloat16, and take float16 on CUDA only. CUDA autocast does not convert their operands; CPU autocast does.
    Converting the result is too late; where that is done, and the operand's dtype is unknown, this is an info. Selected
    by its code, the rule also reports operands that can be half, such as a sound whose window takes its dtype.

    ## Example
    ```python
    covariance = features.half().t() @ features.half()
    factor = torch.linalg.cholesky(covariance).float()
    ```

    ## Use instead
    ```python
    factor = torch.linalg.cholesky(covariance.float())
    ```

    ## Fix safety
    The fix converts the operand to float32 where it stands. The result is float32 too.

    ## References
    - <https://docs.pytorch.org/docs/stable/linalg.html>
    """

    code = "AMP503"
    name = "unsupported-half-op"
    severity = Severity.ERROR
    claims = (Claim(Sign.RAISES, texts=("not implemented for", "dtype", "type")),)
    screen = (
        (
            b"quantile",
            b"cholesky",
            b"inv",
            b"det",
            b"svd",
            b"qr",
            b"eig",
            b"solve",
            b"lu_",
            b"lstsq",
            b"rank",
            b"fft",
            b"complex(",
            b"polar",
            b"cdist",
            b"orgqr",
            b"stft",
            b"ctc_loss",
            b"CTCLoss",
            b"nuc",
            b"matrix_norm",
            b"histogram",
        ),
        (b"half", b"float16", b"autocast", b".to(torch.float32)"),
    )
    assumed = (
        (b"cholesky", b"inverse(", b"inv(", b"det(", b"svd(", b"qr(", b"eigh(", b"eig(", b"solve(", b"lstsq(", b"pinv(",
         b"quantile(", b"rfft", b"fft(", b"fft2(", b"fftn(", b"cdist(", b"complex(", b"stft(",
         b"nuc", b"matrix_norm(", b"histogram"),
    )  # fmt: skip
    fixable = Applicability.SAFE
    reason = "PyTorch has no kernel for it in half precision."

    def on_half_refused(self, event: HalfRefused) -> Iterator[Report]:
        half = event.operand.half
        if half is None:
            return
        dtypes = " or ".join(sorted(half.dtypes))
        certain = half.because is not Because.ANNOUNCED and not event.assumed
        message = (
            f"{event.op} raises for a {dtypes} tensor" if certain else f"{event.op} raises if its operand is {dtypes}"
        )
        yield self.report(
            event,
            f"{message} where none of its operands has more than 25 rows" if event.if_small else message,
            advice="Convert the operand with .float() first.",
            notes=[(half.node, half.text)] if half.node is not None else (),
            severity=None if certain and not event.if_small else Severity.INFO,
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, HalfRefused)
        edits = [rewrite.add_float(event.operand.node)]
        if event.op in _OF_TWO and isinstance(event.node, cst.Call):
            plain = [argument.value for argument in event.node.args if argument.keyword is None and not argument.star]
            others = [node for node in plain[:2] if node is not event.operand.node]
            edits += map(rewrite.add_float, others[:1])
        return Fix("Convert the operand to float32", tuple(edits))
