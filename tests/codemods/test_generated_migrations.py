"""Loops that use apex, made at random: conversions never crash, always parse, and change nothing the second time."""

from __future__ import annotations

import ast

from hypothesis import given, settings
from hypothesis import strategies as st

from amplint.codemods import Conversion, Wish, convert
from tests.codemods import test_generated_loops as plain

IMPORTS = (
    "from apex import amp",
    "import apex; amp = apex.amp",
    "try:\n    from apex import amp\nexcept ImportError:\n    raise ImportError('no apex') from None",
    "try:\n    from apex import amp\n    has = True\nexcept ImportError:\n    has = False",
)
SETUPS = (
    'net, optimizer = amp.initialize(net, optimizer, opt_level="O1")',
    "[net, critic], [optimizer, other] = amp.initialize([net, critic], [optimizer, other], num_losses=2)",
    "if flag:\n    net, optimizer = amp.initialize(net, optimizer, opt_level=level, loss_scale=128.0)",
    "if has and flag:\n    net, optimizer = amp.initialize(net, optimizer)",
    'amp.initialize(net, optimizer, opt_level="O0")',
    "model, optimizer = amp.initialize(models=net, optimizers=optimizer, enabled=flag)",
    "",
)
SCALED = "with amp.scale_loss(loss, optimizer) as scaled_loss:\n    scaled_loss.backward()"
SIMPLE = (
    SCALED,
    SCALED,
    "if flag:\n    with amp.scale_loss(loss, optimizer) as s:\n        s.backward()\nelse:\n    loss.backward()",
    "with amp.scale_loss(loss, [optimizer, other], delay_unscale=i % every != 0) as loss: loss.backward()",
    "torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)  # é",
    "state = {'optimizer': optimizer.state_dict(), 'amp': amp.state_dict()}",
    "optimizer.step()",
    "optimizer.step(); scheduler.step()",
    "amp.load_state_dict(state['amp'])",
    "total += scaled_loss.item()",
)
TYPICAL = ("out = net(x)", "loss = criterion(out, y)", "optimizer.zero_grad()", SCALED, "optimizer.step()")


@st.composite
def loops(draw: st.DrawFn) -> str:
    """A script with one training loop: typical statements in their order, with others strewn in."""
    body = list(TYPICAL)
    for statement in draw(st.lists(st.sampled_from((*SIMPLE, *plain.SIMPLE)), max_size=4)):
        body.insert(draw(st.integers(0, len(body))), statement)
    lines = [draw(st.sampled_from(plain.LOOPS)).split("\n")[0], *plain._indented(body)]
    setup = [draw(st.sampled_from(SETUPS))]
    shape = draw(st.sampled_from(["script", "function", "handed on", "method"]))
    if shape == "function":
        lines = [
            "def train():",
            *plain._indented(["global net, optimizer, critic, other, total", *setup, *lines]),
            "train()",
        ]
    elif shape == "handed on":
        lines = ["def train(optimizer, net, total=0.0):", *plain._indented(lines), *setup, "train(optimizer, net)"]
    elif shape == "method":
        lines = ["class Trainer:", *plain._indented(["def train(self):", *plain._indented(lines)]), *setup]
    else:
        lines = [*setup, *lines]
    head = plain.HEAD + draw(st.sampled_from(IMPORTS)) + "\nlevel, state = 'O1', {}\n"
    text = head + "\n".join(lines) + "\n"
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def checked(text: str, wish: Wish) -> Conversion:
    """The conversion of `text`, which keeps what is promised of every conversion."""
    conversion = convert(text, wish)
    assert not any("please report" in remark.text for remark in conversion.refused), conversion.refused
    ast.parse(conversion.text)
    if conversion.refused:
        assert conversion.text == text
        return conversion
    again = convert(conversion.text, wish)
    assert (again.text, again.done, again.refused) == (conversion.text, (), ())
    return conversion


def test_migrations_are_whole() -> None:
    converted = refused = narrowed = 0

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(loops())
    def check(text: str) -> None:
        nonlocal converted, refused, narrowed
        try:
            ast.parse(text)
        except SyntaxError:
            return
        first = checked(text, Wish(source="apex"))
        refused += bool(first.refused)
        if first.refused or first.text == text:
            return
        assert "scale_loss" not in first.text
        converted += 1
        second = checked(first.text, Wish(source="float16"))
        narrowed += second.text != first.text

    check()
    assert converted > 9
    assert refused > 9
    assert narrowed > 5
