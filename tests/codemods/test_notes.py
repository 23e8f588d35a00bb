"""What a conversion tells: steps without gradients, ended training, saturated sigmoids, models given from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from amplint.codemods import Wish, convert, outputs
from tests.codemods.running import told

LOOP = """import torch
from nets import build

{made}
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
{body}
    opt_a.zero_grad()
    opt_b.zero_grad()
    loss.backward()
    opt_a.step()
    opt_b.step()
"""
MADE = """a, b = build().cuda(), build().cuda()
opt_a = torch.optim.SGD(a.parameters(), lr=0.1)
opt_b = torch.optim.SGD(b.parameters(), lr=0.1)"""


def _left(text: str, dtype: str, path: str = "") -> list[tuple[int, str]]:
    conversion = convert(text, Wish(to="amp", dtype=dtype), path)
    assert conversion.refused == ()
    return [(remark.row, remark.text) for remark in conversion.left]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("    if y.any():\n        loss = b(a(x)).mean()\n    else:\n        loss = (a(x) - y).abs().mean()", True),
        ("    loss = a(x).mean()\n    if y.any():\n        loss = loss + b(x).mean()", True),
        ("    if y.any():\n        loss = b(a(x)).mean()\n    else:\n        loss = (a(x) - b(y)).mean()", False),
        ("    loss = b(a(x)).mean()\n    if y.any():\n        loss = loss + b(x).mean()", False),
    ],
    ids=["one branch", "an addition", "both branches", "always"],
)
def test_steps_of_an_optimizer_whose_model_runs_in_one_branch_are_named(body: str, told: bool) -> None:
    why = "a scaler raises at the step of an optimizer without gradients, as where b does not run"
    text = LOOP.format(made=MADE, body=body)
    assert [one for _, one in _left(text, "float16")].count(why) == told
    assert why not in [one for _, one in _left(text, "bfloat16")]


@pytest.mark.parametrize(
    ("between", "condition", "told"),
    [
        ("", "cfg.both", False),
        ("", "cfg.other", True),
        ("    cfg.both = not cfg.both\n", "cfg.both", True),
        ("", "y.any()", True),
    ],
    ids=["the same", "another", "changed between", "a call"],
)
def test_a_step_under_the_condition_of_its_forward_pass_is_not_named(between: str, condition: str, told: bool) -> None:
    ran = "y.any()" if "(" in condition else "cfg.both"
    body = f"    loss = a(x).mean()\n    if {ran}:\n        loss = loss + b(x).mean()\n{between}".rstrip("\n")
    text = LOOP.format(made=f"import cfg\n{MADE}", body=body)
    text = text.replace("    opt_b.step()", f"    if {condition}:\n        opt_b.step()")
    why = "a scaler raises at the step of an optimizer without gradients, as where b does not run"
    assert [one for _, one in _left(text, "float16")].count(why) == told


def test_groups_of_parameters_tell_whose_optimizer_it_is() -> None:
    made = MADE.replace("a.parameters()", "a.optim_parameters(lr=0.1)")
    body = "    loss = a(x).mean()\n    if cfg.both:\n        loss = loss + b(x).mean()"
    text = LOOP.format(made=f"import cfg\n{made}", body=body)
    text = text.replace("    opt_b.step()", "    if cfg.both:\n        opt_b.step()")
    assert not any("optimizer without gradients" in one for _, one in _left(text, "float16"))


def test_a_scaler_raises_at_a_step_without_gradients() -> None:
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(1, requires_grad=True).sum()).backward()
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.step(optimizer)


ENDED = """import math
import sys
import torch
from nets import build

model = build().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
{test}
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ("    if torch.isnan(loss):\n        break", True),
        ("    value = loss.item()\n    if not math.isfinite(value):\n        sys.exit(1)", True),
        ("    assert not torch.isnan(loss).any()", True),
        ("    loss_value = reduce(loss)\n    if not math.isfinite(loss_value):\n        raise ValueError", True),
        ("    if torch.isnan(loss):\n        print('NaN')", False),
        ("    if torch.isnan(x).any():\n        break", False),
    ],
    ids=["break", "exit", "assert", "reduced", "printed", "of data"],
)
def test_tests_of_the_loss_that_end_training_are_named(test: str, told: bool) -> None:
    why = "an overflow of the forward pass ends training here, where the scaler would skip the step"
    text = ENDED.format(test=test)
    assert (why in [one for _, one in _left(text, "float16")]) is told
    assert why not in [one for _, one in _left(text, "bfloat16")]


PROBABILITIES = """import torch
import torch.nn.functional as F
from nets import build


class Engine:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.criterion = torch.nn.BCELoss()

    def update(self, x, y):
        x, y = x.cuda(), y.cuda()
        self.optimizer.zero_grad()
{body}
        loss.backward()
        self.optimizer.step()
"""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("body", "made", "given"),
    [
        (
            "        out = self.model(x)\n        loss = self.criterion(out.view(-1), y)",
            "out",
            "self.criterion(out.view(-1)",
        ),
        ("        loss = self.criterion(self.model(x).view(-1), y)", "output", "self.criterion(output"),
        ("        loss = F.binary_cross_entropy(self.model(x), y)", "output", "F.binary_cross_entropy(output"),
        (
            "        out = self.model(x)\n        loss = F.binary_cross_entropy(out, y)",
            "out",
            "F.binary_cross_entropy(out",
        ),
    ],
    ids=["a variable", "in the call", "the function", "a variable, the function"],
)
def test_probabilities_of_a_model_out_of_sight_are_named(body: str, made: str, given: str, dtype: str) -> None:
    conversion = convert(PROBABILITIES.format(body=body), Wish(to="amp", dtype=dtype))
    assert conversion.refused == ()
    assert f"            {made} = self.model(x).float()" in conversion.text
    assert f"\n        loss = {given}, y)\n" in conversion.text
    (remark,) = conversion.left
    assert remark.text.startswith("if the model ends in a sigmoid, that is exactly 1 in half from a logit of 8.4 on")
    assert "loss = " in conversion.text.splitlines()[remark.row - 1]


@pytest.mark.parametrize("output", ["self.model(x)", "self.model(x).float()"])
def test_they_are_named_whether_or_not_the_output_is_cast(output: str) -> None:
    region = """        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = {output}
            with torch.autocast("cuda", enabled=False):
                loss = F.binary_cross_entropy(out.float(), y)"""
    text = PROBABILITIES.format(body=region.format(output=output))
    (loss,) = outputs.found(text, "").losses
    assert loss.why.startswith("if the model ends in a sigmoid")


def test_each_of_several_losses_in_a_statement_gets_a_variable() -> None:
    body = "        loss = (self.criterion(self.model(x), y) + self.criterion(self.model(y.detach()), x)) / 2"
    text = convert(PROBABILITIES.format(body=body), Wish(to="amp")).text
    assert (
        "            output = self.model(x).float()\n            outputs = self.model(y.detach()).float()\n"
        "        loss = (self.criterion(output, y) + self.criterion(outputs, x)) / 2\n"
    ) in text


def test_from_which_logits_a_sigmoid_is_1_in_half() -> None:
    for dtype, logit in ((torch.float16, 8.4), (torch.bfloat16, 6.3)):
        assert torch.sigmoid(torch.tensor(logit, dtype=dtype)) == 1
        assert torch.sigmoid(torch.tensor(logit - 0.3, dtype=dtype)) < 1


def test_probabilities_of_logits_in_float32_are_not() -> None:
    body = "        out = torch.sigmoid(self.model(x).float())\n        loss = self.criterion(out, y)"
    assert _left(PROBABILITIES.format(body=body), "float16") == []


PRODUCT = """import torch
from nets import build

net = build().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
perms = torch.ones(2, 2).cuda()
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    optimizer.zero_grad()
    noise = 10 * torch.log10(((net(x) - y) ** 2).sum(-1))
    loss = {loss}
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "loss",
    [
        '-torch.einsum("bi,pi->bp", noise.view(-1, 2), perms).max(dim=1)[0].mean()',
        "(noise.view(-1, 2) @ perms).mean()",
        "(noise.view(-1, 2) @ perms).sum()",
        "torch.nn.functional.cross_entropy(noise.view(-1, 2) @ perms, y[:, 0].long())",
        "(noise.view(-1, 2) * perms).sum()",
    ],
    ids=["permutations", "operator", "under a sum", "under a loss", "elementwise"],
)
def test_a_product_behind_the_forward_pass_is_computed_in_float32(loss: str) -> None:
    for dtype in ("float16", "bfloat16"):
        conversion = convert(PRODUCT.format(loss=loss), Wish(to="amp", dtype=dtype))
        assert "(((net(x).float() - y) ** 2)" in conversion.text
        assert f"\n    loss = {loss}\n" in conversion.text
        assert not any("product" in one.text for one in conversion.left)


ACTING = """import torch
from nets import build


def main(env, memory):
    policy = build().cuda()
    policy.train()
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    for episode in range(3):
        state, done = env.reset(), False
        while not done:
{act}
            state, done = env.step(action.item())
            memory.put(state, done)
        optimizer.zero_grad()
        loss = policy(memory.sample()).pow(2).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("act", "told"),
    [
        ("            action = policy(torch.from_numpy(state).float())", True),
        ("            with torch.no_grad():\n                action = policy(torch.from_numpy(state).float())", False),
        ("            action = env.sample()", False),
    ],
    ids=["with gradients", "evaluation, in a region", "none"],
)
def test_acting_in_float32_beside_training_in_half_is_named(act: str, told: bool) -> None:
    left = [one for _, one in _left(ACTING.format(act=act), "bfloat16")]
    assert any(one == "this runs in float32 what trains in half" for one in left) is told


MODEL = """import torch
from torch import nn


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        scores = torch.relu(self.layer(x))
        mask = torch.zeros(4, 4)
        values, places = scores.topk(2, 1)
        mask.scatter_(1, places, values.fill_(1))
        return scores * mask
"""
TRAINER = """import torch
{first}

class Trainer:
    def __init__(self, model):
        self.model = model.cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self, x, y):
        self.optimizer.zero_grad()
        loss = torch.nn.functional.l1_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
"""
MAIN = "import graphs\nfrom trainer import Trainer\nfrom graphs import Graph\n\nTrainer(Graph()).train(None, None)\n"


@pytest.mark.parametrize(
    ("first", "main", "named"),
    [
        ("from graphs import *\n", None, True),
        ("", MAIN, True),
        ("", MAIN.replace("Graph()", "None"), False),
        ("", MAIN.replace("from trainer", "from other"), False),
    ],
    ids=["imported by a star", "made by an importer", "imported and not made", "made by another file"],
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_models_that_a_file_is_given_are_read(
    tmp_path: Path, first: str, main: str | None, named: bool, dtype: str
) -> None:
    (tmp_path / "graphs.py").write_text(MODEL, encoding="utf-8")
    if main is not None:
        (tmp_path / "main.py").write_text(main, encoding="utf-8")
    (tmp_path / "trainer.py").write_text(TRAINER.format(first=first), encoding="utf-8")
    conversion = convert(TRAINER.format(first=first), Wish(to="amp", dtype=dtype), str(tmp_path / "trainer.py"))
    raised = f"graphs.py:14: scatter raises: its operands are float32 and {dtype} (AMP502)"
    texts = [one.text for one in told(conversion)]
    assert (raised in texts) is named
    assert all(named and one.startswith("graphs.py:14: ") for one in texts)


LAYERED = """import torch
from nets import Net

model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    optimizer.zero_grad()
    loss = torch.nn.functional.l1_loss(model(x), y)
    loss.backward()
    optimizer.step()
"""
SAMPLED = """import torch
from nets import build, decoder
from tools import show

model, vocoder = build().cuda(), decoder()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    optimizer.zero_grad()
    out = model(x)
    loss = (out - y).abs().mean()
    loss.backward()
    optimizer.step()
    show({given}, vocoder)
"""
TOOLS = """def show(mel, vocoder):
    return infer(mel.transpose(0, 1), vocoder)


def infer(mel, vocoder):
    return {call}
"""


@pytest.mark.parametrize(
    ("given", "call"),
    [
        ("out", "vocoder(mel)"),
        ("out.float()", "vocoder(mel)"),
        ("x", "vocoder(mel)"),
        ("out", "(mel, str(vocoder))"),
    ],
    ids=["output", "float32", "data", "not run"],
)
def test_models_that_a_function_of_another_file_runs_get_float32(tmp_path: Path, given: str, call: str) -> None:
    (tmp_path / "tools.py").write_text(TOOLS.format(call=call), encoding="utf-8")
    conversion = convert(SAMPLED.format(given=given), Wish(to="amp", dtype="bfloat16"), str(tmp_path / "train.py"))
    assert (conversion.refused, conversion.left) == ((), ())
    assert "        out = model(x).float()\n    loss = " in conversion.text


WRAPPED = """import torch
from torch.nn.utils import clip_grad_norm_
{used}

class Optim{base}:
    def __init__(self, params):
        self.params = list(params)
        self.optimizer = torch.optim.Adam(self.params)

    def step(self):
        clip_grad_norm_(self.params, 1.0)
        self.optimizer.step()


class Trainer:
    def __init__(self, model):
        self.model = model.cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def train(self, x, y):
        self.optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
"""


@pytest.mark.parametrize("base", ["", "(object)"])
def test_a_class_that_only_steps_for_other_files_stays(base: str) -> None:
    text = WRAPPED.format(used="", base=base)
    new = convert(text, Wish(to="amp")).text
    assert new.count("scaler.step(") == 1
    start, end = text.index("class Optim"), text.index("class Trainer")
    assert text[start:end] in new


CLOSE = """from losses import close
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return close(self.layer(x), x)
"""


@pytest.mark.parametrize(
    ("exponential", "told"),
    [
        ("out.div_(0.07).exp_()", True),
        ("out.sub_(out.max()).exp_()", False),
        ("out.float().exp_()", False),
    ],
)
def test_exponentials_in_place_are_named(tmp_path: Path, exponential: str, told: bool) -> None:
    code = f"import torch\n\n\ndef close(out, x):\n    {exponential}\n    return out.mean()\n"
    (tmp_path / "losses.py").write_text(code, encoding="utf-8")
    (tmp_path / "nets.py").write_text(CLOSE, encoding="utf-8")
    text = LAYERED
    why = "losses.py:5: autocast lifts no exp_(): in float16 it is infinite from 11.1 on; use exp()"
    assert (why in [one for _, one in _left(text, "float16", str(tmp_path / "train.py"))]) is told
    assert why not in [one for _, one in _left(text, "bfloat16", str(tmp_path / "train.py"))]


def test_a_file_that_many_import_is_told_of_none_of_their_models(tmp_path: Path) -> None:
    (tmp_path / "graphs.py").write_text(MODEL, encoding="utf-8")
    for index in range(5):
        (tmp_path / f"main{index}.py").write_text(MAIN, encoding="utf-8")
    (tmp_path / "trainer.py").write_text(TRAINER.format(first=""), encoding="utf-8")
    assert _left(TRAINER.format(first=""), "float16", str(tmp_path / "trainer.py")) == []


def test_a_model_of_another_file_in_threads_is_not_the_distributed_one_here(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text("from torch.nn import DataParallel\n\n\nclass Net(DataParallel): ...\n")
    text = LAYERED.replace("Net().cuda()", "torch.nn.parallel.DistributedDataParallel(Net().cuda())")
    for there, named in ((text, False), (LAYERED, True)):
        left = _left(there, "bfloat16", str(tmp_path / "train.py"))
        assert any("with several GPUs" in one for _, one in left) is named


LIFTED = """import torch
from torch import nn


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(4, 4), nn.SiLU())

    def forward(self, t):
        return self.mlp(torch.cos(t[:, None].float() * torch.ones(4)[None]))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedder = Embedder()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        out = self.layer(x)
        return out * self.embedder(x[:, 0]) / torch.sqrt({square}.sum(1))

    def sample(self, x, scale):
        return x + scale * self.forward(x)
"""


@pytest.mark.parametrize(
    ("square", "named"),
    [("x.pow(2)", False), ("(x ** 2)", False), ("(out * out)", True)],
    ids=["pow", "power", "product"],
)
def test_what_a_model_runs_outside_of_regions_is_not_named(tmp_path: Path, square: str, named: bool) -> None:
    (tmp_path / "nets.py").write_text(LIFTED.format(square=square), encoding="utf-8")
    remarks = [one.text for one in told(convert(LAYERED, Wish(to="amp"), str(tmp_path / "train.py")))]
    assert [one[:23] for one in remarks if one.startswith("nets.py")] == ["nets.py:22: the squares"][: 1 * named]


PLAIN = """import torch
from torch import nn

net = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in [torch.ones(2, 4).cuda()]:
    optimizer.zero_grad()
    loss = net(x).mean()
{body}"""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("    if loss > 0:\n        loss.backward()\n    optimizer.step()\n", True),
        ("    if loss > 0:\n        loss.backward()\n        optimizer.step()\n", False),
        (
            "    if loss > 0:\n        loss.backward()\n    else:\n        (-loss).backward()\n    optimizer.step()\n",
            False,
        ),
    ],
    ids=["backward alone", "both", "either"],
)
def test_a_step_that_no_backward_pass_precedes_is_named(body: str, told: bool) -> None:
    why = "a scaler raises at a step without gradients, as where the condition before it is false"
    assert [one for _, one in _left(PLAIN.format(body=body), "float16")].count(why) == told


def test_clipping_that_came_too_late_before_is_named() -> None:
    body = "    loss.backward()\n    optimizer.step()\n    nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n"
    why = "in the result, gradients are clipped after the step that used them (AMP202)"
    assert (14, why) in _left(PLAIN.format(body=body), "float16")
