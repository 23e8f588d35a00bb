"""`--to amp` on trainers whose scalers, models, losses and plots stand in several places of a package."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.codemods import Wish, convert
from amplint.codemods.conversion import Conversion


def _converted(tmp_path: Path, text: str, dtype: str = "float16", **others: str) -> Conversion:
    for name, code in others.items():
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    path = tmp_path / "train.py"
    path.write_text(text, encoding="utf-8")
    return convert(text, Wish(to="amp", dtype=dtype), str(path))


def _remarks(conversion: Conversion) -> str:
    return "\n".join(one.text for one in (*conversion.left, *conversion.cured))


TRAINER = """import torch
from torch import nn


class Trainer:
    def __init__(self, model, criterion):
        self.model = model
        self.criterion = criterion

    def train(self, loader, optimizer):
        self.model.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(x.cuda()), y.cuda())
            loss.backward()
            optimizer.step()
"""


def test_an_object_keeps_the_scaler_of_an_optimizer_that_a_method_is_given(tmp_path: Path) -> None:
    text = _converted(tmp_path, TRAINER).text
    assert '        self.criterion = criterion\n        self.scaler = torch.amp.GradScaler("cuda")\n' in text
    assert "self.scaler.step(optimizer)\n            self.scaler.update()\n" in text
    assert "def train(self, loader, optimizer):\n" in text


SCHEDULED = """import torch
from torch import nn


def run(model, loader, schedule):
    optimizer = schedule.optimizer
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
    schedule.step()


def main(loader):
    model = nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    for epoch in range(4):
        run(model, loader, schedule)
"""


def test_an_optimizer_that_comes_with_its_schedule_has_one_scaler(tmp_path: Path) -> None:
    text = _converted(tmp_path, SCHEDULED).text
    assert "def run(model, loader, schedule, scaler):\n" in text
    assert 'StepLR(optimizer, 10)\n    scaler = torch.amp.GradScaler("cuda")\n' in text
    assert "        run(model, loader, schedule, scaler)\n" in text


BRANCHES = """import torch
from torch import nn

net, other = nn.Linear(4, 4).cuda(), nn.Linear(4, 4).cuda()
first = torch.optim.SGD(net.parameters(), lr=0.1)
second = torch.optim.SGD(other.parameters(), lr=0.1)


def step(x, both):
    first.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    if not both:
        first.step()
    else:
        second.zero_grad()
        loss = other(x).pow(2).mean()
        loss.backward()
        first.step()
        second.step()


for x in [torch.ones(2, 4).cuda()]:
    step(x, True)
"""


def test_branches_that_step_one_optimizer_share_an_update(tmp_path: Path) -> None:
    text = _converted(tmp_path, BRANCHES).text
    assert "        scaler.step(first)\n        scaler.step(second)\n    scaler.update()\n" in text
    assert text.count("scaler.update()") == 1


SETTINGS = """import torch
from torch import nn
from settings import Settings


class Agent:
    @staticmethod
    def defaults(updates=None):
        settings = Settings()
        settings.extra = False
        if updates is not None:
            settings.update(updates)
        return settings

    def __init__(self, settings):
        self.settings = Agent.defaults(settings)
        self.net = nn.Linear(4, 4).cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self, x):
        \"\"\" The prediction \"\"\"
        out = self.net(x)
        \"\"\" The losses \"\"\"
        loss = out.pow(2).mean()
        if self.settings.extra:
            more = out.abs().mean()
            more.backward(retain_graph=True)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""


def test_a_backward_pass_behind_a_setting_that_is_off_is_scaled(tmp_path: Path) -> None:
    text = _converted(tmp_path, SETTINGS).text
    assert "self.scaler.scale(more).backward(retain_graph=True)" in text


def test_headlines_in_strings_stay_where_they_are(tmp_path: Path) -> None:
    lines = [one.strip() for one in _converted(tmp_path, SETTINGS, "bfloat16").text.splitlines()]
    at = lines.index('""" The losses """')
    assert (lines[at - 1], lines[at + 1]) == ("out = self.net(x).float()", "loss = out.pow(2).mean()")


LOOP = """import torch
from torch import nn
{imports}
net = {net}.cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
{made}
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    out = net(x)
    {between}
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {behind}
"""


def _loop(**parts: str) -> str:
    plain = {"imports": "", "net": "nn.Linear(4, 4)", "made": "", "between": "pass", "behind": "pass"}
    return LOOP.format(**{**plain, "loss": "(out - y).pow(2).mean()", **parts})


def test_what_a_meter_is_told_of_numbers_moves_below_the_region(tmp_path: Path) -> None:
    text = _loop(between='error = (out - y).abs().mean()\n    meter.add({"error": error.item()})', loss="error * 2")
    text = text.replace("net = ", "from meters import meter\nnet = ", 1)
    after = _converted(tmp_path, text, "bfloat16").text
    assert '\n    meter.add({"error": error.item()})\n' in after


@pytest.mark.parametrize(("asked", "cast"), [("tuple", False), ("nn.Module", True)])
def test_what_may_be_a_tuple_is_cast_by_a_function(tmp_path: Path, asked: str, *, cast: bool) -> None:
    behind = f"print(out.mean() if not isinstance(out, {asked}) else 0)\n    show(out)"
    text = _loop(imports="from plots import made, show", net="made()", behind=behind)
    text = _converted(tmp_path, text.replace("(out - y)", "(y - out)"), "bfloat16").text
    assert f"out = {'net(x).float()' if cast else 'to_float32(net(x))'}\n" in text


def test_what_code_out_of_sight_is_given_leaves_the_region_in_float32(tmp_path: Path) -> None:
    text = _loop(imports="from plots import show", behind="show(out[0])")
    for dtype in ("float16", "bfloat16"):
        assert "out = net(x).float()" in _converted(tmp_path, text, dtype).text


WINDOWS = """import torch
from torch import nn

net = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    for part in range(2):
        loss = net(torch.ones(2, 4).cuda()).pow(2).mean()
        loss = loss / 2
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"{step}: {loss:8.4f}")
"""


def test_a_divided_loss_that_was_printed_before_refuses_nothing(tmp_path: Path) -> None:
    assert _converted(tmp_path, WINDOWS).refused == ()


SAMPLER = """import torch


class Sampler:
    def __init__(self, method):
        self.give = self.near if method == "near" else self.any

    def near(self, batch):
        product = torch.mm(batch, batch.t())
        norm = product.diag().unsqueeze(1).expand_as(product)
        return (norm + norm.t() - 2 * product).clamp(min=0)

    def any(self, batch):
        return batch

    def __call__(self, batch):
        return self.give(batch)


class Criterion(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.sampler = Sampler("near")

    def forward(self, out, y):
        return self.sampler(out).mean()


def select(name, settings):
    criterion = Criterion()
    return criterion, settings
"""


def test_a_method_that_a_constructor_chooses_runs_in_the_region(tmp_path: Path) -> None:
    stored = SAMPLER.replace('self.near if method == "near" else self.any', "self.near")
    stored = stored.replace("out, y):", "net, x):").replace("self.sampler(out)", "self.sampler(net(x))")
    text = _loop(imports="from losses import select", made='criterion, _ = select("a", {})', loss="criterion(net, x)")
    conversion = _converted(tmp_path, text, losses=stored)
    (other,) = conversion.others
    assert b"product = torch.mm(batch.float(), batch.t().float())" in other.after


EIGENVECTORS = """import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return smallest(self.layer(x))


def vectors(matrices):
    return torch.linalg.eigh(matrices.cpu())[1]


def smallest(x):
    moments = torch.matmul(x.permute(1, 0), x)
    return vectors(moments)[:, 0]
"""


def test_products_that_a_caller_decomposes_are_computed_in_float32(tmp_path: Path) -> None:
    conversion = _converted(tmp_path, _loop(imports="from nets import Net", net="Net()"), "bfloat16", nets=EIGENVECTORS)
    (other,) = conversion.others
    assert b"torch.matmul(x.permute(1, 0).float(), x.float())" in other.after


KERNEL = """import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

KERNEL = None


def load_kernel():
    from torch.utils.cpp_extension import load

    return load(name="kernel", sources=["kernel.cu"])


class Bend(Function):
    @staticmethod
    def forward(ctx, x):
        return KERNEL.forward(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return KERNEL.backward(grad)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        global KERNEL
        KERNEL = load_kernel()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return Bend.apply(self.layer(x))
"""


def test_a_kernel_that_a_file_compiles_gets_float32(tmp_path: Path) -> None:
    conversion = _converted(tmp_path, _loop(imports="from nets import Net", net="Net()"), nets=KERNEL)
    (other,) = conversion.others
    assert b'    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)\n    def forward' in other.after
    assert b'    @once_differentiable\n    @torch.amp.custom_bwd(device_type="cuda")\n    def backward' in other.after


def test_a_model_of_a_package_is_found_by_its_path(tmp_path: Path) -> None:
    package = tmp_path / "tool"
    package.mkdir()
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    (package / "__init__.py").write_text("import tool.nets\nimport tool.trainer\n", encoding="utf-8")
    (package / "nets.py").write_text(EIGENVECTORS, encoding="utf-8")
    (package / "trainer.py").write_text(TRAINER, encoding="utf-8")
    run = "import tool\n\nmodel = tool.nets.Net()\ntool.trainer.Trainer(model, None).train([], None)\n"
    (tmp_path / "run.py").write_text(run, encoding="utf-8")
    conversion = convert(TRAINER, Wish(to="amp", dtype="bfloat16"), str(package / "trainer.py"))
    assert [Path(one.path).name for one in conversion.others] == ["nets.py"]


CHECKED = """import torch
from torch import nn
from nets import rotate


def train(net, loader):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    best = 0
    for x, y in loader:
        loss = (net(x.cuda()) - y.cuda()).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        best = rotate(net, x)
        torch.save({"best": best}, "net.pt")


train(nn.Linear(4, 4).cuda(), [])
"""
ROTATE = """import torch


def rotate(net, x):
    with torch.no_grad():
        return torch.matmul(x.view(-1, 3, 3), x.new_ones(3, 1))
"""


def test_what_a_library_is_given_is_no_part_of_it(tmp_path: Path) -> None:
    assert _converted(tmp_path, CHECKED, nets=ROTATE).others == ()


RESUMED = """import torch
from torch import nn


class Trainer:
    def __init__(self, net, resume):
        self.net = net
        if resume:
            kept = torch.load("best.pt")
            net.load_state_dict(kept["model"])
            self.optimizer = self.make(state=kept["optimizer"])
        else:
            self.optimizer = self.make()

    def make(self, state=None):
        optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        if state is not None:
            optimizer.load_state_dict(state)
        return optimizer

    def save(self):
        torch.save({"model": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}, "best.pt")

    def train(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            loss = (self.net(x.cuda()) - y.cuda()).pow(2).mean()
            loss.backward()
            self.optimizer.step()
        self.save()


Trainer(nn.Linear(4, 4).cuda(), False).train([])
"""


def test_a_scaler_that_cannot_be_restored_is_not_saved(tmp_path: Path) -> None:
    conversion = _converted(tmp_path, RESUMED)
    assert "scaler.step(self.optimizer)" in conversion.text
    assert "scaler.state_dict()" not in conversion.text


IN_PARALLEL = """import torch
from torch import nn
from torch.nn.parallel import data_parallel


class Trainer:
    def __init__(self, net):
        self.net = net.cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            out = data_parallel(self.net, x, device_ids=[0])
            loss = nn.functional.mse_loss(out, y)
            loss.backward()
            self.optimizer.step()

    def check(self, loader):
        self.net.eval()
        with torch.no_grad():
            for x, y in loader:
                out = data_parallel(self.net, x, device_ids=[0])
                print(nn.functional.mse_loss(out, y).item())
"""


def test_evaluation_by_data_parallel_gets_a_region(tmp_path: Path) -> None:
    assert _converted(tmp_path, IN_PARALLEL, "bfloat16").text.count("torch.autocast(") == 2


GENERATED = """import torch
from torch import nn


class Model:
    def __init__(self):
        self.net = nn.Linear(4, 4).cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def forward(self):
        self.fake = self.net.forward(self.real)

    def predict(self, x):
        shown = self.net.forward(x)
        return shown

    def optimize(self):
        self.forward()
        self.optimizer.zero_grad()
        self.loss = self.fake.pow(2).mean()
        self.loss.backward()
        self.optimizer.step()
"""


def test_a_forward_pass_that_stays_float32_beside_that_of_a_method_is_named(tmp_path: Path) -> None:
    assert "this runs in float32 what trains in half" in _remarks(_converted(tmp_path, GENERATED, "bfloat16"))


LEARNED = """import torch


class Learner:
    def __init__(self, model, loader):
        self.model = model
        self.loader = loader
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(self):
        self.model.train()
        for batch in self.loader:
            loss, told = self.model.loss(*batch)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
"""


def test_a_loss_that_an_unseen_model_computes_is_named(tmp_path: Path) -> None:
    assert "this computes a loss out of sight" in _remarks(_converted(tmp_path, LEARNED, "bfloat16"))


LABELLED = """import torch


class Criterion(torch.nn.Module):
    def forward(self, out, labels, batch):
        known = {value}
        return out.pow(2).mean() * float(known.size)
"""


@pytest.mark.parametrize("value", ["labels.cpu().numpy()", 'batch["image"].cpu().numpy()', "torch.zeros(2).numpy()"])
def test_arrays_of_what_a_loader_gives_are_not_named(tmp_path: Path, value: str) -> None:
    text = _loop(imports="from losses import Criterion", made="criterion = Criterion()", loss="criterion(out, y, data)")
    conversion = _converted(tmp_path, text, "bfloat16", losses=LABELLED.format(value=value))
    assert "AMP501" not in _remarks(conversion)
    assert conversion.others == ()


GUARDED = """import torch
from torch import nn


def step(net, optimizer, x):
    loss = net(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    for name, weight in net.named_parameters():
        if torch.any(torch.isnan(weight.grad)):
            print("skipped")
            return 0
    optimizer.step()
    return loss.item()


def train(loader):
    net = nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in loader:
        step(net, optimizer, x)


train([torch.ones(2, 4).cuda()])
"""


def test_a_round_that_leaves_behind_unscaled_gradients_updates_the_scaler(tmp_path: Path) -> None:
    text = _converted(tmp_path, GUARDED).text
    assert '            print("skipped")\n            scaler.update()\n            return 0\n' in text
    assert "    scaler.step(optimizer)\n    scaler.update()\n    return loss.item()\n" in text


def test_what_replicas_return_is_a_list_that_a_function_casts(tmp_path: Path) -> None:
    imports = "from torch.nn.parallel.scatter_gather import gather\nfrom plots import show"
    behind = "whole = gather(out, 0) if many else out.mean()\n    show(out)"
    text = _loop(imports=f"{imports}, made", net="made()", behind=behind)
    assert "out = to_float32(net(x))\n" in _converted(tmp_path, text, "bfloat16").text


MATCHING = """import torch


def match(scores, truth):
    distances = torch.abs(scores[:, None] - truth[None])
    return torch.argmin(distances.sum(2), dim=0)
"""
EVALUATED = """import numpy as np
import torch
from torch import nn
from matching import match


def evaluate(net, loader, colors):
    with torch.no_grad():
        for x, y in loader:
            out = net(x)
            chosen = match(out, y)
            print(colors[chosen.cpu().numpy()])


def train(loader):
    net = nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    evaluate(net, loader, np.eye(4))


train([])
"""


def test_indices_that_another_file_returns_stay_whole_numbers(tmp_path: Path) -> None:
    text = _converted(tmp_path, EVALUATED, "bfloat16", matching=MATCHING).text
    assert "print(colors[chosen.cpu().numpy()])" in text


CRITERION = """import numpy as np
import torch


def train(model, loader, criterion, optimizer):
    model.train()
    for x, y in loader:
        loss, out = criterion(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(np.argmax(out.data.cpu().numpy(), axis=1))
"""


def test_what_a_criterion_returns_of_its_model_is_cast_for_numpy(tmp_path: Path) -> None:
    text = _converted(tmp_path, CRITERION, "bfloat16").text
    assert "            loss, out = (output.float() for output in criterion(model, x, y))\n" in text
    assert "np.argmax(out.data.cpu().numpy(), axis=1)" in text


ELSEWHERE = """import torch


def evaluate(net, loader):
    net.eval()
    with torch.no_grad():
        for x, y in loader:
            out = net(x)
            print((out - y).abs().mean().item())
"""


def test_evaluation_in_another_file_that_stays_float32_is_named(tmp_path: Path) -> None:
    text = _loop(imports="from checks import evaluate").replace("\n    pass\n", "\n    net.train()\n", 1)
    conversion = _converted(tmp_path, text + "evaluate(net, [])\n", checks=ELSEWHERE)
    assert "checks.py:8: net is evaluated without autocast and trained under it" in _remarks(conversion)
