"""Training loops made at random: a conversion never crashes, always parses, and changes nothing the second time."""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint.codemods import Wish, convert

HEAD = """import torch
from torch import nn

net = nn.Linear(4, 4)
critic = nn.Linear(4, 1)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
other = torch.optim.Adam(critic.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
device = torch.device("cpu")
losses, total = [], 0.0
flag, every = True, 2
i = 0
count = 9
batches = [(torch.ones(2, 4), torch.ones(2, 4))]
"""
SIMPLE = (
    "out = net(x)",
    "out = critic(net(x.to(device)))",
    "loss = criterion(out, y)",
    "loss = criterion(net(x), y)  # é",
    "loss = loss / every",
    "loss += 0.1 * out.pow(2).mean()",
    "total += loss.item()",
    "losses.append(loss)",
    "loss.backward()",
    "loss.backward(retain_graph=True)",
    "criterion(net(x), y).backward()",
    "(loss + out.mean()).backward()",
    "optimizer.zero_grad(set_to_none=True)",
    "net.zero_grad()",
    "optimizer.step()",
    "other.step()",
    "scheduler.step()",
    "torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)",
    "for p in net.parameters(): p.grad.mul_(0.5)",
    "text = '''a\n  b'''",
    "x = x + 1; y = y + 1",
    "if flag: loss.backward()",
    "continue",
    "torch.save({'optimizer': optimizer.state_dict()}, 'last.pt')",
    "optimizer.load_state_dict(torch.load('last.pt')['optimizer'])",
    "penalty = torch.autograd.grad(loss, net.parameters(), create_graph=True)",
    "pass",
)
HEADERS = ("if flag:", "if i % every == 0:", "for _ in range(2):", "with torch.no_grad():", "while flag:", "try:")
LOOPS = (
    "for i, (x, y) in enumerate(batches):",
    "for i in range(9):\n    x, y = batches[0]",
    "while i < count:\n    x, y = batches[0]\n    i += 1",
)


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in "\n".join(lines or ["pass"]).split("\n")]


def _compound(parts: tuple[str, list[list[str]]]) -> list[str]:
    header, blocks = parts
    lines = [header, *_indented([line for block in blocks for line in block])]
    return [*lines, "finally:", "    pass"] if header == "try:" else lines


STATEMENTS = st.recursive(
    st.sampled_from(SIMPLE).map(lambda line: line.split("\n")),
    lambda inner: st.tuples(st.sampled_from(HEADERS), st.lists(inner, min_size=1, max_size=4)).map(_compound),
    max_leaves=6,
)
TYPICAL = ["optimizer.zero_grad()", "out = net(x)", "loss = criterion(out, y)", "loss.backward()", "optimizer.step()"]


HELPERS = {
    "compute": """def compute(model, x, y, scale=1.0):
    prediction = model(x)
    return scale * criterion(prediction, y)


""",
    "update": """def update(loss, optimizer, clip=None):
    optimizer.zero_grad()
    loss.backward()
    if clip is not None:
        torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
    optimizer.step()


""",
    "validate": """def validate(model):
    model.eval()
    with torch.no_grad():
        return sum(criterion(model(x), y).item() for x, y in batches)


""",
}
CALLS = (
    "loss = compute(net, x, y)",
    "loss = compute(critic, x, y)\nupdate(loss, other)",
    "update(loss, optimizer, clip=1.0)",
    "score = validate(net)",
    "both = compute(net, x, y) + compute(critic, x, y, scale=0.5)\nboth.backward()",
)
OBJECTS = re.compile(r"\b(net|critic|criterion|optimizer|other|scheduler|losses|total)\b(?!=)(?!')")
SETUP = """def __init__(self, lr=0.1):
    self.net, self.critic = nn.Linear(4, 4), nn.Linear(4, 1)
    self.criterion = nn.MSELoss()
    self.optimizer = torch.optim.SGD(self.net.parameters(), lr=lr)
    self.other = torch.optim.Adam(self.critic.parameters())
    self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 1)
    self.losses, self.total = [], 0.0
"""
OPTIONS = """import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--every", type=int, default=2)
args = parser.parse_args()
"""


def shaped(shape: str, lines: list[str]) -> list[str]:
    """A training loop as part of a script of some `shape`, below `HEAD`."""
    if shape == "function":
        return ["def train():", *_indented(["global total", *lines]), "", "train()"]
    if shape == "handed on":
        return ["def train(optimizer, total=0.0):", *_indented(lines), "", "train(optimizer)"]
    if shape == "method":
        return ["class Trainer:", *_indented(["def train(self, total=0.0):", *_indented(lines)]), "Trainer().train()"]
    if shape == "object":
        lines = [OBJECTS.sub(r"self.\1", line) for line in lines]
        return ["class Trainer:", *_indented([SETUP, "def fit(self):", *_indented(lines)]), "", "Trainer().fit()"]
    if shape == "main":
        body = ["global total", "every = args.every", *lines]
        return ["def main():", *_indented(body), "", "if __name__ == '__main__':", "    main()"]
    if shape == "two functions":
        one = ["def first(net, optimizer, total):", *_indented(lines), "    return total"]
        two = ["def second(critic, other):", *_indented([line.replace("net", "critic") for line in lines])]
        return [*one, "", *two, "", "first(net, optimizer, 0.0)", "second(critic, other)"]
    return lines


SHAPES = ("script", "function", "handed on", "method", "object", "main", "two functions")


@st.composite
def formatted(draw: st.DrawFn, text: str) -> str:
    """`text` as someone may have written it: indented by anything, with comments, blank lines and any line ends."""
    unit = draw(st.sampled_from(["    ", "  ", "\t", "   "]))
    text = re.sub(r"^(?:    )+", lambda found: unit * (len(found.group()) // 4), text, flags=re.MULTILINE)
    lines = text.split("\n")
    for number, kind in enumerate(draw(st.lists(st.integers(0, 4), max_size=4))):
        at = draw(st.integers(0, len(lines) - 2))
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        lines[at] += ("", f"  # c{number}", f"\n{indent}# c{number}", "\n", "  ")[kind]
    return draw(st.sampled_from(["\n", "\r\n"])).join("\n".join(lines).split("\n"))


@st.composite
def loops(draw: st.DrawFn, shapes: tuple[str, ...] = SHAPES) -> str:
    """A script with a training loop: typical statements in their order, with others strewn in, or any."""
    body = [[line] for line in TYPICAL] if draw(st.integers(0, 3)) else []
    helped = draw(st.booleans())
    statements = STATEMENTS | st.sampled_from(CALLS).map(lambda line: line.split("\n")) if helped else STATEMENTS
    for statement in draw(st.lists(statements, min_size=0 if body else 2, max_size=5)):
        body.insert(draw(st.integers(0, len(body))), statement)
    lines = draw(st.sampled_from(LOOPS)).split("\n") + _indented([line for block in body for line in block])
    shape = draw(st.sampled_from(shapes))
    head = (
        (OPTIONS if shape == "main" else "")
        + HEAD
        + "".join(code for name, code in HELPERS.items() if any(f"{name}(" in line for line in lines))
    )
    return draw(formatted(head + "\n".join(shaped(shape, lines)) + "\n"))


def comments(text: str) -> list[str]:
    """The comments that `formatted` has strewn in."""
    return sorted(re.findall(r"# c\d", text))


@pytest.mark.parametrize(
    "wish",
    [
        Wish(to="amp"),
        Wish(to="amp", dtype="bfloat16", device="auto"),
        Wish(to="amp", add_flag=True),
        Wish(accumulate=3),
        Wish(to="amp", accumulate=2),
    ],
    ids=["half", "bfloat16", "flag", "accumulate", "both"],
)
def test_conversion_is_whole(wish: Wish) -> None:
    converted = refused = 0

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(loops(("main",) if wish.add_flag else SHAPES))
    def check(text: str) -> None:
        nonlocal converted, refused
        try:
            ast.parse(text)
        except SyntaxError:
            return
        conversion = convert(text, wish)
        assert not any("please report" in remark.text for remark in conversion.refused), conversion.refused
        ast.parse(conversion.text)
        if conversion.refused:
            refused += 1
            assert conversion.text == text
            return
        converted += conversion.text != text
        assert comments(conversion.text) == comments(text)
        assert "\r" not in text or re.search(r"(?<!\r)\n", conversion.text) is None
        again = convert(conversion.text, wish)
        assert (again.text, again.done) == (conversion.text, ())

    check()
    assert converted > 5
    assert refused > 0
