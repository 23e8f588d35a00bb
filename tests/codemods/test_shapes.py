"""Shapes of training files that strangers have written."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from amplint.codemods import Conversion, Wish, convert
from tests.codemods.running import told

FLOAT16, BFLOAT16 = Wish(to="amp"), Wish(to="amp", dtype="bfloat16")
HEAD = """import torch
from torch import nn

net = nn.Linear(4, 3).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = [torch.ones(2, 4).cuda()] * 5
"""
REGION = 'with torch.autocast(device_type="cuda", dtype=torch.float16):'
STEP = "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
LOOP = "for x in data:\n    loss = net(x).mean()\n" + STEP


def _converted(text: str, wish: Wish = FLOAT16, path: str = "") -> Conversion:
    conversion = convert(text, wish, path)
    assert conversion.refused == ()
    assert convert(conversion.text, wish, path).text == conversion.text
    return conversion


def _regions(text: str) -> list[str]:
    """What stands in each region, without its indentation."""
    rows, found = text.split("\n"), []
    for place, row in enumerate(rows):
        if row.lstrip().startswith("with torch.autocast"):
            depth = len(row) - len(row.lstrip())
            inside = []
            for other in rows[place + 1 :]:
                if other.strip() and len(other) - len(other.lstrip()) <= depth:
                    break
                inside.append(other)
            found.append(textwrap.dedent("\n".join(inside)).strip())
    return found


@pytest.mark.parametrize(
    ("loop", "region"),
    [
        (
            "for x in data:\n    out = net(x)\n    out.backward(torch.ones(2, 3).cuda())\n    optimizer.step()\n",
            "out = net(x)",
        ),
        (
            "import nets\nnet = nets.build()\nfor x in data:\n    net(x)\n    loss = net.loss\n" + STEP,
            "net(x)\nloss = net.loss",
        ),
        ("for x in data:\n    loss = -net.log_prob(x).mean()\n" + STEP, "loss = -net.log_prob(x).float().mean()"),
        (
            "for x in data:\n    a = net(x).mean()\n    b = net(x).sum()\n    print(x)\n    print(b)\n    print(a)\n"
            "    loss = a + 3 * b\n    loss /= 2\n" + STEP,
            "a = net(x).float().mean()\nb = net(x).float().sum()",
        ),
        (
            "kept = []\nfor i, x in enumerate(data):\n    seen = net(x).detach()\n    kept.append(seen)\n"
            "for i, x in enumerate(data):\n    seen = net(x)\n    loss = seen.mean()\n    for i in range(2):\n"
            "        loss = loss + seen[i].sum()\n" + STEP,
            "seen = net(x).float()",
        ),
    ],
    ids=["gradient given", "loss of the model", "method", "arithmetic", "names of loops"],
)
def test_a_region_holds_the_forward_pass_and_the_loss(loop: str, region: str) -> None:
    assert region in _regions(_converted(HEAD + loop).text)


def test_arithmetic_alone_gets_no_region() -> None:
    loop = "for x in data:\n    total = 0\n    for i in range(2):\n        total += net(x).mean()\n"
    loop += "    print(x)\n    print(i)\n    print(net)\n    total /= 2\n" + STEP.replace("loss", "total")
    assert len(_regions(_converted(HEAD + loop).text)) == 1


STATE = """class Engine:
    def train(self, **given):
        state = {"model": given["model"], "loader": given["loader"]}
        state["optimizer"] = given["method"](state["model"].parameters())
        state["model"].train()
        state["size"] = len(state["loader"])
        for x in state["loader"]:
            state["optimizer"].zero_grad()
            loss, state["output"] = state["model"].loss(x)
            loss.backward()
            state["optimizer"].step()
"""


def test_elements_of_a_dict_are_told_apart() -> None:
    assert _regions(_converted(STATE, BFLOAT16).text) == ['loss, state["output"] = state["model"].loss(x)']


DERIVED = """import torch

class Base:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(self, loader):
        self.model.train()
        for x in loader:
            loss = self._loss(x.cuda())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def _loss(self, x):
        raise NotImplementedError


class Trainer(Base):
    def _loss(self, x):
        return self.model(x).mean()
"""


def test_a_derived_class_runs_the_model() -> None:
    assert _regions(_converted(DERIVED).text) == ["return self.model(x).float().mean()"]


DECAY = "def decay(it):\n    it.param_groups[0]['lr'] *= 0.9\n    return it\n\n\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("for x in data:\n", f"{DECAY}for x in data:\n    optimizer = decay(optimizer)\n"),
        (STEP, STEP + "    if x.sum() > 9:\n        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)\n"),
        ("for x", "if net:\n    import tensorflow as tf\nfor x"),
    ],
    ids=["handed back", "made anew", "summaries"],
)  # fmt: skip
def test_the_scaler_is_made_once_below_the_first_optimizer(old: str, new: str) -> None:
    text = _converted(HEAD + LOOP.replace(old, new)).text
    assert text.count("GradScaler(") == 1
    assert 'lr=0.1)\nscaler = torch.amp.GradScaler("cuda")\n' in text


EPOCHS = """

def train(epoch):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1 / epoch)
    for x in data:
        loss = net(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


for epoch in range(1, 3):
    train(epoch)
"""


def test_the_scaler_outlives_an_optimizer_that_is_made_for_every_epoch() -> None:
    text = _converted(HEAD + EPOCHS).text
    assert '\nscaler = torch.amp.GradScaler("cuda")\nfor epoch in range(1, 3):\n' in text
    fold = EPOCHS.replace("    optimizer =", "    net = nn.Linear(4, 3).cuda()\n    optimizer =")
    assert '    scaler = torch.amp.GradScaler("cuda")\n    for x' in _converted(HEAD + fold).text


RESUMED = """import torch
from torch import nn

net = nn.Linear(4, 3).cuda()
if resume:
    saved = torch.load("last.pt")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.load_state_dict(saved["optimizer"])
else:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2)
for x in [torch.ones(2, 4).cuda()]:
    loss = net(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch.save({"optimizer": optimizer.state_dict()}, "last.pt")
"""


def test_the_scaler_is_made_above_what_restores_it() -> None:
    text = _converted(RESUMED).text
    assert 'scaler = torch.amp.GradScaler("cuda")\nif resume:\n' in text
    assert 'scaler.load_state_dict(saved["scaler"])' in text
    assert '"scaler": scaler.state_dict()' in text


TWO = """import torch
from torch import nn

class Solver:
    def __init__(self):
        self.G, self.D = nn.Linear(4, 4).cuda(), nn.Linear(4, 1).cuda()
        self.opt_G = torch.optim.Adam(self.G.parameters())
        self.opt_D = torch.optim.Adam(self.D.parameters())

    def train(self, x):
        loss_g = self.D(self.G(x)).mean()
        self.opt_G.zero_grad()
        loss_g.backward()
        self.opt_G.step()
        loss_d = self.D(x).mean()
        self.opt_D.zero_grad()
        loss_d.backward()
        self.opt_D.step()

    def save(self):
        torch.save({"nets": 1, "optims": {"opt_G": self.opt_G.state_dict(), "opt_D": self.opt_D.state_dict()}}, "a.pt")

    def load(self):
        saved = torch.load("a.pt")
        self.opt_G.load_state_dict(saved["optims"]["opt_G"])
        self.opt_D.load_state_dict(saved["optims"]["opt_D"])


solver = Solver()
solver.load()
for x in [torch.ones(2, 4).cuda()]:
    solver.train(x)
solver.save()
"""


def test_optimizers_that_share_a_scaler_share_its_state() -> None:
    text = _converted(TWO).text
    assert text.count("self.scaler.state_dict()") == text.count("self.scaler.load_state_dict(") == 1
    assert '"scaler": self.scaler.state_dict()' in text
    assert 'self.scaler.load_state_dict(saved["optims"]["scaler"])' in text
    assert "(self.D.parameters())\n        self.scaler = " in text


def test_a_scaler_is_saved_beside_one_optimizer_of_a_function() -> None:
    save = TWO[TWO.index("torch.save(") : TWO.index('"a.pt")')] + '"a.pt")'
    apart = 'torch.save({"opt_G": self.opt_G.state_dict()}, "G.pt")\n'
    apart += '        torch.save({"opt_D": self.opt_D.state_dict()}, "D.pt")'
    text = TWO.replace(save, apart).replace('["optims"]', "").replace('"a.pt"', '"G.pt"')
    again = '        saved = torch.load("D.pt")\n'
    text = text.replace("        self.opt_D.load", f"{again}        self.opt_D.load")
    text = _converted(text).text
    assert text.count("self.scaler.state_dict()") == text.count("self.scaler.load_state_dict(") == 1
    assert '{"opt_G": self.opt_G.state_dict(), "scaler": self' in text
    assert text.index('self.scaler.load_state_dict(saved["scaler"])') < text.index(again)


NESTED = """import torch
from torch import nn


def save(optimizer, epoch):
    torch.save({"epoch": epoch, "optimizer": optimizer.state_dict()}, "a.pt")


def main():
    def keep(epoch):
        save(optimizer, epoch)

    net = nn.Linear(4, 3).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    for epoch, x in enumerate([torch.ones(2, 4).cuda()]):
        loss = net(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        keep(epoch)


main()
"""


def test_a_function_within_a_function_hands_the_scaler_on() -> None:
    text = _converted(NESTED).text
    assert "def save(optimizer, scaler, epoch):" in text
    assert "save(optimizer, scaler, epoch)" in text
    assert '"scaler": scaler.state_dict()' in text


EVALUATION = """

@torch.no_grad()
def show(fixed=True):
    if fixed:
        sample = net(data[0]).cpu()
    else:
        sample = net(data[1]).cpu()
    return sample.data.numpy()


show()
"""


@pytest.mark.parametrize("wish", [FLOAT16, BFLOAT16])
def test_a_branch_that_the_file_never_takes_is_converted_too(wish: Wish) -> None:
    text = _converted(HEAD + LOOP + EVALUATION, wish).text
    regions = _regions(text)
    assert [f"sample = net(data[{which}]).float().cpu()" in regions for which in (0, 1)] == [True, True]
    assert "return sample.data.numpy()" in text


DISTILLED = """import torch
from torch import nn

net, teach = nn.Linear(4, 3).cuda(), nn.Linear(4, 3).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
distil = nn.MSELoss()


def losses(x, mode, train):
    out = net(x)
    goal = teach(x)
    if mode == "plain":
        loss = distil(out, goal)
    else:
        loss = 2 * distil(out, goal)
    return loss


def test(x, mode):
    with torch.no_grad():
        out = net(x)
        goal = teach(x)
    if mode == "plain":
        loss = distil(out, goal)
    elif mode == "twice":
        loss = 2 * distil(out, goal)
    return loss


for x in [torch.ones(2, 4).cuda()]:
    out = net(x)
    goal = teach(x)
    loss = distil(out, goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
test(x, "plain")
"""


def test_losses_of_several_branches_get_what_models_give_in_a_region_above_them() -> None:
    text = _converted(DISTILLED).text
    header = "with torch.no_grad(), torch.autocast("
    outputs = "        out = net(x).float()\n        goal = teach(x).float()\n"
    assert f'    {header}device_type="cuda", dtype=torch.float16):\n{outputs}' in text
    assert "out = net(x)\ngoal = teach(x)\nloss = distil(out, goal)" in _regions(text)


IMPORTED = """def show(flow, size):
    return flow.detach().cpu().numpy() * size


def count(flow):
    return flow.shape[0]
"""


@pytest.mark.parametrize(
    ("forward", "call", "written"),
    [
        ("out = net(x)", "show(2 * out[0], 3)", "out = net(x).float()"),
        ("out = net(x)", "count(out)", "out = net(x).float()"),
        ("out, found = net(x)", "show(found, 3)", "show(found, 3)"),
    ],
    ids=["array", "size", "may be whole numbers"],
)
def test_what_a_function_elsewhere_gives_to_numpy_is_float32(
    tmp_path: Path, forward: str, call: str, written: str
) -> None:
    (tmp_path / "util.py").write_text(IMPORTED, encoding="utf-8")
    text = HEAD.replace("import torch\n", "import torch\nfrom util import show, count\n", 1)
    loop = f"for x in data:\n    {forward}\n    loss = out.mean()\n{STEP}    {call}\n"
    wish = replace(BFLOAT16, allow=("AMP501",))
    conversion = _converted(text + loop, wish, str(tmp_path / "train.py"))
    assert f"    {written}\n" in conversion.text


MODULE = """import torch
from torch import nn


def knn(x):
    inner = -2 * torch.matmul(x.transpose(2, 1), x)
    squares = torch.sum(x**2, dim=1, keepdim=True)
    distance = -squares - inner - squares.transpose(2, 1)
    return distance{choice}


class Net(nn.Module):
    def forward(self, x):
        return knn(x) + x.pow(2).sum().exp()
"""


@pytest.mark.parametrize(
    ("choice", "named"),
    [
        (".topk(k=3, dim=-1)[1]", "model.py:9: the nearest is chosen by distances in half"),
        (" / distance.max()", "model.py:6: squared distances by a product in half cancel"),
    ],
)
def test_distances_of_another_file_are_computed_in_float32_and_nothing_that_autocast_lifts(
    tmp_path: Path, choice: str, named: str
) -> None:
    (tmp_path / "model.py").write_text(MODULE.format(choice=choice), encoding="utf-8")
    text = HEAD.replace("from torch import nn", "from model import Net").replace("nn.Linear(4, 3)", "Net()")
    conversion = _converted(text + LOOP, FLOAT16, str(tmp_path / "train.py"))
    assert [remark.text.partition(",")[0] for remark in told(conversion)] == [named]
    assert len(conversion.others) == 1


@pytest.mark.parametrize(("move", "told"), [(".cuda()", False), ("", True)])
def test_a_file_that_stays_on_the_cpu_is_told_so(move: str, told: bool) -> None:
    left = _converted((HEAD + LOOP).replace(".cuda()", move)).left
    assert [remark.text.startswith("nothing here moves to CUDA") for remark in left] == [True] * told


def test_a_step_behind_a_constant_goes_to_the_scaler_too() -> None:
    steps = STEP.replace("    optimizer.step()", "    if not waits:\n        optimizer.step()") + "    other.step()\n"
    head = HEAD + "other = torch.optim.SGD(net.parameters(), lr=0.1)\nwaits = True\n"
    text = _converted(head + "for x in data:\n    loss = net(x).mean()\n    other.zero_grad()\n" + steps).text
    assert "scaler.step(optimizer)" in text
    assert "scaler.step(other)" in text
    assert text.count("scaler.update()") == 1


BUILT = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Linear(4, 3)
        self.size = self.main(torch.zeros(1, 4)).shape

    def forward(self, x):
        return self.main(x)


def build(kind):
    net = kind()
    return net


def main():
    net = build(Net).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in [torch.ones(2, 4).cuda()]:
        loss = net(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
"""


@pytest.mark.parametrize("made", ["build(Net)", "Net()", "torch.nn.DataParallel(Net())"])
def test_the_construction_of_a_model_stays_outside(made: str) -> None:
    assert _regions(_converted(BUILT.replace("build(Net)", made)).text) == ["loss = net(x).float().mean()"]


WRAPPED = """class Solver:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.optimizer.set_visdom(None)

    def train(self, loader):
        self.model.train()
        for x in loader:
            loss = self.model(x.cuda()).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""


def test_an_optimizer_that_can_do_more_than_those_of_pytorch_is_refused() -> None:
    (refused,) = convert(WRAPPED, FLOAT16).refused
    assert (refused.row, refused.text.partition(" is ")[0]) == (12, "self.optimizer.set_visdom()")
    assert _regions(_converted(WRAPPED, BFLOAT16).text) == ["loss = self.model(x.cuda()).float().mean()"]


PLANNED = """

def act(x):
    with torch.no_grad():
        belief = net(x)
    belief = belief.squeeze(0)
    action = planner(belief)
    return action


act(data[0])
"""


def test_a_module_that_takes_half_joins_the_region(tmp_path: Path) -> None:
    module = "from torch import nn\n\n\nclass Planner(nn.Module):\n    def forward(self, x):\n        return x\n"
    (tmp_path / "planner.py").write_text(module, encoding="utf-8")
    head = HEAD.replace("import torch\n", "import torch\nfrom planner import Planner\n", 1) + "planner = Planner()\n"
    text = _converted(head + LOOP + PLANNED, FLOAT16, str(tmp_path / "train.py")).text
    assert any("action = to_float32(planner(belief))" in region for region in _regions(text))


@pytest.mark.parametrize(
    ("call", "said"),
    [("gnn_spmm(x, x)", "a sparse tensor"), ("odeint(f, x, t)", "a solver gets what half has rounded"), ("f(x)", "")],
)
def test_sparse_products_by_name_and_solvers_are_named(tmp_path: Path, call: str, said: str) -> None:
    model = f"from torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return {call}\n"
    (tmp_path / "model.py").write_text(model, encoding="utf-8")
    text = HEAD.replace("from torch import nn", "from model import Net").replace("nn.Linear(4, 3)", "Net()")
    left = _converted(text + LOOP, FLOAT16, str(tmp_path / "train.py")).left
    assert [remark.text.startswith(f"model.py:6: {said}") for remark in left] == [True] * bool(said)


SHOWN = """import nets
import torch


def show(out):
    print(out[0].cpu().data.numpy())


net = nets.build()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in [torch.ones(2, 4).cuda()]:
    if x.sum() > 1:
        out, seen = net(x)
    else:
        out, seen = None, None
    loss = out.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show(seen)
"""


def test_what_may_be_half_for_numpy_is_cast() -> None:
    conversion = _converted(SHOWN, BFLOAT16)
    assert conversion.left == ()
    assert "out, seen = to_float32(net(x))" in conversion.text
    assert _converted(SHOWN).left == ()


def test_a_loss_of_probabilities_behind_the_region_gets_float32() -> None:
    text = HEAD.replace("nn.Linear", "nets.build").replace("import torch\n", "import torch\nimport nets\n", 1)
    loop = "criterion = nn.BCELoss()\nfor x in data:\n    loss = criterion(net(x), x.float())\n" + STEP
    loop = loop.replace("criterion(net(x)", "criterion(y").replace("    loss =", "    y = net(x)\n    loss =")
    assert _regions(_converted(text + loop).text) == ["y = net(x).float()"]


HELPER = """import torch as th
from torch import nn


class Learner:
    def __init__(self):
        self.critic = nn.Linear(4, 1).cuda()
        self.optimizer = th.optim.Adam(self.critic.parameters(), 1e-3)

    def fit(self, x):
        self.descend(self.optimizer, self.loss(x))
        value = self.critic(x).mean()
        self.descend(self.optimizer, value)

    @staticmethod
    def descend(optimizer, objective):
        optimizer.zero_grad()
        objective.backward()
        optimizer.step()
"""


def test_a_static_method_gets_no_object_and_pytorch_keeps_its_name() -> None:
    text = _converted(HELPER.replace("        self.descend(self.optimizer, self.loss(x))\n", "")).text
    assert '        with th.autocast(device_type="cuda", dtype=th.float16):\n            value =' in text
    assert "self.scaler = th.amp.GradScaler(" in text
    assert "        self.descend(self.optimizer, self.scaler, value)\n" in text
    assert "import torch\n" not in text


def test_labels_that_a_frozen_model_chooses_stay_float32() -> None:
    loop = (
        "ce = nn.CrossEntropyLoss()\nfor x in data:\n    with torch.no_grad():\n        codes = frozen.encode(x)[2]\n"
    )
    loop += "    out = net(x)\n    loss = ce(out, codes)\n"
    head = HEAD.replace("import torch\n", "import torch\nimport zoo\n", 1) + "frozen = zoo.tokenizer().cuda().eval()\n"
    assert _regions(_converted(head + loop + STEP).text) == ["out = net(x)\nloss = ce(out.float(), codes)"]


def test_a_class_of_a_module_with_the_name_of_the_model_is_made_outside() -> None:
    head = HEAD.replace("import torch\n", "import torch\nimport net\n", 1).replace(
        "nn.Linear(4, 3)", "net.Ranker(4, 3)"
    )
    assert _regions(_converted(head + LOOP).text) == ["loss = net(x).float().mean()"]


def test_outputs_with_keys_are_no_tensors() -> None:
    loop = 'for x in data:\n    out = net(x)\n    part = out["part"]\n    whole = torch.zeros(2, 4)\n'
    loop += '    whole[:, 0] = part\n    out["part"] = whole\n    loss = out["part"].mean()\n'
    text = _converted(HEAD.replace("nn.Linear(4, 3)", "zoo.make()") + loop + STEP, BFLOAT16).text
    assert "net(x).float()" not in text


@pytest.mark.parametrize(("wish", "said"), [(FLOAT16, 0), (BFLOAT16, 1)])
def test_replicas_that_do_not_get_the_dtype_of_the_region_are_named(wish: Wish, said: int) -> None:
    text = HEAD.replace("nn.Linear(4, 3)", "nn.DataParallel(nn.Linear(4, 3))") + LOOP
    checks = [remark for remark in _converted(text, wish).left if "DataParallel" in remark.text]
    assert [remark.row for remark in checks] == [4] * said
