"""Outputs of models that leave their regions in float32, and the regions that end with the forward pass then."""

from __future__ import annotations

import textwrap

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


def _converted(text: str) -> str:
    found = convert(text, Wish(to="amp", dtype="bfloat16"))
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
