"""A finding that is there only because of a name says so, and one with other evidence says nothing of names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Finding, Guessed
from amplint.semantics import words
from amplint.semantics.words import GUESSES, Guess
from docs.generate import GUESSES_PAGE

RULES = load_registry().rules
LOOP = """
import argparse, torch
from torch import nn

args = argparse.ArgumentParser().parse_args()
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
{before}
for batch in {batches}:
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(batch).mean(){divided}
    {backward}
    {step}
"""
FIXED_DEVICE = """
import torch

def run(net, loader, {device}):
    net = net.to({device})
    for batch in loader:
        with torch.autocast("cuda"):
            yield net(batch.to({device}))
"""
TURNS = """
import torch
from torch import nn
from rates import made

class Turns(nn.Module):
    def forward(self, positions):
        {rates} = {made}
        return torch.einsum("i,j->ij", {given}, {rates})
"""
TEMPLATE = """
import torch
from torch import nn

class Loop:
    def __init__(self):
        self.net = nn.Linear(4, 1)

    def forward_step(self, batch):
        {forward}

    def train(self, loader):
        optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        for batch in loader:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = self.forward_step(batch).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    @torch.no_grad()
    def validate(self, loader):
        for batch in loader:
            self.forward_step(batch)
"""
RATES = "1.0 / 100 ** (torch.arange(0, 8, 2) / 8)"
STEP = "scaler.step(optimizer)\n    scaler.update()\n    optimizer.zero_grad()"


def loop(
    *, before: str = "", batches: str = "range(9)", divided: str = "", backward: str = "", step: str = STEP
) -> str:
    """A training loop with something else in one place."""
    backward = backward or "scaler.scale(loss).backward()"
    return LOOP.format(before=before, batches=batches, divided=divided, backward=backward, step=step)


def handed(optimizer: str) -> str:
    """A function that is handed an `optimizer` and steps it."""
    return f"""
import torch

def train(net, batches, {optimizer}, scaler):
    for batch in batches:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(batch).mean()
        scaler.scale(loss).backward()
        optim.step()
"""


def checkpoint(*, save: str = "", load: str = "", made: str = "optimizer") -> str:
    """A script that saves or restores its optimizer without its scaler."""
    return f"""
import torch
from torch import nn
from storage import FusedOptimizer, load_all, save_all, store

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
wrapper = FusedOptimizer(optimizer)
scaler = torch.amp.GradScaler("cuda")
{load}
for batch in range(9):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(batch).mean()
    scaler.scale(loss).backward()
    scaler.step({made})
    scaler.update()
    model.zero_grad()
{save}
"""


def function(given: str, forward: str, backward: str, uses: str = "") -> str:
    """A custom autograd function that is applied in a region."""
    return f"""
import torch
from torch.autograd import Function
from pkg import ops_kernel, plain
import pkg

class Fused(Function):
    @staticmethod
    def forward(ctx, {given}):
        {forward}

    @staticmethod
    def backward(ctx, grad):
        {backward}

def run(self, x, other):
    with torch.autocast("cuda", dtype=torch.float16):
        return Fused.apply(x, {uses or "other"})
"""


PRODUCT = "ctx.save_for_backward({0})\n        return x @ {0}.t()"
GRADIENT = "({0},) = ctx.saved_tensors\n        return grad @ {0}, None"
BLOCK = "with torch.no_grad():\n            out = block(x)\n        ctx.block = block\n        return out"
SELF_ATTENTION = """
import torch

class Attention(torch.nn.Module):
    def forward(self, x, {name}):
        with torch.autocast("cuda", dtype=torch.float16):
            q, k = x @ x, x @ x
            scores = torch.matmul(q, k.transpose(-1, -2)) * {factor}
        return scores.softmax(-1)
"""
FED = """
import torch
from transformers import AutoModel

def evaluate(loader):
    model = AutoModel.from_pretrained("tiny")
    model.half()
    for {name} in loader:
        model({given})
"""
MOVED = """
import torch

class Runner:
    def run(self, latents):
        return {called}(latents.to(self.net.device))
"""
HALF_FOR_TRAINER = """
import torch
from {library} import AutoModel
from transformers import Trainer, TrainingArguments

model = AutoModel.from_pretrained("tiny", torch_dtype=torch.float16)
trainer = Trainer(model=model, args=TrainingArguments("out", fp16=True), train_dataset=[])
trainer.train()
"""
NORMALISED = """
import torch, torchvision
from torch import nn

model = {model}
model.half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images in [torch.ones(2, 3, 8, 8).half()]:
    optimizer.zero_grad()
    model(images).sum().backward()
    optimizer.step()
"""
EVALUATED = """
import torch
from torch import nn

class Runner:
    def __init__(self, {name}, optimizer):
        self.{name} = {name}
        self.optimizer = optimizer

    def {train}(self, batch):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = self.{name}(batch).mean()
        {backward}

    def {evaluate}(self, batch):
        {before}
        return self.{name}(batch)

{make}
runner = Runner({made}, None)
runner.{train}(1)
runner.{evaluate}(2)
"""


def evaluated(
    *, name: str = "net", train: str = "fit", backward: str = "loss.backward()", evaluate: str = "check",
    before: str = "self.net.eval()", make: str = "", made: str = "nn.Linear(4, 1)",
) -> str:  # fmt: skip
    """A model that is trained in a region and evaluated in none."""
    return EVALUATED.format(
        name=name, train=train, backward=backward, evaluate=evaluate, before=before, make=make, made=made
    )


SHARDED = """
import torch
from factory import build_optimizer
from torch.distributed.fsdp import FullyShardedDataParallel

def main(net):
    model = FullyShardedDataParallel(net)
    optimizer = {made}
    scaler = torch.amp.GradScaler("cuda")
    fit(model, optimizer, scaler)
"""
AVERAGED = """
import copy, torch

class {cls}:
    def __init__(self, model):
        self.{kept} = copy.deepcopy(model).half()

    def update(self, model):
        for name, value in self.{kept}.state_dict().items():
            value *= 0.9
            value += 0.1 * model.state_dict()[name]
"""
WINDOW = (
    "scaler.scale(loss).backward()\n    print(f'loss {{loss.item()}}')\n    if {ends}:\n"
    "        scaler.step(optimizer)\n        scaler.update()\n        optimizer.zero_grad()"
)
MICRO = """
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = []
for epoch in range(3):
    {outer}
"""
INNER = """for {name} in range(4):
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()"""
OUTER = """for i, batch in enumerate(loader):
        loss = model(batch).mean()
        loss.backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()"""
BY_FLAG = """
import torch

def step(net, batch, optimizer, {flag}, scaler):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = net(batch).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    if {condition}:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
BY_COUNT = """
import torch

def train(net, batches, optimizer, scaler):
    for i, batch in enumerate(batches):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(batch).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if (i + 1) % 4 == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
LOST = """
import torch
from torch import nn
from torch.utils.data import DataLoader
from pkg.bars import my_tqdm

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(torch.randn(20, 4), batch_size=4)
for epoch in range(3):
    optimizer.zero_grad()
    for i, inputs in enumerate({over}):
        loss = model(inputs).square().mean() / 2
        loss.backward()
        if (i + 1) % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
FOR_BFLOAT16 = """
import argparse, torch

parser = argparse.ArgumentParser()
args = parser.parse_args()
scaler = torch.amp.GradScaler("cuda", enabled={enabled})
with torch.autocast("cuda", dtype=torch.bfloat16):
    loss = torch.nn.Linear(4, 1)(torch.ones(2, 4)).mean()
scaler.scale(loss).backward()
"""
THREAD = """
import concurrent.futures, torch
from torch import nn

pool = concurrent.futures.ThreadPoolExecutor()

def main({given}):
    {before}
    with torch.autocast("cuda", dtype=torch.bfloat16):
        pool.submit({name}, 1)
"""
OUTPUT = """
import torch
from transformers import AutoModel

def run(batch):
    net = AutoModel.from_pretrained("tiny")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = net(batch)
    return {taken}.cpu().numpy()
"""
PART_OF_MODEL = """
import torch
from transformers import AutoModel

def run(hidden):
    net = AutoModel.from_pretrained("tiny", torch_dtype=torch.bfloat16)
    return net.{part}(hidden).cpu().numpy()
"""
LOSS_OF_HALF = """
import torch
from torch import nn
from transformers import AutoModel

def run(batch, labels, {name}):
    net = AutoModel.from_pretrained("tiny")
    with torch.autocast("cuda", dtype=torch.float16):
        out = net(batch)
    return {called}(out, labels)
"""
ASSUMED = """
import torch
{imports}

def score(x, {name}):
    {body}
"""
ANEW = """
import torch

def {name}(net, batches, {optimizer}):
    scaler = torch.amp.GradScaler("cuda")
    for batch in batches:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(batch).mean()
        scaler.scale(loss).backward()
        scaler.step(optim)
        scaler.update()
        optim.zero_grad()
"""
STORED = """
import torch

class Field(torch.nn.Module):
    def forward(self, x, {name}):
        found = self.density(x)
        wide = torch.zeros(4, dtype=torch.float32, device=x.device)
        wide[{index}] = found
        return wide
"""

SHIFTED = """
import torch

def shifted(x: torch.Tensor, mean):
    return x - {made}
"""
EXPECTED = Path(__file__).parent / "golden" / "expected"
FIXTURES = Path(__file__).parents[1] / "fixtures"
HANDED_ON = """
import torch
from torch import nn
from engine import Trainer

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer.load_state_dict(torch.load("x"))
scaler = torch.amp.GradScaler("cuda")
Trainer(model, optimizer, scaler).run()
torch.save(optimizer.state_dict(), "x")
"""
CASES: dict[str, tuple[str, str, str]] = {
    "MASK": (
        "AMP401",
        ASSUMED.format(imports="", name="mask", body="return (1.0 - mask) * -1e9"),
        ASSUMED.format(imports="", name="mask: torch.Tensor", body="return (1.0 - mask) * -1e9"),
    ),
    "EPSILON": (
        "AMP401",
        ASSUMED.format(imports="", name="eps", body="y = torch.log(x + eps)\n    return (1.0 - x) * -1e9"),
        ASSUMED.format(imports="", name="eps", body="y = torch.log(x)\n    return (1.0 - x) * -1e9"),
    ),
    "TORCH_MODULES": (
        "AMP401",
        ASSUMED.format(imports="from own import F", name="n", body="y = F.softmax(x)\n    return (1.0 - x) * -1e9"),
        ASSUMED.format(
            imports="import torch.nn.functional as F", name="n", body="y = F.softmax(x)\n    return (1.0 - x) * -1e9"
        ),
    ),
    "ROUTING": (
        "AMP408",
        ASSUMED.format(imports="", name="n", body="gates = torch.softmax(x, -1)\n    return gates"),
        "",
    ),
    "FILLS_BY_MASK": (
        "AMP401",
        ASSUMED.format(imports="from own import fill_where", name="mask", body="return fill_where(x, mask, -1e9)"),
        ASSUMED.format(imports="", name="mask", body="return x.masked_fill(mask, -1e9)"),
    ),
    "NEARLY_INFINITE": (
        "AMP401",
        ASSUMED.format(imports="from own import NEAR_INF", name="mask", body="return x.masked_fill(mask, -NEAR_INF)"),
        ASSUMED.format(imports="NEAR_INF = 1e20", name="mask", body="return x.masked_fill(mask, -NEAR_INF)"),
    ),
    "INDICES": (
        "AMP502",
        STORED.format(name="indices", index="indices"),
        STORED.format(name="indices: torch.Tensor", index="indices"),
    ),
    "STATISTICS": (
        "AMP504",
        SHIFTED.format(made="torch.tensor(mean, device=x.device)"),
        SHIFTED.format(made="torch.tensor([0.5], device=x.device)"),
    ),
    "FREQUENCY": (
        "AMP406",
        TURNS.format(rates="freqs", given="torch.arange(5000).float()", made="made()"),
        TURNS.format(rates="freqs", given="torch.arange(5000).float()", made=RATES),
    ),
    "POSITION": (
        "AMP406",
        TURNS.format(rates="freqs", given="positions.float()", made="made()"),
        TURNS.format(rates="freqs", given="positions.float()", made=RATES),
    ),
    "TIMESTEPS": (
        "AMP406",
        "import torch\n\ndef f(net, timestep):\n    return net(timestep.to(torch.bfloat16))\n",
        TURNS.format(rates="freqs", given="torch.arange(5000).float()", made=RATES),
    ),
    "EMBEDS_TIMESTEPS": (
        "AMP406",
        "import torch\n\ndef f(net, x):\n    t = x.to(torch.bfloat16)\n    return net.t_embedder(t)\n",
        TURNS.format(rates="freqs", given="torch.arange(5000).float()", made=RATES),
    ),
    "FORWARD_STEP": (
        "AMP111",
        TEMPLATE.format(forward="raise NotImplementedError"),
        TEMPLATE.format(forward="return self.net(batch)"),
    ),
    "SCALE_FACTOR": (
        "AMP405",
        SELF_ATTENTION.format(name="scale", factor="scale"),
        SELF_ATTENTION.format(name="scale", factor="0.125"),
    ),
    "ACTIVATIONS": ("AMP502", MOVED.format(called="self.net"), MOVED.format(called="self.net.decode")),
    "FLOATING": (
        "AMP502",
        FED.format(name="images", given="images"),
        FED.format(name="images", given="torch.ones(2, 4)"),
    ),
    "LIKE_WEIGHT": (
        "AMP601",
        function("x, weight", PRODUCT.format("weight"), GRADIENT.format("weight")),
        function("x, weight", PRODUCT.format("weight"), GRADIENT.format("weight"), uses="self.weight"),
    ),
    "RUNS_BACK": (
        "AMP605",
        function("x, block", BLOCK, "return ctx.block.inverse(grad), None"),
        function("x, block", BLOCK, "return ctx.block(grad), None"),
    ),
    "KERNEL": (
        "AMP601",
        function(
            "x, points",
            "ctx.save_for_backward(x, points)\n        return ops_kernel(x, points).sum(-1)",
            "x, points = ctx.saved_tensors\n        return grad * x, grad * points",
        ),
        function(
            "x, points",
            "ctx.save_for_backward(x, points)\n        return pkg.run(x, points)",
            "x, points = ctx.saved_tensors\n        return grad * x, grad * points",
        ),
    ),
    "MODEL_NAME": (
        "AMP109",
        THREAD.format(given="model", before="", name="model"),
        THREAD.format(given="", before="model = nn.Linear(4, 1)", name="model"),
    ),
    "MODEL_MAKER": (
        "AMP109",
        THREAD.format(given="", before="import zoo\n    big = zoo.create_model()", name="big"),
        THREAD.format(given="", before="import timm\n    big = timm.create_model()", name="big"),
    ),
    "PRETRAINED": ("AMP706", HALF_FOR_TRAINER.format(library="zoo"), HALF_FOR_TRAINER.format(library="transformers")),
    "OUTPUT_FIELD": ("AMP501", OUTPUT.format(taken="out.logits"), OUTPUT.format(taken="out[0]")),
    "SUBMODEL": ("AMP501", PART_OF_MODEL.format(part="score"), PART_OF_MODEL.format(part="lm_head")),
    "TRAINING_STEP": (
        "AMP111",
        evaluated(train="training_step", backward="return loss"),
        evaluated(train="training_step"),
    ),
    "RUNS_BACKWARD_OR_CLEARS": (
        "AMP111",
        evaluated(backward="self.manual_backward(loss)"),
        evaluated(backward="loss.backward()"),
    ),
    "EVALUATES": (
        "AMP111",
        evaluated(evaluate="validate", before="batch = batch + 1"),
        evaluated(evaluate="validate"),
    ),
    "NORMALISED_MAKER": (
        "AMP411",
        NORMALISED.format(model="torchvision.models.resnet50()"),
        NORMALISED.format(model="nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))"),
    ),
    "LOSS": (
        "AMP408",
        LOSS_OF_HALF.format(name="criterion", called="criterion"),
        LOSS_OF_HALF.format(name="other", called="nn.functional.cross_entropy"),
    ),
    "SCHEDULER": (
        "AMP212",
        loop(before="scheduler = args.make()", step=f"{STEP}\n    scheduler.step()"),
        loop(before="scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)", step=f"{STEP}\n    scheduler.step()"),
    ),
    "ADVANCES_SCHEDULERS": (
        "AMP212",
        loop(before="pool = args.make()", step=f"{STEP}\n    pool.scheduler_step()"),
        loop(before="scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)", step=f"{STEP}\n    scheduler.step()"),
    ),
    "CLIPPER": (
        "AMP205",
        loop(step=f"clip(model.parameters())\n    {STEP}", before="clip = args.clip"),
        loop(step=f"torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    {STEP}"),
    ),
    "CLIPS_GRADIENTS": (
        "AMP205",
        loop(step=f"clip_gradients(model)\n    {STEP}", before="clip_gradients = args.clip_gradients"),
        loop(step=f"torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    {STEP}"),
    ),
    "MEASURES_GRADIENTS": (
        "AMP205",
        loop(step=f"get_grad_norm(model.parameters())\n    {STEP}", before="get_grad_norm = args.norm"),
        loop(step=f"norms = [p.grad.norm() for p in model.parameters()]\n    {STEP}"),
    ),
    "ONE_EPOCH": ("AMP210", ANEW.format(name="train_one_epoch", optimizer="optim"), ""),
    "OPTIMIZER_NAME": ("AMP206", handed("optim"), handed("optim: torch.optim.Optimizer")),
    "OPTIMIZER_MAKER": (
        "AMP216",
        SHARDED.format(made="build_optimizer(model.parameters())"),
        SHARDED.format(made="torch.optim.SGD(model.parameters(), lr=0.1)"),
    ),
    "SPEAKS_OF_OPTIMIZER": (
        "AMP211",
        checkpoint(made="wrapper.inner", save="torch.save(wrapper.state_dict(), 'x')"),
        checkpoint(made="wrapper.inner", save="torch.save(wrapper.inner.state_dict(), 'x')"),
    ),
    "AVERAGE": ("AMP407", AVERAGED.format(cls="Keeper", kept="ema"), ""),
    "NUMBER_OF_MICRO_BATCHES": (
        "AMP302",
        loop(before="accum = args.num_accum", divided=" * args.num_accum", backward="loss.backward()", step=""),
        loop(backward=WINDOW.format(ends="(batch + 1) % args.n == 0"), batches="range(64)", step=""),
    ),
    "COUNTS_MICRO_BATCHES": (
        "AMP222",
        loop(before="accum = args.n", divided=" / accum", backward=WINDOW.format(ends="args.last"), step=""),
        loop(
            before="accum = args.n",
            divided=" / accum",
            backward=WINDOW.format(ends="(batch + 1) % accum == 0"),
            step="",
        ),
    ),
    "SAYS_MICRO_BATCHES": (
        "AMP302",
        MICRO.format(outer=INNER.format(name="micro_step")),
        MICRO.format(outer=OUTER),
    ),
    "ENDS_WINDOW": ("AMP301", BY_FLAG.format(flag="update_grad", condition="update_grad"), BY_COUNT),
    "INSIDE_WINDOW": ("AMP301", BY_FLAG.format(flag="accumulating", condition="not accumulating"), BY_COUNT),
    "PASSES_ON": ("AMP303", LOST.format(over="my_tqdm(loader)"), LOST.format(over="loader")),
    "TRAINS": (
        "AMP211",
        HANDED_ON,
        checkpoint(load="optimizer.load_state_dict(torch.load('x'))", save="torch.save(optimizer.state_dict(), 'x')"),
    ),
    "SAVES": (
        "AMP211",
        checkpoint(save="save_all(optimizer.state_dict())"),
        checkpoint(save="torch.save(optimizer.state_dict(), 'x')"),
    ),
    "GIVES_STATE": (
        "AMP211",
        checkpoint(save="checkpoint = store()\ncheckpoint['o'] = optimizer.state_dict()"),
        checkpoint(save="checkpoint = {}\ncheckpoint['o'] = optimizer.state_dict()\ntorch.save(checkpoint, 'x')"),
    ),
    "LOADS": (
        "AMP211",
        checkpoint(load="load_all(model, optimizer)"),
        checkpoint(load="optimizer.load_state_dict(torch.load('x'))"),
    ),
    "NAMED_DEVICE": (
        "AMP106",
        FIXED_DEVICE.format(device="run_device").replace("import torch", "import torch, flash_attn"),
        FIXED_DEVICE.format(device="device"),
    ),
    "ASKS_FOR_BFLOAT16": (
        "AMP209",
        FOR_BFLOAT16.format(enabled="args.bf16"),
        FOR_BFLOAT16.format(enabled="args.precision == 'bf16'"),
    ),
}
"""By the name of a guess: the rule, a program whose finding rests on it, and one whose finding does not."""
DECIDING = {name: guess for name, guess in vars(words).items() if isinstance(guess, Guess) and guess.decides}


def lint(code: str, program: str, *, assuming: bool) -> list[Finding]:
    """What the rule `code` finds in `program`."""
    job = Job("program.py", "", program.encode(), (RULES[code],), asked=frozenset({code} if assuming else ()))
    return analyse(job, Modules()).findings


def assumes(code: str, program: str) -> bool:
    """Whether the rule finds something only where it assumes dtypes."""
    return not lint(code, program, assuming=False)


def told(findings: list[Finding]) -> set[str]:
    """What the findings take for granted by names."""
    return {guessed.meaning for finding in findings for guessed in finding.guesses}


@contextmanager
def without(guess: Guess) -> Iterator[None]:
    """Nothing is called so that this guess would apply."""
    guess.__dict__["search"] = lambda name: None
    try:
        yield
    finally:
        del guess.__dict__["search"]


ANNOTATED = {
    "MODEL_NAME": THREAD.format(given="model: nn.Module", before="", name="model"),
    "SCHEDULER": handed("scheduler: torch.optim.lr_scheduler.LRScheduler, optim").replace(
        "optim.step()", "scaler.step(optim)\n        scaler.update()\n        scheduler.step()"
    ),
}
"""Other programs whose finding rests on no guess of this name, since an annotation tells."""


def weight(findings: list[Finding]) -> int:
    """The severities, added up: without what it rests on, a finding is gone or an info."""
    return sum(finding.severity for finding in findings)


@pytest.mark.parametrize("name", ANNOTATED)
def test_an_annotation_is_evidence(name: str) -> None:
    found = lint(CASES[name][0], ANNOTATED[name], assuming=False)
    assert found
    assert not told(found)


def test_every_guess_that_decides_has_a_case() -> None:
    assert CASES.keys() == DECIDING.keys()


def test_only_such_guesses_are_told() -> None:
    others = [guess for guess in GUESSES if not guess.decides]
    assert len(others) + len(DECIDING) == len(GUESSES)
    with pytest.raises(AssertionError):
        others[0].guesses("x")


def test_rules_name_the_fields_they_go_by() -> None:
    semantics = Path(__file__).parents[1] / "amplint" / "semantics"
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(semantics.rglob("*.py")))
    fields = {*re.findall(r'\.guesses\([^\n]*, "(\w+)"\)', text), *re.findall(r'about="(\w+)"', text)}
    assert fields
    for rule in RULES.values():
        used = {field for field in fields if re.search(rf"\.{field}\b", inspect.getsource(rule))}
        assert used == set(rule.goes_by) or not rule.handlers(), rule.code


@pytest.mark.parametrize("guess", DECIDING.values(), ids=lambda guess: guess.name)
def test_names_that_are_known_match_and_are_not_told(guess: Guess) -> None:
    for known in guess.known:
        name = f"{known}{guess.examples[0].rpartition('.')[2]}" if known.endswith(".") else known
        assert guess.search(name), name
        assert not guess.guesses(name)
    assert guess.guesses("something") == (Guessed("something", guess.name),)


@pytest.mark.parametrize("guess", DECIDING.values(), ids=lambda guess: guess.name)
def test_the_page_has_a_heading_for_each(guess: Guess) -> None:
    (guessed,) = guess.guesses("something")
    headings = re.findall(r"^## (.*)$", GUESSES_PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert guessed.url.partition("#")[2] in anchors


@pytest.mark.parametrize("name", CASES)
def test_a_finding_that_rests_on_a_guess_says_so(name: str) -> None:
    code, program, _ = CASES[name]
    guess = DECIDING[name]
    assuming = assumes(code, program)
    found = lint(code, program, assuming=assuming)
    assert {finding.code for finding in found} == {code}
    assert guess.name in told(found)
    with without(guess):
        assert weight(lint(code, program, assuming=assuming)) < weight(found)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[2]])
def test_a_finding_with_other_evidence_does_not(name: str) -> None:
    code, _, twin = CASES[name]
    found = lint(code, twin, assuming=assumes(code, twin))
    assert {finding.code for finding in found} == {code}
    assert DECIDING[name].name not in told(found)


def in_fixtures() -> Iterator[tuple[str, str]]:
    """The bad programs of rules whose findings rest on guesses, each with its rule."""
    for kept in sorted((EXPECTED / "fixtures").glob("*.txt")):
        program = ""
        for line in kept.read_text(encoding="utf-8").splitlines():
            if line.startswith("== "):
                program = line.removeprefix("== ")
            elif line.startswith("    guess "):
                yield kept.stem, program


@pytest.mark.parametrize(("rule", "program"), [*dict.fromkeys(in_fixtures())])
def test_what_is_told_of_a_fixture_decides(rule: str, program: str) -> None:
    text = (FIXTURES / rule / program).read_text(encoding="utf-8")
    found = lint(rule[:6], text, assuming=False)
    meanings = told(found)
    assert meanings
    for guess in (guess for guess in GUESSES if guess.name in meanings):
        with without(guess):
            assert len(lint(rule[:6], text, assuming=False)) < len(found)
