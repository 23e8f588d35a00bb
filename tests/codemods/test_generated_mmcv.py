"""Configs of mmcv made at random: conversions never crash, always parse, and mean the same on top of their bases."""

from __future__ import annotations

import ast
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from amplint.codemods import Conversion, Wish, convert
from tests.codemods.mmcv_configs import Broken, got, load, wanted

OPTIMIZER = (
    "lr=0.1",
    "weight_decay=0.01,  # small",
    "betas=(0.9,\n          0.99)",
    "paramwise_cfg=dict(bias_lr_mult=2.)",
    "paramwise_cfg=dict(\n        custom_keys={'head': dict(lr_mult=0.1)})",
    "constructor='Own'",
    "_delete_=True",
)
HOOK = (
    "grad_clip=None",
    "grad_clip=dict(max_norm=35, norm_type=2)",
    "grad_clip=dict(_delete_=True, max_norm=3)",
    "coalesce=True",
    "cumulative_iters=4",
    "# fewer\n    cumulative_iters=2",
    "loss_scale='dynamic'",
    "loss_scale=64.0",
    "_delete_=True",
)
TYPES = ("", "OptimizerHook", "Fp16OptimizerHook", "GradientCumulativeOptimizerHook", "Own")
TYPES += ("GradientCumulativeFp16OptimizerHook",)
FP16 = ("None", "dict()", "dict(loss_scale=512.)", "dict(loss_scale=dict(init_scale=8.))", "dict(mode='static')")
OTHERS = ("lr_config = dict(step=[1])", "scale = 4.0", "# above", "", "model = dict(type='Net')", "import os")


def entries(draw: st.DrawFn, choice: tuple[str, ...]) -> list[str]:
    """Some of `choice`, of each name at most one."""
    chosen = draw(st.lists(st.sampled_from(choice), max_size=4))
    return list({each.partition("=")[0].split()[-1]: each for each in chosen}.values())


@st.composite
def configs(draw: st.DrawFn, *, base: str = "") -> str:
    """One config on top of `base`."""
    lines = []
    if base or draw(st.integers(0, 9)):
        kind = [f"type='{draw(st.sampled_from(['SGD', 'Adam']))}'"] if not base or draw(st.booleans()) else []
        lines.append(written(draw, "optimizer", kind + entries(draw, OPTIMIZER if base else OPTIMIZER[:-1])))
    if draw(st.booleans()):
        kind = [f"type='{each}'" for each in [draw(st.sampled_from(TYPES))] if each]
        lines.append(written(draw, "optimizer_config", kind + entries(draw, HOOK if base else HOOK[:-1])))
    if draw(st.booleans()):
        lines.append(f"fp16 = {draw(st.sampled_from(FP16))}" + draw(st.sampled_from(["", "  # half"])))
    lines = draw(st.permutations(lines))
    for other in draw(st.lists(st.sampled_from(OTHERS), max_size=3)):
        lines.insert(draw(st.integers(0, len(lines))), other)
    text = "\n".join([*([f"_base_ = '{base}'"] if base else []), *lines])
    text += draw(st.sampled_from(["\n", "", "\n\n"]))
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def written(draw: st.DrawFn, name: str, parts: list[str]) -> str:
    if draw(st.booleans()):
        return (
            f"{name} = dict(\n" + "".join(f"    {part},\n" for part in parts).replace(",  # small,", ",  # small") + ")"
        )
    return f"{name} = dict({', '.join(part.replace(',  # small', '').replace('# fewer', '') for part in parts)})"


def checked(text: str, path: str) -> Conversion:
    """The conversion of `text`, which keeps what is promised of every conversion."""
    conversion = convert(text, Wish(source="mmcv"), path)
    assert not any("please report" in remark.text for remark in conversion.refused), conversion.refused
    ast.parse(conversion.text)
    if conversion.refused:
        assert conversion.text == text
        return conversion
    again = convert(conversion.text, Wish(source="mmcv"), path)
    assert (again.text, again.done, again.refused) == (conversion.text, (), ())
    return conversion


def test_conversions_are_whole() -> None:
    converted = refused = compared = 0

    @settings(max_examples=150, deadline=None, derandomize=True)
    @given(configs(), configs(base="base.py"))
    def check(base: str, child: str) -> None:
        nonlocal converted, refused, compared
        old, new = {"base.py": base, "child.py": child}, {}
        with tempfile.TemporaryDirectory() as folder:
            for name, text in old.items():
                (Path(folder) / name).write_text(text, encoding="utf-8", newline="")
            conversions = [checked(text, str(Path(folder) / name)) for name, text in old.items()]
        new = dict(zip(old, (conversion.text for conversion in conversions), strict=True))
        refused += any(conversion.refused for conversion in conversions)
        if any(conversion.refused for conversion in conversions):
            return
        converted += new != old
        try:
            expected = wanted(load(old, "child.py"))
        except Broken:
            return
        compared += 1
        assert got(load(new, "child.py")) == expected

    check()
    assert converted > 30
    assert refused > 30
    assert compared > 20
