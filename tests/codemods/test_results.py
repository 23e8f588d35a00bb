"""Outputs of models in other files, which leave their regions by the casts that their forward passes ask for."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from amplint.codemods import Wish, convert

CHOSEN = """import torch
import models
from losses import contrast
from options import options


def train(batches):
    model = getattr(models, options.model)(4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches:
        optimizer.zero_grad()
        output = model(x)
        loss = contrast(output, y)
        loss.backward()
        optimizer.step()
"""
BY_TABLE = CHOSEN.replace("getattr(models, options.model)(4)", "models.MODELS[options.model](4)")
MODEL = """from torch import nn


class {name}(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, x):
{body}


MODELS = {{"net": {name}}}
"""
LOSSES = "def contrast(output, y):\n    return kernel(output, y)\n"


def _converted(folder: Path, script: str, body: str, name: str = "Net") -> str:
    code = MODEL.format(name=name, body=textwrap.indent(body, " " * 8))
    (folder / "models.py").write_text(code, encoding="utf-8")
    (folder / "losses.py").write_text(LOSSES, encoding="utf-8")
    path = folder / "train.py"
    path.write_text(script, encoding="utf-8")
    found = convert(script, Wish(to="amp"), str(path))
    assert not found.refused
    return found.text


@pytest.mark.parametrize("script", [CHOSEN, BY_TABLE])
@pytest.mark.parametrize(
    ("body", "cast"),
    [
        ("return self.second(self.first(x).relu())", "model(x).float()"),
        ("return self.second(self.first(x)).softmax(1)", "model(x)"),
        ("return self.first(x), self.second(x)", "tuple(output_.float() for output_ in model(x))"),
        ("return {'logits': self.first(x)}", "to_float32(model(x))"),
    ],
)
def test_models_that_a_setting_chooses_are_interpreted(tmp_path: Path, script: str, body: str, cast: str) -> None:
    assert f"            output = {cast}\n        loss = contrast(" in _converted(tmp_path, script, body)


@pytest.mark.parametrize(
    ("body", "cast"),
    [
        ("return self.first(x), self.second(x)", "(output.float() for output in model(x))"),
        ("return self.first(x).softmax(1), self.second(x).log_softmax(1)", "model(x)"),
        ("return self.first(x), self.second(x) if x.sum() > 0 else None", "to_float32(model(x))"),
        ("far = None\nif x.sum() > 0:\n    far = self.second(x)\nreturn self.first(x), far", "to_float32(model(x))"),
        ("return self.first(x), self.second(x).argmax(1)", "to_float32(model(x))"),
        ("return self.first(x), [self.first(x), self.second(x)]", "to_float32(model(x))"),
    ],
)
def test_tuples_that_are_unpacked_are_cast_by_element(tmp_path: Path, body: str, cast: str) -> None:
    script = CHOSEN.replace("output = model(x)", "near, far = model(x)").replace("(output, y)", "(near, far)")
    assert f"            near, far = {cast}\n        loss = contrast(" in _converted(tmp_path, script, body)


def test_an_element_that_is_taken_is_cast_alone(tmp_path: Path) -> None:
    script = CHOSEN.replace("output = model(x)", "output = model(x)[1]")
    text = _converted(tmp_path, script, "return [self.first(x)], self.second(x)")
    assert "            output = model(x)[1].float()\n" in text
    text = _converted(tmp_path, script, "return self.first(x), [self.second(x)]")
    assert "            output = to_float32(model(x))[1]\n" in text


def test_what_a_function_compares_with_none_may_be_none(tmp_path: Path) -> None:
    script = CHOSEN.replace("output = model(x)", "near, far = model(x)")
    script = script.replace("contrast(output, y)", "contrast(near, y) + (0 if far is None else contrast(far, y))")
    text = _converted(tmp_path, script, "return self.first(x), self.second(x)")
    assert "            near, far = to_float32(model(x))\n" in text


@pytest.mark.parametrize(
    "change",
    [
        "outs.append(self.second(x))",
        "outs.extend([self.second(x)])",
        "outs.insert(0, self.second(x))",
        "outs[0] = self.second(x)",
        "outs = {'a': outs[0]}\nouts.update(b=self.second(x))",
        "outs = {'a': outs[0]}\nouts['b'] = self.second(x)",
        "outs = {}\nfor name in ('a', 'b'):\n    outs[name] = self.second(x)",
    ],
)
def test_containers_that_are_changed_may_hold_half(tmp_path: Path, change: str) -> None:
    body = f"outs = [self.first(x).softmax(1)]\n{change}\nreturn outs"
    assert "            output = to_float32(model(x))\n" in _converted(tmp_path, CHOSEN, body)


def test_a_class_that_takes_other_arguments_is_not_run(tmp_path: Path) -> None:
    other = "\n\nclass Pair(Net):\n    def forward(self, x, y):\n        return self.first(x), self.second(y)\n"
    body = "return self.second(self.first(x))"
    (tmp_path / "pairs.py").write_text(MODEL.format(name="Net", body=" " * 8 + body) + other, encoding="utf-8")
    script = CHOSEN.replace("import models", "import models\nimport pairs")
    assert "            output = model(x).float()\n" in _converted(tmp_path, script, body)


def test_losses_by_name_stay_as_they_are(tmp_path: Path) -> None:
    script = CHOSEN.replace("output = model(x)", "loss_dict = model(x, y)").replace("(output, y)", "(loss_dict)")
    script = script.replace("import models\n", "from elsewhere import models\n")
    assert "            loss_dict = model(x, y)\n" in _converted(tmp_path, script, "return self.first(x)")


def test_a_search_gives_tokens(tmp_path: Path) -> None:
    evaluation = """
    model.eval()
    with torch.no_grad():
        for x, y in batches:
            tokens = model.beam_search(x)
            others = model.decode(x, num_beams=3)
            scores = model.decode(x)
            print(contrast(tokens, others, scores))
"""
    text = _converted(tmp_path, CHOSEN + evaluation, "return self.second(self.first(x))")
    assert "tokens = model.beam_search(x)\n" in text
    assert "others = model.decode(x, num_beams=3)\n" in text
    assert "scores = to_float32(model.decode(x))\n" in text
