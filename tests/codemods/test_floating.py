"""Values that are cast to float32 are floating for certain: whole numbers stay whole."""

from __future__ import annotations

import pytest

from amplint.codemods.mending import of_array
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import every
from amplint.training.bindings import called_name
from amplint.training.floating import Kind, kind_of

BEFORE = """import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(4, 4)
        self.words = nn.Embedding(4, 4)

    def run(self, x, ids, other, words):
        y = torch.sigmoid(x)
        z = self.layer(other)
        values, places = z.topk(2)
        full = torch.zeros(2, 4).cuda()
        self.words(ids)
        tokens = [words[i] for i in other.argmax(1).cpu().numpy()]
        scaled = words.add_(1).div_(2)
        first = F.one_hot(ids).sum(0)
        return {value}
"""


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("x.view(-1).cpu()", Kind.FLOATING),
        ("y[0]", Kind.FLOATING),
        ("z", Kind.FLOATING),
        ("z @ y", Kind.HALF),
        ("torch.mm(z, y)", Kind.HALF),
        ("torch.exp(other)", Kind.FLOAT32),
        ("full", Kind.FLOAT32),
        ("full + z", Kind.FLOAT32),
        ("values", Kind.FLOATING),
        ("places", Kind.OTHER),
        ("z.max(1)[1]", Kind.OTHER),
        ("z > 0", Kind.OTHER),
        ("z.argmax(1)", Kind.OTHER),
        ("z.half()", Kind.HALF),
        ("z.to(torch.int64)", Kind.OTHER),
        ("torch.zeros(2, dtype=torch.long)", Kind.OTHER),
        ("first", Kind.OTHER),
        ("other[:, 0]", None),
        ("other.unknown()", None),
        ("torch.cat([z, full])", Kind.FLOAT32),
    ],
)
def test_kinds(value: str, kind: Kind | None) -> None:
    """A value is judged by what makes it, and a parameter by what its function does with it."""
    source = Source("", BEFORE.format(value=value), "")
    (returned,) = (one.value for chunk in source.chunks for one in every(chunk.module, cst.Return))
    assert returned is not None
    assert kind_of(source, returned) is kind


@pytest.mark.parametrize(("given", "is_cast"), [("y", True), ("scaled", True), ("ids", False), ("other", False)])
def test_arrays(given: str, *, is_cast: bool) -> None:
    """A tensor for NumPy is cast where it certainly is floating."""
    source = Source("", BEFORE.format(value=f"{given}.cpu().numpy()"), "")
    calls = [one for chunk in source.chunks for one in every(chunk.module, cst.Call) if called_name(one) == "numpy"]
    assert (of_array(source, source.span(calls[-1]), of_region=False) is not None) is is_cast
