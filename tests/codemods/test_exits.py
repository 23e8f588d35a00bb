"""Outputs of models that leave their regions in float32, and the regions that end with the forward pass then."""

from __future__ import annotations

import copy
import textwrap
from pathlib import Path

import pytest
import torch

from amplint.codemods import Wish, convert

ON = 'with torch.autocast(device_type="cuda", dtype=torch.bfloat16):'
PLAIN = """import torch
import torch.nn.functional as F
from losses import contrast


def train(model, batches, optimizer):
    model.cuda().train()
    for x, y in batches:
        optimizer.zero_grad()
        output = model(x)
        loss = F.cross_entropy(output, y)
        loss.backward()
        optimizer.step()
        print(output.argmax(1).eq(y).sum().item())
"""
OWN = """def losses(model, x, y):
    output = model(x)
    return contrast(output.abs(), y)


"""
ADVERSARIAL = """import torch
from torch import nn
from losses import penalty


def train(net_g, net_d, batches, optimizer_g, optimizer_d, alpha):
    net_d.cuda().train()
    for i, (real, noise) in enumerate(batches):
        output = net_d(real)
        loss_d = -output.mean()
        if i % 2:
            fake = net_g(noise)
        else:
            with torch.no_grad():
                fake = net_g(noise)
        output = net_d(fake.detach())
        loss_d = loss_d + output.mean() + penalty(net_d, real, fake)
        optimizer_d.zero_grad()
        loss_d.backward()
        optimizer_d.step()
        output = net_d(fake)
        if alpha:
            loss = nn.MSELoss()
            rec = net_g(noise)
            loss_r = alpha * loss(rec, real)
        else:
            loss_r = 0
        loss_g = -output.mean()
        optimizer_g.zero_grad()
        (loss_g + loss_r).backward()
        optimizer_g.step()
"""


def _converted(text: str, dtype: str = "bfloat16") -> str:
    found = convert(text, Wish(to="amp", dtype=dtype))
    assert not found.refused
    return found.text


def test_losses_of_pytorch_and_choices_take_half() -> None:
    text = _converted(PLAIN)
    assert f"        {ON}\n            output = model(x)\n            loss = F.cross_entropy(output, y)\n" in text


def test_other_code_gets_float32_outside_of_the_region() -> None:
    """A function of other code may hand what it gets to a kernel, multiply it, or make an array of it."""
    text = _converted(PLAIN.replace("F.cross_entropy(output, y)", "contrast(output * 2, y)"))
    assert f"        {ON}\n            output = model(x).float()\n        loss = contrast(output * 2, y)\n" in text


def test_one_other_use_is_enough() -> None:
    text = _converted(PLAIN.replace("print(output.argmax(1)", "print(contrast(output)"))
    assert f"        {ON}\n            output = model(x).float()\n        loss = F.cross_entropy(output, y)\n" in text


@pytest.mark.parametrize(
    ("row", "cast"),
    [
        ("print(contrast(output.topk(2)[0]))", True),
        ("scores, places = output.topk(2)\n        print(contrast(scores))", True),
        ("best = torch.max(output, 1)\n        print(contrast(best.values))", True),
        ("_, best = output.max(1)\n        print(contrast(best))", False),
        ("print(contrast(torch.topk(output, 2)[1]), contrast(output.max(1).indices))", False),
        ("print(output.max(1)[0].item())", False),
    ],
)
def test_chosen_values_are_half_and_their_indices_are_not(row: str, *, cast: bool) -> None:
    text = _converted(PLAIN.replace("print(output.argmax(1).eq(y).sum().item())", row))
    assert ("output = model(x).float()\n" in text) is cast


@pytest.mark.parametrize(
    ("params", "cast"), [("", True), ("output", False), ("first=output", True)], ids=["seen", "own", "default"]
)
def test_functions_within_read_the_output(params: str, *, cast: bool) -> None:
    inner = f"\n        def shown({params}):\n            return contrast(output)\n\n        print(shown)"
    text = _converted(PLAIN.replace("        print(output.argmax(1).eq(y).sum().item())", inner))
    assert ("output = model(x).float()\n" in text) is cast


def test_outputs_that_are_joined_for_another_model_stay_half() -> None:
    text = PLAIN.replace("output = model(x)", "first, second = model(x), model(y)\n        output = model(joined)")
    for joined in ("torch.cat([first, second])", "torch.stack((first, second), 1)"):
        assert f"first, second = model(x), model(y)\n            output = model({joined})\n" in _converted(
            text.replace("joined", joined)
        )


def test_each_output_of_a_row_is_judged_by_itself() -> None:
    text = PLAIN.replace("output = model(x)", "output, other = model(x), model(y)").replace(
        "F.cross_entropy(output, y)", "contrast(other.abs())"
    )
    assert "output, other = model(x), model(y).float()\n" in _converted(text)


def test_several_outputs_pass_through_a_function() -> None:
    """It looks into tuples, lists and dictionaries, and leaves whole numbers and others as they are."""
    two = PLAIN.replace("output = model(x)", "output, extra = model(x)")
    text = _converted(two.replace("F.cross_entropy(output, y)", "contrast(output, extra)"))
    assert f"        {ON}\n            output, extra = to_float32(model(x))\n" in text
    space: dict[str, object] = {"torch": torch}
    body = text[text.index("def to_float32") : text.index("def train")]
    exec(textwrap.dedent(body), space)
    cast = space["to_float32"]
    assert callable(cast)
    given = {"a": [torch.ones(1, dtype=torch.bfloat16), 1, None], "b": (torch.ones(1, dtype=torch.int64),)}
    found = cast(given)
    assert found["a"][0].dtype is torch.float32
    assert found["a"][1:] == [1, None]
    assert found["b"][0].dtype is torch.int64
    assert isinstance(found["b"], tuple)


def test_a_variable_of_two_outputs_is_judged_for_each() -> None:
    twice = "loss = contrast(output)\n        output = model(y)\n        loss = loss + contrast(output)"
    text = _converted(PLAIN.replace("loss = F.cross_entropy(output, y)", twice))
    assert text.count("model(x).float()") == text.count("model(y).float()") == 1


def test_a_region_stands_in_the_function_that_runs_the_model() -> None:
    """The function of the file that computes the loss holds the region, and its loss is none of it."""
    text = _converted(
        PLAIN.replace("output = model(x)\n        loss = F.cross_entropy(output, y)", "loss = losses(model, x, y)")
        .replace("        print(output.argmax(1).eq(y).sum().item())\n", "")
        .replace("def train", f"{OWN}def train")
    )
    assert f"    {ON}\n        output = model(x).float()\n    return contrast(output.abs(), y)\n" in text


@pytest.mark.parametrize(("indent", "newline"), [("\t", "\n"), ("    ", "\r\n"), ("\t", "\r\n")])
def test_tabs_and_line_ends_stay(indent: str, newline: str) -> None:
    text = PLAIN.replace("output = model(x)", "output, extra = model(x)").replace(
        "F.cross_entropy(output, y)", "contrast(extra)"
    )
    text = _converted(text.replace("    ", indent).replace("\n", newline))
    assert text.count("\n") == text.count(newline)
    assert f"{newline}{indent}if isinstance(value, torch.Tensor):{newline}{indent * 2}return value.float()" in text


def test_regions_do_not_stand_in_one_another() -> None:
    """A loss whose region has ended is no part of one, and gets float32."""
    text = _converted(ADVERSARIAL)
    assert text.count("net_d(real).float()") == text.count("net_d(fake.detach()).float()") == 1
    assert text.count("net_d(fake).float()") == text.count("rec = net_g(noise).float()") == 1
    assert text.count("fake = net_g(noise).float()") == 2
    assert text.count("torch.autocast(") == 6


def test_rounds_in_a_condition_end_for_themselves() -> None:
    """Behind the step above the condition the scaler is updated, and once behind those within it."""
    loss = "loss = contrast(model(x).abs(), y)\n{0}optimizer.zero_grad()\n{0}loss.backward()\n{0}optimizer.step()\n"
    rows = f"        {loss.format(' ' * 8)}        if y:\n            {loss.format(' ' * 12)}"
    rows = rows + "            " + loss.format(" " * 12).replace("optimizer", "other")
    text = PLAIN[: PLAIN.index("        optimizer.zero_grad")] + rows + "        print(loss)\n"
    text = _converted(text.replace("optimizer):", "optimizer, other):"), "float16")
    assert "        scaler.step(optimizer)\n        scaler.update()\n        if y:\n" in text
    assert "            scaler.step(other)\n            scaler.update()\n        print" in text
    assert text.count("scaler.update()") == 2


def test_tensors_in_objects_become_float32() -> None:
    """A distribution draws and judges in the dtype of its parameters."""
    imported = "from torch.distributions import Bernoulli, Independent, kl_divergence"
    text = _converted(
        PLAIN.replace("F.cross_entropy(output, y)", "contrast(output)")
        .replace("import torch\n", f"import torch\n{imported}\n", 1)
        .replace("output = model(x)", "output, extra = model(x)")
    )
    assert text.startswith("import copy\n")
    space: dict[str, object] = {"torch": torch, "copy": copy}
    exec(text[text.index("def to_float32") : text.index("def train")], space)
    cast = space["to_float32"]
    assert callable(cast)
    given = torch.distributions.Bernoulli(logits=torch.ones(2, 3, dtype=torch.bfloat16, requires_grad=True))
    found = cast({"a": torch.distributions.Independent(given, 1)})["a"]
    assert found.sample().dtype is found.log_prob(torch.ones(2, 3)).dtype is torch.float32
    assert found.log_prob(torch.ones(2, 3)).requires_grad
    assert given.logits.dtype is torch.bfloat16


def test_the_function_calls_pytorch_as_its_file_does() -> None:
    renamed = PLAIN.replace("output = model(x)", "output, extra = model(x)").replace(
        "F.cross_entropy(output, y)", "contrast(extra)"
    )
    text = _converted(
        renamed.replace("import torch\n", "import torch as th\n", 1)
        .replace("torch.nn", "th.nn")
        .replace("import th.nn.functional", "from torch.nn import functional")
    )
    assert "if isinstance(value, th.Tensor):" in text
    assert "in (th.float16, th.bfloat16)" in text


MODELS = """import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.offset = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        return {result}
"""


@pytest.mark.parametrize(
    ("result", "written"),
    [
        ("self.layer(x)", "model(x).float()"),
        ("self.layer(x) + self.offset", "model(x)"),
        ("F.softmax(self.layer(x), -1)", "model(x)"),
        ("F.relu(F.softmax(self.layer(x), -1))", "model(x)"),
    ],
)
def test_what_is_float32_already_is_not_cast(tmp_path: Path, result: str, written: str) -> None:
    (tmp_path / "models.py").write_text(MODELS.format(result=result), encoding="utf-8")
    text = PLAIN.replace("def train(model,", "def train(").replace("model.cuda()", "model = Net().cuda()\n    model")
    text = text.replace("from losses", "from models import Net\nfrom losses").replace("F.cross_entropy", "contrast")
    path = str(tmp_path / "train.py")
    found = convert(text, Wish(to="amp", dtype="bfloat16"), path)
    assert found.refused == ()
    assert f"output = {written}\n" in found.text
    assert convert(found.text, Wish(to="amp", dtype="bfloat16"), path).text == found.text


def test_a_loss_of_others_gets_a_variable_and_runs_behind_the_region() -> None:
    text = _converted(
        PLAIN.replace(
            "output = model(x)\n        loss = F.cross_entropy(output, y)", "loss = contrast(model(x), y)"
        ).replace("        print(output.argmax(1).eq(y).sum().item())\n", "")
    )
    assert f"        {ON}\n            output = to_float32(model(x))\n        loss = contrast(output, y)\n" in text


def test_binary_cross_entropy_behind_the_region_is_left_as_it_is() -> None:
    """The model is out of sight: what it rounds before a sigmoid is told."""
    text = PLAIN.replace("F.cross_entropy(output, y)", "F.binary_cross_entropy(output, y)")
    found = convert(text, Wish(to="amp", dtype="bfloat16"))
    assert "output = model(x).float()\n        loss = F.binary_cross_entropy(output, y)\n" in found.text
    assert ["exactly 1 in half" in one.text for one in found.left] == [True]


def test_evaluation_gives_float32_too() -> None:
    rows = "        output = model(x)\n        print(contrast(output))\n"
    text = _converted(f"{PLAIN}\n\ndef predict(model, batches):\n    model.eval()\n    for x in batches:\n{rows}")
    assert f"        {ON}\n            output = model(x).float()\n        print(contrast(output))\n" in text


def test_the_forward_pass_of_a_gradient_penalty_is_float32() -> None:
    penalty = """def penalty(model, x):
    x = x.requires_grad_()
    score = model(x)
    (slope,) = torch.autograd.grad(score.sum(), x, create_graph=True)
    return (slope.norm(2, dim=1) - 1).pow(2).mean()


"""
    text = PLAIN.replace("F.cross_entropy(output, y)", "contrast(output, y) + penalty(model, x)")
    text = _converted(text.replace("def train", f"{penalty}def train"))
    assert "    score = model(x)\n" in text
    assert "penalty(model, x).float()" not in text


def test_an_output_for_another_model_stays_half_where_its_variable_is_bound_again() -> None:
    model = (
        "        output = encoder(x)\n        output = torch.transpose(output, 0, 1)\n        output = model(output)\n"
    )
    text = PLAIN.replace("        output = model(x)\n", model).replace("F.cross_entropy", "contrast")
    converted = _converted(text.replace("def train(", "def train(encoder, ").replace("model.cuda()", "encoder.cuda()"))
    rows = ["output = encoder(x)", "output = torch.transpose(output, 0, 1)", "output = model(output).float()"]
    assert "".join(f"            {row}\n" for row in rows) in converted


def test_an_output_that_is_read_before_a_break_becomes_float32() -> None:
    rows = "        output = model(x)\n        if not len(y):\n            break\n        output = model(output)\n"
    text = PLAIN.replace("        output = model(x)\n", rows).replace("F.cross_entropy", "contrast")
    assert "output = model(x).float()\n" in _converted(f"{text}    print(output.exp())\n")


def test_a_call_of_several_rows_is_indented_and_cast() -> None:
    call = "        output = model(\n            x,\n        )\n"
    converted = _converted(PLAIN.replace("        output = model(x)\n", call).replace("F.cross_entropy", "contrast"))
    assert f"        {ON}\n            output = model(\n                x,\n            ).float()\n" in converted


def test_losses_that_a_model_computes_need_no_cast() -> None:
    """Autocast computes the losses of PyTorch in float32, also within a model."""
    text = PLAIN.replace("output = model(x)", "losses = model(x, y)").replace(
        "F.cross_entropy(output, y)", "sum(losses.values())"
    )
    converted = _converted(text.replace("output.argmax(1).eq(y).sum()", "loss"))
    assert f"        {ON}\n            losses = model(x, y)\n" in converted


EVALUATED = (
    PLAIN.replace("output = model(x)", "output, value = model(x)").replace("contrast", "distance")
    + """

def evaluate(model, x):
    with torch.no_grad():
        output, _ = model(x)
    return distance(output)
"""
)


def test_outputs_are_tensors_where_another_call_of_the_model_shows_it() -> None:
    text = EVALUATED.replace("F.cross_entropy(output, y)", "distance(output + 1, value * 2)")
    assert "output, _ = (output_.float() for output_ in model(x))\n" in _converted(text)


CHOSEN = """import torch
from torch import nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x):
        return self.layers(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = self.block(x)
        parts = torch.chunk(x, 2)
        if self.training:
            x = x + torch.cat(parts)
        x = self.head(x)
        pair = (x, x)
        if len(x) > 1:
            pair = x + 1
        return RESULT

    def features(self, x):
        return [self.block(x)]
"""


def test_pieces_of_one_tensor_are_cast_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(CHOSEN.replace("RESULT", "torch.chunk(x, 2, 1)"), encoding="utf-8")
    head, _, loop = PLAIN.partition("    model.cuda().train()\n")
    text = f"from net import Net\n{head}    model = Net().cuda()\n{loop}".replace(
        "output = model", "output, rest = model"
    )
    text = text.replace("F.cross_entropy(output, y)", "contrast(output, rest)")
    found = convert(text, Wish(to="amp", dtype="bfloat16"), str(tmp_path / "train.py"))
    assert "output, rest = (output_.float() for output_ in model(x))\n" in found.text


@pytest.mark.parametrize(
    ("result", "single"),
    [
        ("x", True),
        ("F.relu(x).view(-1)", True),
        ("-x if self.training else x * 2", True),
        ("(x, x)", False),
        ("{'out': x}", False),
        ("pair", False),
        ("self.unknown(x)", False),
        ("x.topk(2)", False),
    ],
)
def test_a_model_returns_one_tensor_by_what_it_computes(tmp_path: Path, result: str, single: bool) -> None:
    (tmp_path / "net.py").write_text(CHOSEN.replace("RESULT", result), encoding="utf-8")
    text = PLAIN.replace("F.cross_entropy", "contrast").replace(
        "        print(output.argmax(1).eq(y).sum().item())\n", ""
    )
    main = text.replace("model, batches, optimizer", "batches, optimizer").replace(
        "    model.cuda()", "    model = Net().cuda()\n    model"
    )
    path = tmp_path / "train.py"
    path.write_text("from net import Net\n" + main, encoding="utf-8")
    found = convert(path.read_text(encoding="utf-8"), Wish(to="amp", dtype="bfloat16"), str(path))
    assert found.refused == ()
    assert ("to_float32" in found.text) is not single


def test_another_method_of_a_model_gives_what_its_forward_pass_does_not_tell(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(CHOSEN.replace("RESULT", "x"), encoding="utf-8")
    head, _, loop = PLAIN.partition("    model.cuda().train()\n")
    text = f"from net import Net\n{head}    model = Net().cuda()\n    model.train()\n{loop}"
    text = text.replace("model(x)", "model.features(x)")
    text = text.replace("F.cross_entropy", "contrast").replace("output.argmax(1).eq(y).sum()", "loss")
    found = convert(text, Wish(to="amp", dtype="bfloat16"), str(tmp_path / "train.py"))
    assert "output = to_float32(model.features(x))\n" in found.text
