"""`cdist` refuses half where it computes element by element: in small or other than Euclidean cases, or as told."""

from __future__ import annotations

import pytest
import torch

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = (load_registry().rules["AMP503"],)
PROGRAM = """
import torch

def nearest(points, others, order):
    {made}
    return torch.cdist(points, others{how}){then}
"""
HALF = "points, others = torch.randn(9, 4, dtype=torch.float16), torch.randn(9, 4, dtype=torch.float16)"
ALWAYS = (", 1", ", p=1.0", ', compute_mode="donot_use_mm_for_euclid_dist"', ", p=float('inf')")
IF_SMALL = ("", ", 2.0", ", p=2", ", p=order", ', compute_mode="use_mm_for_euclid_dist"')


def told(how: str, made: str = HALF, then: str = "") -> list[tuple[str, bool]]:
    program = PROGRAM.format(made=made, how=how, then=then).encode()
    found = findings_of(program, RULES)
    return [(one.severity.name.lower(), "more than 25 rows" in one.message) for one in found]


@pytest.mark.parametrize("how", ALWAYS)
def test_elements(how: str) -> None:
    assert told(how) == [("error", False)]
    assert told(how, "pass", ".to(torch.float32)") == [("info", False)]


@pytest.mark.parametrize("how", IF_SMALL)
def test_products(how: str) -> None:
    assert told(how) == [("info", True)]
    assert not told(how, "pass", ".to(torch.float32)")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_pytorch_has_products_of_more_than_25_rows(dtype: torch.dtype) -> None:
    few, many = torch.ones(25, 4, dtype=dtype), torch.ones(26, 4, dtype=dtype)
    assert torch.cdist(few, many).dtype is torch.cdist(many, few).dtype is dtype
    for one, arguments in ((few, {}), (many, {"p": 1.0}), (many, {"compute_mode": "donot_use_mm_for_euclid_dist"})):
        with pytest.raises(RuntimeError, match="not implemented"):
            torch.cdist(one, few, **arguments)
