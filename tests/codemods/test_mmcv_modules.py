"""`--from mmcv` on modules: converted methods compute what the decorated ones did, in the same dtypes."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
import torch

from amplint.codemods import Conversion, Wish, convert
from tests.codemods import mmcv_runner

HEAD = "import torch\nfrom torch import nn\nfrom mmcv.runner import BaseModule, auto_fp16, force_fp32\n\n\n"
INIT = """class Model(BaseModule):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 4)
        self.fp16_enabled = False

    @auto_fp16(apply_to=('x', ))
    def forward(self, x, target):
        hidden = self.first(x).relu()
        return self.finish(hidden, target)

"""
MODULES = {
    "a tensor": INIT
    + '''    @force_fp32(apply_to=('hidden', ))
    def finish(self, hidden, target):
        """The loss."""
        score = self.second(hidden)
        return nn.functional.cross_entropy(score, target), score
''',
    "levels in a list": INIT
    + """    def finish(self, hidden, target):
        return self.loss([hidden, (hidden * 2, None)], target)

    @force_fp32(apply_to=('levels'))
    def loss(self, levels, target, *, weight=None):
        # two of them
        first, (second, nothing) = levels
        return first @ second.T, first.new_zeros(2), nothing
""",
    "a dict": INIT
    + """    def finish(self, hidden, target):
        return self.loss(target, preds={'boxes': hidden, 'found': hidden > 0, 'name': 'x'})

    @force_fp32(apply_to=('preds', ))
    def loss(self, target, preds):
        return {name: self.second(each) for name, each in preds.items() if name == 'boxes'}, preds['found']
""",
    "all arguments, with integers": INIT
    + """    def finish(self, hidden, target):
        return self.loss(hidden, target)

    @force_fp32()
    def loss(self, hidden, target, scaled=False, factor=2):
        return self.second(hidden)[target] * (factor if scaled else 1), target
""",
    "a result in float32": INIT
    + """    def finish(self, hidden, target):
        return self.neck([hidden])

    @auto_fp16(apply_to=('inputs', ), out_fp32=True)
    def neck(self, inputs):
        if len(inputs) > 1:
            return
        return self.second(inputs[0]), [hidden for hidden in inputs]
""",
    "a method that calls itself": INIT
    + """    def finish(self, hidden, target):
        return self.count(hidden, 2), self.second(hidden)

    @force_fp32(apply_to=('hidden', ))
    def count(self, hidden, times):
        if times:
            return self.count(self.first(hidden), times - 1)
        return hidden
""",
    "an abstract method": INIT
    + """    def finish(self, hidden, target):
        return hidden

    @force_fp32(apply_to=('hidden', ))
    def loss(self, hidden):
        '''Below.'''
        raise NotImplementedError
""",
}


def converted(text: str) -> Conversion:
    return convert(text, Wish(source="mmcv", device="cpu"))


def made(text: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The model that `text` defines, always with the same parameters."""
    package = types.ModuleType("mmcv")
    monkeypatch.setitem(sys.modules, "mmcv", package)
    monkeypatch.setitem(sys.modules, "mmcv.runner", mmcv_runner)
    scope: dict[str, Any] = {}
    exec(compile(text, "module", "exec"), scope)
    torch.manual_seed(0)
    return scope["Model"]()


def flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [each for inner in value.values() for each in flat(inner)]
    if isinstance(value, (list, tuple)):
        return [each for inner in value for each in flat(inner)]
    return [value]


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("name", MODULES)
def test_the_result_is_the_same(name: str, mixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    old = HEAD + MODULES[name]
    conversion = converted(old)
    assert conversion.refused == ()
    assert "fp16" not in conversion.text
    assert "force_fp32" not in conversion.text
    assert converted(conversion.text).done == ()
    before, after = made(old, monkeypatch), made(conversion.text, monkeypatch)
    x, target = torch.randn(3, 8), torch.tensor([0, 1, 2])
    if mixed:
        mmcv_runner.wrap_fp16_model(before)
    expected = flat(before(x, target))
    with torch.autocast("cpu", dtype=torch.float16, enabled=mixed):
        results = flat(after(x, target))
        assert torch.is_autocast_enabled("cpu") is mixed
    assert len(results) == len(expected)
    for got, want in zip(results, expected, strict=True):
        if isinstance(want, torch.Tensor):
            assert got.dtype == want.dtype
            assert torch.equal(got, want)
        else:
            assert got == want


def test_what_is_written() -> None:
    old = HEAD + MODULES["levels in a list"]
    text = convert(old, Wish(source="mmcv")).text
    assert "from mmcv.runner import BaseModule\n" in text
    assert text.count("def to_float32(value):") == 1
    assert (
        '    @torch.autocast("cuda", enabled=False)\n'
        "    def loss(self, levels, target, *, weight=None):\n"
        "        levels = to_float32(levels)\n"
        "        # two of them\n"
        "        first, (second, nothing) = levels\n"
    ) in text


def test_flags_are_left_alone() -> None:
    text = convert(HEAD + MODULES["all arguments, with integers"], Wish(source="mmcv")).text
    assert "        hidden, target = to_float32((hidden, target))\n        return" in text


def test_only_what_is_needed_is_written() -> None:
    old = HEAD + "class Stem(BaseModule):\n    @auto_fp16()\n    def forward(self, x):\n        return x.relu()\n"
    conversion = converted(old)
    assert conversion.text == old.replace(", auto_fp16, force_fp32", "").replace("    @auto_fp16()\n", "")
    assert ["autocast is entered" in remark.text for remark in conversion.left] == [True]


@pytest.mark.parametrize(
    ("line", "name"), [("import mmcv", "mmcv.runner.auto_fp16"), ("from mmcv import runner", "runner.auto_fp16")]
)
def test_modules_are_known_by_any_name(line: str, name: str) -> None:
    stem = "\n\n\nclass Stem:\n    @{}()\n    def forward(self, x):\n        return x.relu()\n"
    conversion = converted(line + stem.format(name))
    assert conversion.text.lstrip("\n") == "class Stem:\n    def forward(self, x):\n        return x.relu()\n"


def test_imports_from_one_place_or_another_go() -> None:
    stem = "class Stem:\n    @auto_fp16()\n    def forward(self, x):\n        return x.relu()\n"
    imports = (
        "import warnings\n\nimport torch\n\ntry:\n    from mmcv.runner import auto_fp16\n"
        "except ImportError:\n    warnings.warn('old')\n    from mmpose.core import auto_fp16\n\n\n"
    )
    conversion = converted(imports + stem)
    assert conversion.text.split() == ("import torch\n" + stem.replace("    @auto_fp16()\n", "")).split()


METHOD = "class Model(BaseModule):\n    {}\n    def forward(self, x, **kwargs):\n        return self.first(x)\n"
REFUSED = [
    (METHOD.format("@force_fp32(apply_to=NAMES)"), 7, "applies to is not written out"),
    (METHOD.format("@force_fp32(apply_to=('x', 'img'))"), 7, "img comes with **kwargs"),
    (METHOD.format("@auto_fp16(out_fp32=FLAG)"), 7, "is called with is not written out"),
    ("forced = force_fp32()(print)\n", 6, "force_fp32 decorates no method here"),
    (
        METHOD.format("@auto_fp16()\n    def first(self, x):\n        return x\n\n    @force_fp32(apply_to='x')"),
        12,
        "this keeps first float32, which auto_fp16 makes half again",
    ),
    ("if model.fp16_enabled:\n    print(1)\n", 6, "fp16_enabled is used here"),
    ("model.fp16_enabled = True\n", 6, "fp16_enabled is used here"),
    ("from mmcv.runner import wrap_fp16_model\nwrap_fp16_model(model)\n", 7, "round the calls of the model"),
    ("from mmcv.runner import Fp16OptimizerHook as Hook\nhook = Hook(**cfg)\n", 7, "takes an optim_wrapper"),
    ("from mmdet.core import build_optimizer\nbuild_optimizer(model, cfg)\n", 7, "build_optim_wrapper"),
]


@pytest.mark.parametrize(("text", "row", "why"), REFUSED)
def test_what_is_refused(text: str, row: int, why: str) -> None:
    conversion = converted(HEAD + text)
    assert conversion.text == HEAD + text
    assert why in conversion.refused[0].text
    assert conversion.refused[0].row == row


@pytest.mark.parametrize(
    "text",
    [
        "def auto_fp16():\n    pass\n\n\n@auto_fp16()\ndef run():\n    pass\n",
        "from apex.fp16_utils import force_fp32\nforce_fp32()\n",
        "def build_optimizer(model):\n    return model\n\n\nbuild_optimizer(1)\n",
        "print('wrap_fp16_model, auto_fp16 and fp16_enabled')\n",
    ],
)
def test_there_is_nothing_to_do(text: str) -> None:
    conversion = converted(text)
    assert (conversion.text, conversion.done, conversion.refused) == (text, (), ())


def test_what_is_left_to_a_person() -> None:
    method = "    @{}\n    def forward(self, x):\n        out = x.new_zeros(3)\n        return self.net(x, out)\n"
    auto = converted(HEAD + "class A(BaseModule):\n" + method.format("auto_fp16()"))
    assert [remark.row for remark in auto.left] == [7, 8]
    assert "x was made half by auto_fp16" in auto.left[1].text
    force = converted(HEAD + "class A(BaseModule):\n" + method.format("force_fp32(out_fp16=True)"))
    assert "it stays float32 now" in force.left[0].text
    assert "all that this calls" in force.left[1].text
