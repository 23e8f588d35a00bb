"""Configs and modules of mmcv made at random: conversions never crash, always parse, and keep the meaning."""

from __future__ import annotations

import ast
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplint.codemods import Conversion, Wish, convert
from tests.codemods import mmcv_runner
from tests.codemods.mmcv_configs import Broken, got, load, wanted
from tests.codemods.test_mmcv_modules import HEAD, flat, made

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
TYPES += ("GradientCumulativeFp16OptimizerHook", "Fp16OptimizerHook")
FP16 = ("None", "dict()", "dict(loss_scale=512.)", "dict(loss_scale=dict(init_scale=8.))", "dict(mode='static')")
OTHERS = ("lr_config = dict(step=[1])", "scale = 4.0", "# above", "", "model = dict(type='Net')", "import os")


def entries(draw: st.DrawFn, choice: tuple[str, ...]) -> list[str]:
    """Some of `choice`, of each name at most one."""
    chosen = draw(st.lists(st.sampled_from((*choice, choice[-1])), max_size=4))
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
    conversion = convert(text, Wish(source="mmcv", device="cpu"), path)
    assert not any("please report" in remark.text for remark in conversion.refused), conversion.refused
    ast.parse(conversion.text)
    if conversion.refused:
        assert conversion.text == text
        return conversion
    again = convert(conversion.text, Wish(source="mmcv", device="cpu"), path)
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


DECORATORS = (
    "@force_fp32()",
    "@force_fp32(apply_to=('x', ))",
    "@force_fp32(apply_to='x')  # not in half",
    "@force_fp32(\n        apply_to=['x', 'more'], out_fp16=False)",
    "@torch.no_grad()\n    @force_fp32(('more', ))",
    "@auto_fp16()",
    "@auto_fp16(apply_to=('x', ), out_fp32=True)",
    "",
)
BODIES = (
    "return self.net(x)",
    "x = self.net(x)\n        # twice\n        return x + x.mean()",
    "return self.net(x).exp(\n        ).clamp(max=9)",
    '"""Told."""\n\n        x = self.net(x).relu()\n        return x @ self.net.weight',
    "x = [self.net(x)]\n        if more is None:\n            return x[0]\n        return x[0] * more[0]",
)


@st.composite
def modules(draw: st.DrawFn) -> str:
    """A module whose methods are decorated and run one after the other."""
    count = draw(st.integers(1, 3))
    text = HEAD + "class Model(BaseModule):\n    def __init__(self):\n        super().__init__()\n"
    text += "        self.net = nn.Linear(8, 8)\n        self.fp16_enabled = False\n\n"
    text += "    @auto_fp16(apply_to=())\n    def forward(self, x, more):\n"
    for index in range(count):
        given = draw(st.sampled_from(["x", "x, None", "x, [x]", "x, more=(x, )", "more=more, x=x"]))
        text += f"        x = self.run{index}({given})\n"
    text += "        return x\n"
    for index in range(count):
        decorator = draw(st.sampled_from(DECORATORS))
        text += f"\n    {decorator}\n" if decorator else "\n"
        bodies = BODIES[:-1] if "auto" in decorator else BODIES  # what is half only by auto_fp16 is not computed with
        text += f"    def run{index}(self, x, more=None):\n        {draw(st.sampled_from(bodies))}\n"
    return text


def test_modules_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    shared = [HealthCheck.function_scoped_fixture]

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=shared)
    @given(modules(), st.booleans())
    def check(text: str, mixed: bool) -> None:
        nonlocal compared
        conversion = checked(text, "")
        assert conversion.refused == ()
        assert not any(name in conversion.text for name in ("auto_fp16", "force_fp32", "fp16_enabled"))
        before, after = made(text, monkeypatch), made(conversion.text, monkeypatch)
        x = torch.randn(3, 8)
        if mixed:
            mmcv_runner.wrap_fp16_model(before)
        with torch.autocast("cpu", dtype=torch.float16, enabled=mixed):
            try:
                expected = flat(before(x, [x]))
            except RuntimeError as failure:
                with pytest.raises(RuntimeError, match=str(failure)):
                    after(x, [x])
                return
            results = flat(after(x, [x]))
        for result, want in zip(results, expected, strict=True):
            assert result.dtype == want.dtype
            assert torch.equal(result, want)
        compared += 1

    check()
    assert compared > 30
