"""Models, losses and training loops of classes that a setting chooses, or that override a part of a loop."""

from __future__ import annotations

import textwrap

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

RULES = load_registry().rules
HEAD = """
import torch
from torch import nn
from torch.nn import functional as F
from torch.amp import GradScaler, autocast

"""
MODELS = """
class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x, y):
        return F.mse_loss(self.layer(x), y)

class Big(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x, y):
        return F.binary_cross_entropy(self.layer(x).sigmoid(), y)

def build(args):
    if args.big:
        return Big()
    return Small()

def run(model, loader):
    optimizer, scaler = torch.optim.SGD(model.parameters()), GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with autocast("cuda"):
            loss = model(x.cuda(), y.cuda())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

def main(args, loader):
"""


def told(code: str, program: str) -> int:
    """The number of findings of a rule in a program."""
    job = Job("program.py", "", (HEAD + program).encode(), (RULES[code],), asked=frozenset())
    return len(analyse(job, Modules()).findings)


@pytest.mark.parametrize(
    "made",
    [
        "model = Big() if args.big else Small()",
        "model = (Big if args.big else Small)()",
        "model = {'big': Big, 'small': Small}[args.model]()",
        "model = build(args)",
        "model = None\nif args.big:\n    model = Big()\nelse:\n    model = Small()",
        "if args.model == 'big':\n    cls = Big\nelif args.model == 'small':\n    cls = Small\nmodel = cls()",
    ],
)
@pytest.mark.parametrize("moved", ["model.cuda()", "nn.parallel.DistributedDataParallel(model.cuda())"])
def test_each_of_several_models_is_run(made: str, moved: str) -> None:
    assert told("AMP404", MODELS + textwrap.indent(f"{made}\nmodel = {moved}\nrun(model, loader)\n", "    ")) == 1


@pytest.mark.parametrize(
    "loss",
    [
        "{'bce': F.binary_cross_entropy, 'mse': F.mse_loss}[args.loss]",
        "{'bce': nn.BCELoss(), 'mse': nn.MSELoss()}[args.loss]",
    ],
)
def test_each_of_several_losses_is_computed(loss: str) -> None:
    program = f"""
def main(args, loader):
    model, loss_of = nn.Linear(4, 1).cuda(), {loss}
    for x, y in loader:
        with autocast("cuda"):
            loss = loss_of(model(x.cuda()).sigmoid(), y.cuda())
        loss.backward()
"""
    assert told("AMP404", program) == 1


LOOPS = """
class Plain:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def begin(self, loss):
        loss.backward()

    def finish(self):
        {plain}

class Scaled:
    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.scaler = model, optimizer, GradScaler("cuda")

    def begin(self, loss):
        self.scaler.scale(loss).backward()

    def finish(self):
        {scaled}

def main(args, loader):
    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters())
    steps = Scaled(model, optimizer) if args.amp else Plain(model, optimizer)
    for x, y in loader:
        optimizer.zero_grad()
        with autocast("cuda", enabled=args.amp):
            loss = F.mse_loss(model(x.cuda()), y.cuda())
        steps.begin(loss)
        steps.finish()
"""
STEP = "self.scaler.step(self.optimizer); self.scaler.update()"


@pytest.mark.parametrize("code", ["AMP203", "AMP205", "AMP206", "AMP207", "AMP221"])
def test_a_path_takes_one_of_several_objects(code: str) -> None:
    assert told(code, LOOPS.format(plain="self.optimizer.step()", scaled=STEP)) == 0


@pytest.mark.parametrize(
    ("code", "finish"), [("AMP206", "self.optimizer.step()"), ("AMP203", "self.scaler.step(self.optimizer)")]
)
def test_the_methods_of_one_of_several_objects_follow_one_another(code: str, finish: str) -> None:
    assert told(code, LOOPS.format(plain="self.optimizer.step()", scaled=finish)) == 1


HOOKS = """
class Loop:
    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.scaler = model, optimizer, GradScaler("cuda")

    def fit(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            with autocast("cuda"):
                loss = self.loss(self.model(x), y)
            self.scaler.scale(loss).backward()
            self.behind_backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def loss(self, outputs, targets):
        raise NotImplementedError

    def behind_backward(self):
        pass

class Own(Loop):
    def loss(self, outputs, targets):
        return {loss}

    def behind_backward(self):
        {behind}
"""
CLIP = "nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)"


@pytest.mark.parametrize(
    ("code", "loss", "behind", "count"),
    [
        ("AMP205", "F.mse_loss(outputs, targets)", CLIP, 1),
        ("AMP205", "F.mse_loss(outputs, targets)", f"self.scaler.unscale_(self.optimizer); {CLIP}", 0),
        ("AMP404", "F.binary_cross_entropy(outputs.sigmoid(), targets)", "pass", 1),
        ("AMP404", "F.binary_cross_entropy_with_logits(outputs, targets)", "pass", 0),
    ],
)
def test_an_inherited_loop_runs_the_parts_that_a_class_overrides(code: str, loss: str, behind: str, count: int) -> None:
    assert told(code, HOOKS.format(loss=loss, behind=behind)) == count


HALVES = """
from zoo import large, small

def main(args, loader):
    if args.large:
        model = large().cuda().{one}()
    else:
        model = small().cuda().{other}()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.mse_loss(model(x.half()).float(), y).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("other", "count"), [("half", 1), ("bfloat16", 0), ("eval", 0)])
def test_two_models_in_half_are_one_in_half(other: str, count: int) -> None:
    assert told("AMP409", HALVES.format(one="half", other=other)) == count


PARTS = """
def clip(model):
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)

def begin(loss, scaler):
    scaler.scale(loss).backward()

def begin_plainly(loss, scaler):
    loss.backward()

def fit(model, optimizer, loader, behind=None):
    scaler = GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with autocast("cuda"):
            loss = F.mse_loss(model(x.cuda()), y.cuda())
        scaler.scale(loss).backward()
        if behind is not None:
            behind(model)
        scaler.step(optimizer)
        scaler.update()

def main(args, loader):
    model = nn.Linear(4, 1).cuda()
    optimizer, scaler = torch.optim.SGD(model.parameters()), GradScaler("cuda")
    {body}
"""


@pytest.mark.parametrize("given", ["clip", "behind=clip"])
def test_a_function_is_followed_that_another_one_gets(given: str) -> None:
    assert told("AMP205", PARTS.format(body=f"fit(model, optimizer, loader, {given})")) == 1


CHOSEN = """
    back = {made}
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x.cuda()), y.cuda())
        back(loss, scaler)
        if {condition}:
            {unscales}
            clip(model)
            scaler.step(optimizer)
            scaler.update()
        else:
            clip(model)
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "condition"),
    [
        ("begin if args.amp else begin_plainly", "args.amp"),
        ("{'amp': begin, 'plain': begin_plainly}[args.mode]", "args.mode == 'amp'"),
    ],
)
@pytest.mark.parametrize(("unscales", "count"), [("pass", 1), ("scaler.unscale_(optimizer)", 0)])
def test_a_path_calls_one_of_several_functions(made: str, condition: str, unscales: str, count: int) -> None:
    program = PARTS.format(body=CHOSEN.format(made=made, condition=condition, unscales=unscales))
    assert told("AMP205", program) == count
    assert told("AMP206", program) == told("AMP207", program) == 0
