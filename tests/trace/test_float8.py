"""Float8: products, casts and scales are recorded with their formats, also inside of a library's tensors."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import amplint.trace
from amplint.reports.exponents import FLOAT8, Range
from amplint.reports.float8 import float8
from amplint.reports.modules import tree
from amplint.reports.page.document import page
from amplint.trace.findings import findings
from amplint.trace.kinds import computed_in
from amplint.trace.merge import merged
from amplint.trace.record import Record
from tests.trace.versions import FLOAT8_ON_CPUS

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def quantized(tensor: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """`tensor` in `dtype`, and what it is to be multiplied by."""
    scale = tensor.abs().amax() / FLOAT8[str(dtype).removeprefix("torch.")][0]
    return (tensor / scale).to(dtype), scale


class Scaled(torch.nn.Linear):
    """A layer without bias that multiplies in float8."""

    def forward(self, x: Tensor) -> Tensor:
        left, left_scale = quantized(x, E4M3)
        right, right_scale = quantized(self.weight.t(), E5M2)
        return torch._scaled_mm(left, right, scale_a=left_scale, scale_b=right_scale, out_dtype=torch.float32)


def watched(steps: int = 2, *, numerics: str = "sample", region: bool = False) -> Record:
    if not FLOAT8_ON_CPUS:
        pytest.skip("this PyTorch multiplies float8 on GPUs only")
    torch.manual_seed(0)
    model = torch.nn.Sequential(Scaled(16, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with (
        amplint.trace.watch(numerics=numerics) as record,
        torch.autocast("cpu", dtype=torch.bfloat16, enabled=region),
        torch.no_grad(),
    ):
        for step in range(steps):
            model(torch.ones(16, 16) * (step + 1))
            optimizer.step()
    return record


def test_products_and_casts_are_named_with_their_formats() -> None:
    record = watched()
    dtypes = {(one.op, computed_in(one)) for one in record.operations if "float8" in computed_in(one)}
    assert dtypes == {
        *(("_to_copy", "float32 -> float8_e4m3fn"), ("_to_copy", "float32 -> float8_e5m2")),
        ("_scaled_mm", "float8_e4m3fn"),
    }
    (model,) = [node for node in tree(record) if node.path]
    assert (model.name, model.products, model.in_half) == ("model.0", 2, 2)
    assert not findings(record)


def test_a_float8_product_is_no_float32_product() -> None:
    assert not findings(watched(region=True))


def test_scales_and_largest_numbers_are_kept_step_by_step() -> None:
    left, right = watched(3).float8
    assert (left.operand, left.dtype, right.operand, right.dtype) == ("left", "float8_e4m3fn", "right", "float8_e5m2")
    assert {(one.phase, one.module, one.steps) for one in (left, right)} == {("forward", "model.0", (0, 1, 2))}
    assert left.amax == pytest.approx((1, 2, 3))
    assert left.scale == pytest.approx((1 / 448, 2 / 448, 3 / 448))
    assert right.amax == pytest.approx([0.25] * 3, rel=0.1)
    assert not watched(numerics="off").float8


def test_scales_by_rows_and_what_is_not_finite() -> None:
    rows, one = torch.tensor([[1.0]] * 15 + [[8.0]]), torch.ones(16, 16).to(E4M3)
    try:
        torch._scaled_mm(one, one.t(), scale_a=rows, scale_b=torch.ones(1, 16), out_dtype=torch.bfloat16)
    except RuntimeError:
        pytest.skip("this version of PyTorch scales by rows on GPUs only")
    with amplint.trace.watch() as record:
        torch._scaled_mm(one, one.t(), scale_a=rows, scale_b=torch.ones(1, 16), out_dtype=torch.bfloat16)
        torch._scaled_mm(one, one.t(), scale_a=torch.tensor(float("nan")), scale_b=torch.tensor(1.0))
    assert [(operand.amax, operand.scale) for operand in record.float8] == [
        *(((8.0,), (8.0,)), ((1.0,), (1.0,)), ((None,), (None,)), ((1.0,), (1.0,))),
    ]
    assert Record.from_json(record.to_json()).float8 == record.float8


def test_long_runs_are_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amplint.trace.float8.SERIES_POINTS", 4)
    left, _ = watched(9, numerics="sample").float8
    assert len(left.steps) <= 5
    assert left.amax[-1] == pytest.approx(9)


def test_ranks_have_the_largest_of_both() -> None:
    record = watched(1)
    (left, right) = record.float8
    other = replace(left, amax=(5.0,), scale=(None,))
    whole = merged([replace_rank(record, 0), replace_rank(Record(float8=[other]), 1)])
    assert whole.float8 == [replace(left, amax=(5.0,), scale=(None,)), right]


def replace_rank(record: Record, rank: int) -> Record:
    record.rank, record.ranks = rank, 2
    return record


def test_what_is_said_of_them() -> None:
    assert list(float8(watched(2), 80)) == [
        "",
        "float8 operands of products:",
        "  float8_e4m3fn: 1 operand, the largest numbers from 1 to 2, scales from 0.0022",
        "    to 0.0045; they fill at least 100 % of the format's 448",
        "  float8_e5m2: 1 operand, the largest numbers from 0.25 to 0.25, scales from",
        "    4.4e-06 to 4.4e-06; they fill at least 100 % of the format's 57344",
    ]
    assert list(float8(Record(), 80)) == []


def test_the_page_draws_how_far_they_fill_their_formats() -> None:
    text = page(watched(3), [])
    for dtype in ("float8_e4m3fn", "float8_e5m2"):
        assert text.count(f"Largest numbers of operands, as {dtype} holds them, 1 of them") == 1
    assert "as float8_e4m3fn holds them" not in page(watched(1), [])


@pytest.mark.parametrize("dtype", FLOAT8)
def test_ranges_of_formats(dtype: str) -> None:
    """Source: every number of the format, as PyTorch has it."""
    numbers = torch.arange(256, dtype=torch.uint8).view(getattr(torch, dtype)).double()
    known = numbers[(numbers > 0) & numbers.isfinite()]
    most, normal, least = FLOAT8[dtype]
    assert (known.max(), known.min(), torch.finfo(getattr(torch, dtype)).tiny) == (most, least, normal)
    exponents = [int(torch.frexp(torch.tensor(size)).exponent) - 1 for size in (least, normal, most)]
    of = Range.of(dtype)
    assert [of.smallest, of.normal, of.largest] == exponents


class Wrapped(Tensor):
    """A tensor that computes with another one, in float8."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Wrapped:
        made = Tensor._make_wrapper_subclass(cls, inner.shape, dtype=torch.float32)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*(one.inner.to(E4M3).float() if isinstance(one, Wrapped) else one for one in args))


def test_operators_inside_of_a_class_of_tensors_are_seen() -> None:
    plain = torch.ones(4, 4)
    with amplint.trace.watch() as record:
        result = Wrapped(torch.full((4, 4), 300.3)) @ plain
    assert float(result[0, 0]) == 4 * 288
    assert {("to", "float32 -> float8_e4m3fn"), ("mm", "float32")} <= {
        (one.op, computed_in(one)) for one in record.operations
    }
