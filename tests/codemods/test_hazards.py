"""What goes wrong in half is refused, computed in float32, or told by its row."""

from __future__ import annotations

import pytest

from amplint.codemods import Wish, convert
from tests.codemods.hazards import HAZARDS, PLACES, fate, program

SILENT = {
    "sum of scalars": PLACES,
    "new parameter": PLACES,
    "mask of a tensor": PLACES,
    "units by a class": ("module", "forward"),
    "units of the data": ("forward",),
    "area of boxes": ("forward",),
    "exponential kept": ("forward",),
    "allclose": ("forward",),
    "baddbmm_": ("evaluation",),
}
"""What no conversion sees yet, and where."""


def _cells(name: str) -> list[tuple[str, str, bool]]:
    """Two of the places of a hazard, one in float16 and one in bfloat16; all of them together take minutes."""
    turn = list(HAZARDS).index(name)
    there = [
        (place, hidden)
        for place in PLACES
        for hidden in (False, True)
        if program(HAZARDS[name], place, hidden=hidden) is not None and place not in SILENT.get(name, ())
    ]
    dtypes = ("float16", "bfloat16")
    return [(*there[(turn + 5 * each) % len(there)], dtype) for each, dtype in enumerate(dtypes)] if there else []


CELLS = [(name, place, dtype, hidden) for name in HAZARDS for place, hidden, dtype in _cells(name)]


@pytest.mark.parametrize(("name", "place", "dtype", "hidden"), CELLS)
def test_nothing_goes_wrong_in_silence(name: str, place: str, dtype: str, hidden: bool) -> None:
    become = fate(HAZARDS[name], place, dtype, hidden=hidden)
    assert become in (("right",) if HAZARDS[name].safe else ("right", "told", "refused"))


LOOP = """import torch
import zoo

model = zoo.create("net").cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    optimizer.zero_grad()
    {forward}
    loss = {loss}
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("forward", "loss", "becomes"),
    [
        ("out = model(x)", "torch.log(1 - torch.sigmoid(out)).mean()", "out = model(x).float()\n"),
        (
            "out, code = model(x)",
            "torch.log1p(-out.sigmoid()).mean() + code.mean()",
            "out = out.float()\n        code = code.float()\n",
        ),
        ("out, code = model(x)", "torch.log(1 - out[:, 0].sigmoid()).mean()", "out = out.float()\n"),
        ("out = model(x)", "torch.log(1 - torch.sigmoid(out['p'])).mean()", "out = model(x)\n"),
        ("out = model(x)", "((out - y) ** 2).mean()", "out = model(x)\n"),
    ],
    ids=["one", "two", "one of two", "no tensor", "nothing lost"],
)
def test_only_outputs_without_which_something_is_lost_become_float32(forward: str, loss: str, becomes: str) -> None:
    for dtype in ("float16", "bfloat16"):
        conversion = convert(LOOP.format(forward=forward, loss=loss), Wish(to="amp", dtype=dtype))
        assert conversion.refused == ()
        assert f"        {becomes}" in conversion.text
        assert conversion.text.count(".float()") == becomes.count(".float()")
