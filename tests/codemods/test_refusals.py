"""What `--to amp` does not convert: the file stays as it is, and the reason names the line."""

from __future__ import annotations

import pytest

from amplint.codemods import Remark, Wish, convert
from tests.codemods.running import LOOP

CLOSURE = """import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.LBFGS(model.parameters())


def closure():
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).mean()
    loss.backward()
    return loss


optimizer.step(closure)
"""
LIBRARY = """def train_batch(model, optimizer, criterion, x, y):
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
ATTACK = """import torch


def attack(model, optimizer, images, labels):
    images.requires_grad = True
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    model.zero_grad()
    loss.backward()
    optimizer.step()
    return images + 0.1 * images.grad.sign()
"""


@pytest.mark.parametrize(
    ("text", "row", "why"),
    [
        (CLOSURE, 15, "the optimizer runs a closure, which a gradient scaler cannot step"),
        (LIBRARY, 4, "train_batch() gets its optimizer from code out of sight, which would have to pass a scaler"),
        (ATTACK, 10, "the gradient of something that is not known to be a parameter is read"),
        ("import accelerate\n" + LOOP, 1, "accelerate scales losses by itself"),
        ("from torch.distributed.fsdp import fully_shard\n" + LOOP, 1, "torch.distributed.fsdp shards parameters"),
        (LOOP.replace("optimizer.step()", "pass"), 9, "no step of an optimizer was found that uses these gradients"),
        (
            LOOP.replace("    loss = model(x).mean()\n    loss", "    loss = model(x).mean(); loss"),
            8,
            "the statement shares its line with others",
        ),
        (LOOP.replace("optimizer = ", "optimizer = scaler = grad_scaler = amp_scaler = "), 1, "are taken"),
        (LOOP.replace("loss.backward()", "torch.autograd.backward(loss)"), 9, "torch.autograd.backward()"),
        (LOOP.replace("model(x).mean()", "x.mean()"), 9, "no forward pass of a model was found"),
        (LOOP.replace("\n\n", "\n\ntorch.set_default_dtype(torch.float64)\n", 1), 4, "computes in double precision"),
        (
            LOOP.replace("\n\n", "\n\nkind = torch.float64\ntorch.set_default_dtype(kind)\n", 1),
            5,
            "computes in double precision",
        ),
        (LOOP.replace("\n\n", "\n\ntorch.set_default_tensor_type('torch.DoubleTensor')\n", 1), 4, "double precision"),
        (LOOP.replace("nn.Linear(4, 1)", "nn.Linear(4, 1).double()"), 4, "computes in double precision"),
        (LOOP.replace("model(x)", "model(x.to_sparse())"), 8, "a sparse tensor"),
        (LOOP.replace("step()", "step("), 10, "syntax error"),
    ],
    ids=[
        "closure",
        "library",
        "attack",
        "framework",
        "sharded",
        "no step",
        "one line",
        "names",
        "autograd",
        "no model",
        "double",
        "double by name",
        "double tensors",
        "double model",
        "sparse",
        "syntax",
    ],
)
def test_refused(text: str, row: int, why: str) -> None:
    conversion = convert(text, Wish(to="amp"))
    assert (conversion.text, conversion.done, conversion.left) == (text, (), ())
    assert [remark.row for remark in conversion.refused] == [row]
    assert why in conversion.refused[0].text


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nprint(torch.ones(1))\n",
        "",
        convert(LOOP, Wish(to="amp")).text,
        convert(LOOP, Wish(to="amp", dtype="bfloat16")).text,
    ],
    ids=["no training", "empty", "float16", "bfloat16"],
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_nothing_to_do(text: str, dtype: str) -> None:
    conversion = convert(text, Wish(to="amp", dtype=dtype))
    assert (conversion.text, conversion.done, conversion.refused) == (text, (), ())


def test_the_device_can_be_asked_for() -> None:
    where = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\nmodel'
    text = LOOP.replace("\nmodel", "\n" + where, 1)
    conversion = convert(text, Wish(to="amp", device="auto"))
    assert conversion.refused == ()
    assert "scaler = torch.amp.GradScaler(device.type)\n" in conversion.text
    assert "    with torch.autocast(device_type=device.type, dtype=torch.float16):\n" in conversion.text
    refused = convert(LOOP, Wish(to="amp", device="auto"))
    assert refused.refused == (
        Remark(5, "no torch.device that is known here tells the device; say which with --device"),
    )


PARSED = LOOP.replace(
    "\nmodel",
    "\nimport argparse\n\nparser = argparse.ArgumentParser()\nargs = parser.parse_args()\nmodel",
    1,
)


@pytest.mark.parametrize(
    ("text", "row", "why"),
    [
        (LOOP, 1, "an argparse parser, or a command of click or typer"),
        (PARSED + "more = parser.parse_args()\n", 15, "exactly one call of parse_args()"),
        (PARSED.replace("args = ", ""), 7, "need names for a new option"),
        (PARSED.replace("args =", "parser.add_argument('--amp')\nargs ="), 1, "has an option --amp"),
        (
            PARSED.replace("parser = argparse.ArgumentParser()\nargs = parser.", "args = argparse.ArgumentParser()."),
            6,
            "need names for a new option",
        ),
    ],
    ids=["no parser", "two", "unbound", "taken", "nameless"],
)
def test_no_place_for_a_flag(text: str, row: int, why: str) -> None:
    conversion = convert(text, Wish(to="amp", add_flag=True))
    assert conversion.text == text
    assert [remark.row for remark in conversion.refused] == [row]
    assert why in conversion.refused[0].text


def test_all_reasons_are_told() -> None:
    text = LOOP.replace("model(x)", "model(x.to_sparse())").replace(
        "    loss.backward()\n", "    loss.backward(); x = 1\n"
    )
    text += "    torch.autograd.backward(loss)\n"
    rows = [(remark.row, remark.text.partition(";")[0]) for remark in convert(text, Wish(to="amp")).refused]
    assert rows == [
        (8, "a sparse tensor"),
        (9, "the statement shares its line with others"),
        (11, "torch.autograd.backward()"),
    ]


def test_all_places_of_the_scaler_that_are_in_doubt_are_told() -> None:
    text = LIBRARY + LIBRARY.replace("train_batch", "train_another")
    assert [remark.row for remark in convert(text, Wish(to="amp")).refused] == [4, 8]


KEYED = LOOP.replace("optimizer.step()", 'optimizer.step("decoder")')


def test_a_key_is_no_closure() -> None:
    refused = convert(KEYED, Wish(to="amp")).refused
    assert refused == (Remark(10, "the optimizer is stepped with a key, as no optimizer of PyTorch is"),)
    conversion = convert(KEYED, Wish(to="amp", dtype="bfloat16"))
    assert conversion.refused == ()
    assert "dtype=torch.bfloat16):\n        loss = model(x).float().mean()\n" in conversion.text


@pytest.mark.parametrize("given", ["None", "closure=None"])
def test_none_is_no_closure(given: str) -> None:
    conversion = convert(KEYED.replace('step("decoder")', f"step({given})"), Wish(to="amp"))
    assert conversion.refused == ()
    assert "scaler.step(optimizer)\n" in conversion.text


def test_a_closure_is_refused_in_bfloat16_too() -> None:
    refused = convert(CLOSURE, Wish(to="amp", dtype="bfloat16")).refused
    assert refused == (Remark(15, "the optimizer runs a closure, which makes and uses gradients in one call"),)


REPEATED = """import torch
from torch import nn

model = nn.Linear(4, 1)
optimizers = [torch.optim.SGD(model.parameters(), lr=0.1)]
optimizer = optimizers[0]
for x in [torch.ones(2, 4)]:
    model.zero_grad()
    loss = model(x).mean()
    loss.backward()
    {steps}
"""


@pytest.mark.parametrize(
    ("steps", "repeated"),
    [
        ("for _ in range(3):\n        optimizer.step()", True),
        ("for optimizer in optimizers:\n        optimizer.step()", False),
        ("for index in range(1):\n        optimizers[index].step()", False),
        ("optimizer.step()", False),
    ],
)
def test_steps_that_repeat_on_the_same_gradients(steps: str, repeated: bool) -> None:
    """Each update of the scaler between them would let the next step unscale them again."""
    text = REPEATED.format(steps=steps)
    told = [remark.text for remark in convert(text, Wish(to="amp", device="cpu")).refused]
    assert any("same gradients" in one for one in told) is repeated
    assert convert(text, Wish(to="amp", device="cpu", dtype="bfloat16")).refused == ()
