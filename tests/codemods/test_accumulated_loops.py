"""`--accumulate N`: loops made at random train as with larger batches; what is refused or left says why and where."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.optim.optimizer import register_optimizer_step_post_hook

from amplint.codemods import Remark, Wish, convert
from tests.conftest import Command

HEAD = """import torch
from torch import nn

torch.manual_seed(0)
inputs = torch.randn({samples}, 4)
data = [(x, x.prod(1, keepdim=True)) for x in inputs.split({batch})]
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
slow = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)
other = torch.optim.Adam(slow.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
losses, norms, global_step = [], [], 0
"""
LOOPS = (
    "for x, y in data:",
    "for (x, y) in data:",
    "for i, (x, y) in enumerate(data):",
    "for number, batch in enumerate(data, start=1):\n    x, y = batch",
    "for x, y in iter(data):",
    "for _, (x, y) in zip(range(99), data):",
    "for step in range(len(data)):\n    x, y = data[step]",
    "step = 0\nrounds = len(data)\nwhile step < rounds:\n    x, y = data[step]\n    step += 1",
)
CLEAR = ("optimizer.zero_grad()", "net.zero_grad(set_to_none=True)", "for p in net.parameters():\n    p.grad = None")
LOSS = (
    "loss = nn.functional.mse_loss(net(x), y)",
    "out = net(x)\nloss = (out - y).pow(2).mean()\nloss = loss + 0.1 * out.abs().mean()",
    "loss = nn.MSELoss(reduction='sum')(net(x), y)",
)
BACKWARD = ("loss.backward()", "(2 * loss).backward()", "if loss.requires_grad:\n    loss.backward()")
READ = (
    "nn.utils.clip_grad_norm_(net.parameters(), 0.5)",
    "norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)",
    "if norms is not None:\n    nn.utils.clip_grad_value_(net.parameters(), 0.1)",
    "for p in net.parameters():\n    p.grad.mul_(0.5)",
)
AFTER = ("scheduler.step()", "global_step += 1", "losses.append(loss.item())  # each", "total = 0.0", "# done\npass")


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A script whose loop trains: what it has to do, and something of what it can do, in one of the possible orders."""
    early = draw(st.integers(0, 2))
    clear, loss, backward = draw(st.sampled_from(CLEAR)), draw(st.sampled_from(LOSS)), draw(st.sampled_from(BACKWARD))
    reads = draw(st.lists(st.sampled_from(READ), max_size=2, unique=True))
    after = draw(st.lists(st.sampled_from(AFTER), max_size=3, unique=True))
    steps = ["optimizer.step()"]
    body = [*([clear] if early == 0 else []), loss, *([clear] if early == 1 else []), backward, *reads, *steps]
    body += [*after[:1], *([clear] if early == 2 else []), *after[1:]]
    if any(read.startswith("norm =") for read in reads):
        body.append("norms.append(norm.item())")
    lines = [*draw(st.sampled_from(LOOPS)).split("\n"), *(f"    {line}" for part in body for line in part.split("\n"))]
    if draw(st.booleans()):
        lines = ["for epoch in range(2):", *(f"    {line}" for line in lines)]
    if draw(st.booleans()):
        names = "global global_step, norm" if "norm =" in "\n".join(body) else "global global_step"
        lines = ["def train():", f"    {names}", *(f"    {line}" for line in lines), "", "", "train()"]
    return HEAD + "\n".join(lines) + "\n"


def trained(text: str, samples: int, batch: int) -> tuple[list[torch.Tensor], dict[str, Any]]:
    """The weights after each step of a program, and its variables."""
    weights: list[torch.Tensor] = []

    def note(optimizer: torch.optim.Optimizer, *_: object) -> None:
        weights.append(torch.cat([p.detach().flatten() for group in optimizer.param_groups for p in group["params"]]))

    handle = register_optimizer_step_post_hook(note)
    names: dict[str, Any] = {}
    try:
        exec(compile(text.format(samples=samples, batch=batch), "program.py", "exec"), names)
    finally:
        handle.remove()
    return weights, names


def test_loops_train_as_with_larger_batches() -> None:
    done = 0

    @settings(max_examples=30, deadline=None, derandomize=True)
    @given(programs(), st.integers(2, 5), st.integers(1, 9))
    def check(text: str, many: int, batches: int) -> None:
        nonlocal done
        template = text.replace("{", "{{").replace("}", "}}").replace("{{samples}}", "{samples}")
        conversion = convert(template.replace("{{batch}}", "{batch}"), Wish(accumulate=many))
        assert conversion.refused == ()
        done += 1
        some, names = trained(conversion.text, 3 * batches, 3)
        others, expected = trained(template.replace("{{batch}}", "{batch}"), 3 * batches, 3 * many)
        assert len(some) == len(others)
        for one, other in zip(some, others, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        assert names["scheduler"].last_epoch == expected["scheduler"].last_epoch
        torch.testing.assert_close(names["norms"], expected["norms"], rtol=1e-3, atol=1e-4)

    check()
    assert done > 9


SCRIPT = """import torch
from torch import nn

data = [torch.ones(2, 4)] * 9
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i, x in enumerate(data):
    optimizer.zero_grad()
    loss = net(x).mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
GAN = """import torch
from torch import nn

data = [torch.ones(2, 4)] * 9
net, critic = nn.Linear(4, 4), nn.Linear(4, 1)
first = torch.optim.SGD(net.parameters(), lr=0.1)
second = torch.optim.SGD(critic.parameters(), lr=0.1)
for x in data:
    second.zero_grad()
    (critic(x) - critic(net(x).detach())).mean().backward()
    second.step()
    first.zero_grad()
    critic(net(x)).mean().backward()
    first.step()
"""
FUNCTION = """def train_on(batch, model, optimizer):
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()
"""


def with_(old: str, new: str) -> str:
    """The script with one change."""
    assert old in SCRIPT
    return SCRIPT.replace(old, new)


@pytest.mark.parametrize(
    ("text", "row", "why"),
    [
        (GAN, 13, "two losses are differentiated in turn"),
        (FUNCTION, 1, "the loop over batches is not in sight"),
        (with_("    optimizer.step()", "    optimizer.step(lambda: loss)"), 11, "a closure"),
        (with_("    loss.backward()", "    if loss > 9:\n        continue\n    loss.backward()"), 11, "ends here"),
        (with_("for i, x in enumerate(data):", "while data:\n    x = data.pop()"), 7, "how many rounds this loop runs"),
        (with_("    optimizer.zero_grad()\n", ""), 7, "nothing in this loop clears the gradients"),
        (with_("enumerate(data)", "enumerate(range(9))").replace("i, x", "epoch, x"), 7, "is an epoch"),
        (with_("loss.backward()", "torch.autograd.backward(loss)"), 10, "only backward() of a tensor"),
        ("import accelerate\n" + SCRIPT, 1, "has a way of its own to accumulate gradients"),
        (
            with_("    print(", "    if i % 3 == 0:\n        print(net.weight.grad.norm())\n    print("),
            13,
            "gradients are used here at some batches",
        ),
        (with_("    optimizer.step()", "    optimizer.step(); print(i)"), 11, "shares its line with others"),
    ],
    ids=[
        *("gan", "function", "closure", "continue", "while", "uncleared", "epochs", "autograd", "framework"),
        *("periodic gradients", "one line"),
    ],
)
def test_refused(text: str, row: int, why: str) -> None:
    conversion = convert(text, Wish(accumulate=4))
    assert [remark.row for remark in conversion.refused] == [row]
    assert why in conversion.refused[0].text
    assert (conversion.text, conversion.done, conversion.left) == (text, (), ())


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (SCRIPT, []),
        (with_("net(x).mean()", "net(x).sum()"), [(12, "this loss is a sum over its batch, so it is not divided")]),
        (
            with_("net(x).mean()", "objective(net(x))"),
            [(13, "this loss is taken for a mean over its batch; a sum must not be divided")],
        ),
        (
            with_("    print(loss.item())", "    if i > 6:\n        break"),
            [(17, "leaving the loop here drops the batches of a window that is not full")],
        ),
        (
            with_("    print(loss.item())", "    torch.save(net.state_dict(), 'last.pt')"),
            [(16, "what is saved here can lie within a window, whose gradients it does not hold")],
        ),
        (
            with_("i, x in enumerate(data)", "i in range(9)").replace("net(x)", "net(data[i])"),
            [(8, "a step takes several rounds of this loop now, so there are fewer steps")],
        ),
        (
            with_("nn.Linear(4, 1)", "nn.Sequential(nn.Linear(4, 1), nn.BatchNorm1d(1))"),
            [(5, "the statistics of batch normalization remain those of single batches")],
        ),
    ],
    ids=["mean", "sum", "unknown", "break", "save", "range", "normalization"],
)
def test_left_for_a_person(text: str, left: list[tuple[int, str]]) -> None:
    conversion = convert(text, Wish(accumulate=4))
    assert conversion.refused == ()
    assert conversion.left == tuple(Remark(*one) for one in left)


def test_evaluation_keeps_its_pace() -> None:
    """A schedule that an evaluation advances, and an average at batches of its own choice, stay where they are."""
    more = "    if i % 3 == 0:\n        scheduler.step(evaluate(net))\n        ema.update(net)\n    print("
    conversion = convert(with_("    print(", more), Wish(accumulate=4))
    assert (conversion.refused, conversion.left) == ((), ())
    assert more in conversion.text


def test_the_rows_of_a_header_stay_aligned() -> None:
    text = with_("for i, x in enumerate(data):", "for i, x in zip(range(9),\n                data):")
    conversion = convert(text, Wish(accumulate=4))
    assert (
        "for micro, window, (i, x) in micro_batches(zip(range(9),\n"
        "                                               data), accumulation_steps):\n"
    ) in conversion.text


def test_losses_are_logged_for_each_batch() -> None:
    more = "    if net is not None:\n        global_step += 1\n        print(global_step, loss.item())\n    print("
    conversion = convert(with_("    print(", more), Wish(accumulate=4))
    assert more in conversion.text


def test_calls_about_the_model_before_the_step_go_along() -> None:
    conversion = convert(
        with_("    optimizer.step()", "    freeze_last_layer(net)\n    optimizer.step()"), Wish(accumulate=4)
    )
    assert "        freeze_last_layer(net)\n        optimizer.step()\n" in conversion.text


def test_what_accumulates_is_left_alone() -> None:
    done = convert(SCRIPT, Wish(accumulate=4)).text
    assert convert(done, Wish(accumulate=8)).text == done
    assert "accumulation_steps = 4\n" in done
    other = with_("    optimizer.step()", "    if i % 2:\n        optimizer.step()")
    assert convert(other, Wish(accumulate=4)).text == other


def test_nothing_is_told_the_length_of_a_window_in_vain() -> None:
    text = convert(with_("net(x).mean()", "net(x).sum()"), Wish(accumulate=4)).text
    assert "    if i % accumulation_steps == 0:\n        optimizer.zero_grad()\n" in text
    assert "window" not in text


WRAPPED = """import torch
from torch import nn


class Warm:
    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.number = 0

    def step(self):
        self.number += 1
        self.optimizer.param_groups[0]["lr"] = 0.1 / self.number
        self.optimizer.step()


data = [torch.ones(2, 4)] * 9
net = nn.Linear(4, 1)
wrapped = Warm(torch.optim.SGD(net.parameters(), lr=0.1))
for i, x in enumerate(data):
    net.zero_grad()
    net(x).mean().backward()
    wrapped.step()
"""


def test_a_function_that_steps_is_called_at_the_end_of_a_window() -> None:
    conversion = convert(WRAPPED, Wish(accumulate=4))
    assert conversion.refused == ()
    assert [remark.text for remark in conversion.left] == ["step() runs once in a window now, with all it counts"]
    names: dict[str, Any] = {}
    exec(compile(conversion.text, "program.py", "exec"), names)
    assert names["wrapped"].number == 3
    assert convert(conversion.text, Wish(accumulate=4)).text == conversion.text


@pytest.mark.parametrize("guard", ["if self.number % 4:\n            return", "if self.number % 4 == 0:\n    "])
def test_a_function_that_steps_now_and_then_is_not_moved(guard: str) -> None:
    text = WRAPPED.replace("        self.optimizer.step()", f"        {guard}\n        self.optimizer.step()")
    text = text.replace(":\n    \n        self.opt", ":\n            self.opt")
    compile(text, "program.py", "exec")
    conversion = convert(text, Wish(accumulate=4))
    assert conversion.text == text
    assert len(conversion.refused) == 1


WHILE = """import torch
from torch import nn

data = [torch.ones(2, 4)] * 9
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
step = 2
total = 9
done = []


def log():
    done.append(step)


while step < total:
    optimizer.zero_grad()
    loss = net(data[step]).mean()
    loss.backward()
    optimizer.step()
    step += 1
    log()
"""


def test_while_loops_that_count_go_over_a_range() -> None:
    conversion = convert(WHILE, Wish(accumulate=4))
    assert conversion.refused == ()
    assert "for micro, window, _ in micro_batches(range(step, total), accumulation_steps):" in conversion.text
    names: dict[str, Any] = {}
    exec(compile(conversion.text, "program.py", "exec"), names)
    assert (names["step"], names["done"]) == (9, [3, 4, 5, 6, 7, 8, 9])


def test_what_ends_a_while_loop_goes_on_counting_batches() -> None:
    conversion = convert(re.sub(r"\bstep\b(?!\()", "global_step", WHILE), Wish(accumulate=4))
    assert "\n    global_step += 1\n" in conversion.text
    assert "global_step counts batches here, and no longer steps" in [remark.text for remark in conversion.left]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("step < total", "step <= total"),
        ("step < total", "step < total and data"),
        ("step < total", "step < len(data)"),
        ("total = 9", "total = 9.0"),
        ("    step += 1\n", "    step += 2\n"),
        ("    step += 1\n", "    step += len(data[step])\n"),
        ("    step += 1\n", "    if loss < 9:\n        step += 1\n"),
        ("    step += 1\n", "    step += 1\n    total -= 1\n"),
        ("    step += 1\n", "    step += 1\n    if loss < 9:\n        continue\n"),
        ("    done.append(step)", "    global total\n    total = 7"),
        ("    done.append(step)", "    global step\n    step += 1"),
    ],
)
def test_other_while_loops_are_refused(old: str, new: str) -> None:
    assert old in WHILE
    text = WHILE.replace(old, new)
    conversion = convert(text, Wish(accumulate=4))
    assert conversion.text == text
    assert [remark.text[:20] for remark in conversion.refused] == ["how many rounds this"]


METHODS = """import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--max-steps", type=int, default=9)
args = parser.parse_args([])


class Trainer:
    def __init__(self):
        self.net = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.step = 0

    def train_step(self):
        self.optimizer.zero_grad()
        self.net(torch.ones(2, 4)).mean().backward()
        self.optimizer.step()
        self.step += 1

    def evaluate(self):
        return self.net.weight.sum()

    def run(self):
        while self.step < args.max_steps:
            self.train_step()
            self.evaluate()


Trainer().run()
"""


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("self.train_step()", "self.train_step()", None),
        ("type=int", "type=float", "how many rounds"),
        ("return self.net.weight.sum()", "self.step = 0", "how many rounds"),
        ("self.evaluate()\n\n", "self.train_step()\n\n", "not called once"),
        ("self.evaluate()\n\n", "self.evaluate()\n        self.train_step()\n\n", "how many rounds"),
        ("self.step ", "self.global_step ", "self.global_step tells when the loop ends"),
    ],
    ids=["counted", "a float", "set back", "twice", "elsewhere", "steps"],
)
def test_while_loops_whose_methods_count(old: str, new: str, why: str | None) -> None:
    assert old in METHODS
    conversion = convert(METHODS.replace(old, new), Wish(accumulate=4))
    assert len(conversion.refused) == (why is not None)
    if why is not None:
        assert why in conversion.refused[0].text
    else:
        assert "in micro_batches(range(self.step, args.max_steps), accumulation_steps):" in conversion.text


LENGTHS = """import torch
from torch import nn


def endless(loader):
    while True:
        yield from loader


class Trainer:
    def __init__(self, loader, epoch=None):
        self.net = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.loader = loader
        if epoch is None:
            self.epoch = len(self.loader)
        else:
            self.loader = endless(loader)
            self.epoch = epoch

    def train(self):
        for i, x in enumerate(self.loader):
            self.optimizer.zero_grad()
            loss = self.net(x).mean()
            loss.backward()
            self.optimizer.step()
            if i + 1 == self.epoch:
                break


Trainer([torch.ones(2, 4)] * 6).train()
Trainer([torch.ones(2, 4)] * 3, 6).train()
"""


def test_a_length_is_certain_only_if_every_branch_gives_one() -> None:
    conversion = convert(LENGTHS, Wish(accumulate=4))
    assert conversion.refused == ()
    assert "in micro_batches(enumerate(self.loader), accumulation_steps)" in conversion.text
    exec(conversion.text, {})


@pytest.mark.parametrize("asked", [False, True])
def test_a_length_that_is_asked_for_anyway_is_certain(asked: bool) -> None:
    text = LENGTHS[: LENGTHS.index("\n\nTrainer(")].replace("            self.loader = endless(loader)\n", "")
    if asked:
        text = text.replace("if epoch is None", "print(len(self.loader))\n        if epoch is None")
    conversion = convert(text, Wish(accumulate=4))
    assert ("i + 1 == len(self.loader)" in conversion.text) is asked
    assert ("micro_batches(" in conversion.text) is not asked


def test_the_command_takes_a_number(amplint: Command, project: Any) -> None:
    (project / "train.py").write_text(SCRIPT, encoding="utf-8")
    assert amplint("convert", "--accumulate", "1", "train.py").status == 2
    assert amplint("convert", "--accumulate", "many", "train.py").status == 2
    ran = amplint("convert", "--accumulate", "3", "--to", "amp", "--write", "train.py")
    assert (ran.status, ran.out) == (0, "")
    text = (project / "train.py").read_text(encoding="utf-8")
    assert "    scaler.scale(loss / window).backward()\n" in text
    again = amplint("convert", "--accumulate", "3", "--to", "amp", "--write", "train.py")
    assert (again.status, again.err) == (0, "Nothing to convert.\n")
