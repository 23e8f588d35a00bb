"""`--from mmcv` on configs: what is written, what it comes to on top of its bases, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.codemods import Conversion, Wish, convert
from tests.codemods.mmcv_configs import got, load, wanted

SGD = "optimizer = dict(type='SGD', lr=0.02)\n"
SCHEDULE = SGD + "optimizer_config = dict(grad_clip=None)\n"


def converted(text: str, path: str = "") -> Conversion:
    return convert(text, Wish(source="mmcv"), path)


WRITTEN = [
    (
        "# optimizer\noptimizer = dict(type='SGD', lr=0.02)\noptimizer_config = dict(grad_clip=None)\nlr = 1\n",
        "# optimizer\noptim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='SGD', lr=0.02))\nlr = 1\n",
    ),
    (
        "optimizer = dict(type='Adam',  # or AdamW\n                 lr=lr)  # for 8 GPUs\n\n"
        "# mixed precision\nfp16 = dict(loss_scale='dynamic')\n",
        "optim_wrapper = dict(\n    type='AmpOptimWrapper',\n    # mixed precision\n    loss_scale='dynamic',\n"
        "    optimizer=dict(type='Adam',  # or AdamW\n                   lr=lr),  # for 8 GPUs\n)\n",
    ),
    (
        "optimizer_config = dict(type='Fp16OptimizerHook', grad_clip=dict(max_norm=1))\n"
        "# fp16 placeholder\nfp16 = dict()\n" + SGD,
        "optim_wrapper = dict(\n    type='AmpOptimWrapper',\n    loss_scale=512.0,\n"
        "    optimizer=dict(type='SGD', lr=0.02),\n    clip_grad=dict(max_norm=1))\n",
    ),
    (
        SGD + "optimizer_config = {\n    'type': 'GradientCumulativeFp16OptimizerHook',\n"
        "    'loss_scale': {'init_scale': 1024.0},\n    # eight images\n    'cumulative_iters': 4,\n"
        "    'coalesce': True,\n    'bucket_size_mb': -1,\n}\n",
        "optim_wrapper = dict(\n    type='AmpOptimWrapper',\n    loss_scale={'init_scale': 1024.0},\n"
        "    optimizer=dict(type='SGD', lr=0.02),\n    # eight images\n    accumulative_counts=4)\n",
    ),
    (
        "optimizer = dict(\n    type='AdamW',\n    paramwise_cfg=dict(\n        custom_keys={\n"
        "            'backbone': dict(lr_mult=0.1),  # frozen\n        }),\n    lr=1e-4)\n"
        "# 35 is enough\noptimizer_config = dict(grad_clip=dict(max_norm=35, norm_type=2))\nload_from = None\n",
        "optim_wrapper = dict(\n    type='OptimWrapper',\n    optimizer=dict(type='AdamW', lr=1e-4),\n"
        "    paramwise_cfg=dict(\n        custom_keys={\n            'backbone': dict(lr_mult=0.1),  # frozen\n"
        "        }),\n    # 35 is enough\n    clip_grad=dict(max_norm=35, norm_type=2))\nload_from = None\n",
    ),
    (
        SGD + "optimizer_config = dict(\n    type='DistOptimizerHook',\n    update_interval=1,\n"
        "    grad_clip=None,\n    use_fp16=True,\n)\n# not mmdet's fp16\nfp16 = None\n",
        "optim_wrapper = dict(\n    type='AmpOptimWrapper',\n    loss_scale='dynamic',\n"
        "    optimizer=dict(type='SGD', lr=0.02))\n",
    ),
    ("optimizer_config = dict()\nfp16 = None\n", ""),
    (
        "optimizer_config = dict(grad_clip=None)\n" + SGD + "optimizer_config = dict(grad_clip=dict(max_norm=3))\n",
        "optim_wrapper = dict(\n    type='OptimWrapper',\n    optimizer=dict(type='SGD', lr=0.02),\n"
        "    clip_grad=dict(max_norm=3))\n",
    ),
]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(("old", "new"), WRITTEN)
def test_what_is_written(old: str, new: str, newline: str) -> None:
    conversion = converted(old.replace("\n", newline))
    assert conversion.refused == ()
    assert conversion.text == new.replace("\n", newline)
    assert converted(conversion.text).done == ()


REFUSED = [
    ("optimizer = dict(type='SGD')\nfp16 = dict()\n_base_ = []\n", 2, "an empty fp16"),
    ("optimizer = dict(g=dict(type='SGD'), d=dict(type='SGD'))\noptimizer_config = dict()\n", 1, "has no type"),
    (SGD + "optimizer_config = None\n", 2, "nothing would be trained"),
    (SGD + "optimizer_config = dict(type='GradChecker')\n", 2, "GradChecker would be in mmengine is not known"),
    (SGD + "optimizer_config = dict(type='OptimizerHook', nan=1)\n", 2, "nan is no argument of OptimizerHook"),
    (SCHEDULE + "fp16 = dict(loss_scale=512., mode='static')\n", 3, "mode is no argument"),
    (SCHEDULE + "fp16 = dict(loss_scale=dict(init_scale=1, scale_factor=2))\n", 3, "does not take scale_factor"),
    (SCHEDULE + "fp16 = dict(loss_scale='static')\n", 3, "can only be 'dynamic'"),
    (
        SGD + "fp16 = dict(loss_scale=1.)\noptimizer_config = dict(type='GradientCumulativeOptimizerHook')\n",
        2,
        "two answers to one question",
    ),
    (SCHEDULE + "optimizer['lr'] = 1\n", 3, "optimizer is used again here"),
    ("a = dict(lr=1)\noptimizer = dict(**a)\noptimizer_config = dict()\n", 2, "is not written out here"),
    (SCHEDULE + "optim_wrapper = dict()\n", 2, "both optimizer_config and optim_wrapper are set"),
    (SGD + "scale = 2.\nfp16 = dict(loss_scale=scale)\n", 3, "gets its value too late"),
    ("optimizer = dict(type='SGD'); optimizer_config = dict()\n", 1, "shares its line"),
    ("_base_ = 'gone.py'\noptimizer = dict(_delete_=True, type='SGD')\n", 2, "gone.py cannot be read"),
    ("_base_ = 'gone.py'\noptimizer_config = dict(grad_clip=dict(_delete_=True))\n", 2, "gone.py cannot be read"),
    ("_base_ = 'gone.py'\nfp16 = None\n", 2, "asks for fp16 is not known"),
]


@pytest.mark.parametrize(("text", "row", "why"), REFUSED)
def test_what_is_refused(text: str, row: int, why: str) -> None:
    conversion = converted(text, "/nowhere/config.py")
    assert conversion.text == text
    assert [remark.row for remark in conversion.refused] == [row]
    assert why in conversion.refused[0].text


@pytest.mark.parametrize(
    "text",
    [
        "optimizer = torch.optim.SGD(model.parameters())\nfp16 = True\n",
        "fp16 = None\n",
        "optimizer = dict(type='SGD')\noptim_wrapper = dict(optimizer=optimizer)\n",
        "from colossalai.amp import AMP_TYPE\n\nfp16 = dict(mode=AMP_TYPE.NAIVE)\n",
        "_base_ = 'gone.py'\nmodel = dict(optimizer=1)\n",
        "def build(optimizer, optimizer_config):\n    fp16 = dict(loss_scale=512.)\n",
    ],
)
def test_there_is_nothing_to_do(text: str) -> None:
    conversion = converted(text)
    assert (conversion.text, conversion.done, conversion.refused) == (text, (), ())


BASES = {
    "schedule.py": SCHEDULE + "lr_config = dict(step=[8, 11])\n",
    "clipped.py": "optimizer = dict(type='Adam', lr=0.1, constructor='Own', paramwise_cfg=dict(bias_lr_mult=2.))\n"
    "optimizer_config = dict(\n    type='GradientCumulativeOptimizerHook', cumulative_iters=2,\n"
    "    grad_clip=dict(max_norm=1, norm_type=1))\n",
    "half.py": SCHEDULE + "fp16 = dict(loss_scale=dict(init_scale=8., growth_interval=10))\n",
    "hook.py": SGD + "optimizer_config = dict(type='Fp16OptimizerHook', grad_clip=dict(max_norm=2))\n",
    "runtime.py": "checkpoint_config = dict(interval=1)\n",
    "bare.py": "_base_ = 'clipped.py'\noptimizer = dict(_delete_=True, type='SGD')\n"
    "optimizer_config = dict(grad_clip=None)\n",
    "nested.py": "_base_ = ['clipped.py', 'runtime.py']\noptimizer = dict(lr=0.3)\n",
}
CHILDREN = [
    ("schedule.py", "fp16 = dict(loss_scale=512.)\n"),
    ("schedule.py", "optimizer = dict(_delete_=True, type='AdamW', lr=1, paramwise_cfg=dict(bias_lr_mult=0.))\n"),
    ("schedule.py", "optimizer = dict(lr=1, paramwise_cfg=dict(bias_lr_mult=0.))\n"),
    ("schedule.py", "optimizer_config = dict(_delete_=True, grad_clip=dict(max_norm=3))\n"),
    ("schedule.py", "optimizer_config = dict(grad_clip=dict(_delete_=True, max_norm=3))\n"),
    ("schedule.py", "optimizer_config = dict(type='Fp16OptimizerHook')\nfp16 = dict()\n"),
    ("schedule.py", "optimizer_config = dict(type='GradientCumulativeFp16OptimizerHook', cumulative_iters=8)\n"),
    ("clipped.py", "optimizer = dict(_delete_=True, type='SGD', lr=1)\n"),
    ("clipped.py", "optimizer = dict(_delete_=True, type='SGD', lr=1, paramwise_cfg=dict(norm_decay_mult=0.))\n"),
    ("clipped.py", "optimizer_config = dict(_delete_=True, grad_clip=dict(max_norm=3))\n"),
    ("clipped.py", "optimizer_config = dict(_delete_=True)\n"),
    ("clipped.py", "optimizer_config = dict(grad_clip=None, cumulative_iters=1)\n"),
    ("clipped.py", "optimizer_config = dict(grad_clip=dict(max_norm=3))\n"),
    ("half.py", "fp16 = dict(loss_scale=dict(init_scale=16.))\n"),
    ("half.py", "fp16 = dict(_delete_=True, loss_scale=dict(init_scale=16.))\n"),
    ("half.py", "fp16 = dict(loss_scale=2.)\n"),
    ("hook.py", "optimizer_config = dict(loss_scale=2., grad_clip=dict(norm_type=1))\n"),
    ("hook.py", "optimizer = dict(lr=5)\n"),
    ("hook.py", "optimizer_config = dict(_delete_=True, type='Fp16OptimizerHook', loss_scale=dict(init_scale=2.))\n"),
    ("bare.py", "optimizer_config = dict(_delete_=True, grad_clip=dict(max_norm=3))\n"),
    ("bare.py", "optimizer = dict(paramwise_cfg=dict(bias_lr_mult=3.))\n"),
    ("nested.py", "optimizer_config = dict(_delete_=True, type='Fp16OptimizerHook', loss_scale='dynamic')\n"),
]


@pytest.mark.parametrize("first", ["child", "base"])
@pytest.mark.parametrize(("base", "text"), CHILDREN)
def test_a_config_means_the_same_on_top_of_its_bases(tmp_path: Path, base: str, text: str, first: str) -> None:
    old = {**BASES, "child.py": f"_base_ = '{base}'\n{text}"}
    for name, content in old.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    new = {}
    for name in ["child.py", *BASES] if first == "child" else [*BASES, "child.py"]:
        conversion = converted(old[name], str(tmp_path / name))
        assert conversion.refused == ()
        new[name] = conversion.text
        (tmp_path / name).write_text(conversion.text, encoding="utf-8")
    assert "optim_wrapper" in new["child.py"]
    expected = wanted(load(old, "child.py"))
    assert expected is not None
    assert got(load(new, "child.py")) == expected


@pytest.mark.parametrize(
    ("bases", "text", "why"),
    [
        ("['schedule.py', 'half.py']", SGD, "several bases say something about the optimizer, half.py among them"),
        ("'half.py'", "fp16 = None\n", "its loss_scale would stay"),
        ("'half.py'", "optimizer_config = dict(type='OptimizerHook')\n", "a base asks for mixed precision"),
        ("'hook.py'", "optimizer_config = dict(_delete_=True)\n", "whether _delete_ takes back the mixed precision"),
        ("'half.py'", "fp16 = None\noptimizer_config = dict(type='Fp16OptimizerHook')\n", "the loss_scale of a base"),
        ("'broken.py'", SGD, "broken.py cannot be converted: what optimizer holds is not written out here"),
    ],
)
def test_what_its_bases_make_impossible(tmp_path: Path, bases: str, text: str, why: str) -> None:
    for name, content in {**BASES, "broken.py": "optimizer = make()\noptimizer_config = dict()\n"}.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    conversion = converted(f"_base_ = {bases}\n{text}", str(tmp_path / "child.py"))
    assert why in conversion.refused[0].text


def test_bases_that_lead_back_are_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "configs"
    folder.mkdir()
    text = "_base_ = ['../configs/one.py', 'one.py']\nfp16 = dict(loss_scale=2.)\n"
    (folder / "one.py").write_text(text, encoding="utf-8")
    assert "cannot be read" in converted(text, str(folder / "one.py")).left[0].text


def test_what_is_left_to_a_person() -> None:
    text = (
        "_base_ = 'gone.py'\noptimizer = dict(constructor='Own', lr=1)\nfp16 = dict(loss_scale=512)\nrunner = dict()\n"
    )
    conversion = converted(text, "/nowhere/config.py")
    assert "loss_scale=512.0" in conversion.text
    assert [remark.text.split(" ")[0] for remark in conversion.left] == ["loss_scale", "'Own'", "gone.py", "runner:"]


def test_half_is_float16_for_mmcv() -> None:
    conversion = convert(SCHEDULE, Wish(source="mmcv", dtype="bfloat16"))
    assert "computes in float16" in conversion.refused[0].text
    assert convert("a = 1\n", Wish(source="mmcv", dtype="bfloat16")).refused == ()
