"""Windows that a script counts itself, beside an Accelerator that is not asked to, and clearing at the wrong place."""

from __future__ import annotations

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = tuple(rule for rule in load_registry().rules.values() if rule.code in ("AMP302", "AMP304"))
WINDOWS = tuple(rule for rule in load_registry().rules.values() if rule.code.startswith("AMP30"))
PROGRAM = """
import torch
from accelerate import Accelerator

def train(model, loader, criterion, every):
    accelerator = Accelerator({given})
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for i, (x, y) in enumerate(loader):
{round}
"""
LAST = """
        loss = criterion(model(x), y)
        accelerator.backward(loss)
        if (i + 1) % every == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
DIVIDED = LAST.replace("backward(loss)", "backward(loss / every)")
EVERY = """
        if (i + 1) % every == 0:
            optimizer.zero_grad()
        accelerator.backward(criterion(model(x), y))
        optimizer.step()
"""
MANAGED = """
        with accelerator.accumulate(model):
            accelerator.backward(criterion(model(x), y))
            optimizer.step()
            if (i + 1) % every == 0:
                optimizer.zero_grad()
"""
ASKED = "gradient_accumulation_steps=every"


def told(body: str, given: str = "") -> list[str]:
    program = PROGRAM.format(given=given, round=body.strip("\n"))
    return [one.code for one in findings_of(program, RULES)]


@pytest.mark.parametrize(
    ("body", "given", "codes"),
    [
        (LAST, "", ["AMP302"]),
        (DIVIDED, "", []),
        (EVERY, "", ["AMP304"]),
        (LAST, ASKED, []),
        (MANAGED, ASKED, []),
    ],
)
def test_window_by_hand(body: str, given: str, codes: list[str]) -> None:
    assert told(body, given) == codes


COUNTED = {
    "of a caller": """
def epoch(model, loader, optimizer, criterion, every, step):
    for x, y in loader:
        criterion(model(x), y).backward()
        step += 1
        if step % every == 0:
            optimizer.step()
            optimizer.zero_grad()
    return step
""",
    "of the object": """
class Trainer:
    def __init__(self, model, optimizer, criterion, every):
        self.model, self.optimizer, self.criterion, self.every = model, optimizer, criterion, every
        self.since = 0

    def fit(self, loader):
        for x, y in loader:
            self.criterion(self.model(x), y).backward()
            self.since += 1
            if self.since >= self.every:
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.since = 0
""",
    "of an object from elsewhere": """
def train(model, loader, optimizer, criterion, every, state):
    for x, y in loader:
        criterion(model(x), y).backward()
        state.step += 1
        if state.step % every == 0:
            optimizer.step()
            optimizer.zero_grad()
""",
}


@pytest.mark.parametrize("program", COUNTED.values(), ids=COUNTED)
def test_counter_with_a_value_before(program: str) -> None:
    found = findings_of(program, RULES)
    assert [one.code for one in found] == ["AMP302"]


ALL = tuple(load_registry().rules.values())
MANUAL = """
import torch
import lightning.pytorch as pl
from torch import nn

class Model(pl.LightningModule):
    def __init__(self, every):
        super().__init__()
        self.automatic_optimization = False
        self.every = every
        self.net = nn.Linear(8, 8)

    def training_step(self, batch, batch_idx):
        {optimizers} = self.optimizers()
        x, y = batch
        {before}
        self.manual_backward(nn.functional.mse_loss(self.net(x), y) / self.every)
        if (batch_idx + 1) % self.every == 0:
            opt.step()
            {after}
"""
COUNTER = """
import torch

def train(model, loader, opt, args):
    if args.resume:
        step = torch.load(args.resume)["step"]
    else:
        step = {start}
    batches = iter(loader)
    while True:
        x, y = next(batches)
        {ahead}
        (model(x, y) / args.every).backward()
        if step % args.every == 0:
            opt.step()
            opt.zero_grad()
        step += 1
        if step > args.steps:
            break
"""
EPOCHS = """
import torch

def train(model, loader, opt, epochs, every):
    step = 0
    for epoch in range(epochs):
        for i, (x, y) in enumerate(loader):
            {ahead}
            loss = model(x, y) / every
            loss.backward()
            step += 1
            if {ends}:
                {skips}
                opt.step()
                opt.zero_grad()
        {behind}
"""
SKIPS = "if not torch.isfinite(loss):\n                    opt.zero_grad()\n                    continue"
LAST_STEP = "if len(loader) % every:\n            opt.step()\n            opt.zero_grad()"
ON = """
import torch

def train(model, loader, opt, args):
    if torch.cuda.is_available():
        dtype = torch.{there}
    else:
        dtype = torch.float32
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp and dtype == torch.float16)
    for x, y in loader:
        opt.zero_grad()
        with torch.autocast("cuda", dtype=dtype, enabled=args.amp):
            loss = model(x, y)
        {use}
"""
SCALED = "scaler.scale(loss).backward()\n        scaler.step(opt)\n        scaler.update()"
PLAIN = "loss.backward()\n        opt.step()\n        if dtype == torch.float16:\n            scaler.scale(loss)"


def selected(program: str, code: str, asked: bool = True) -> list[str]:
    job = Job("program.py", "", program.encode(), ALL, asked=frozenset({code} if asked else ()))
    return [one.severity.name.lower() for one in analyse(job, Modules()).findings if one.code == code]


@pytest.mark.parametrize(
    ("optimizers", "before", "after", "found"),
    [
        ("opt", "opt.zero_grad()", "", ["error"]),
        ("opt, other", "opt.zero_grad()", "", ["error"]),
        ("opt", "", "opt.zero_grad()", []),
        ("opt", "if batch_idx % self.every == 0:\n            opt.zero_grad()", "", []),
    ],
)
def test_cleared_in_manual_optimization(optimizers: str, before: str, after: str, found: list[str]) -> None:
    program = MANUAL.format(optimizers=optimizers, before=before or "pass", after=after or "pass")
    assert selected(program, "AMP304") == found


@pytest.mark.parametrize(
    ("start", "ahead", "found"),
    [
        ("0", "pass", ["warning"]),
        ("1", "pass", []),
        ("0", "if step == 0:\n            step += 1\n            continue", []),
    ],
)
def test_first_window_of_a_run_that_is_not_resumed(start: str, ahead: str, found: list[str]) -> None:
    assert selected(COUNTER.format(start=start, ahead=ahead), "AMP305") == found


@pytest.mark.parametrize(
    ("ends", "skips", "ahead", "behind", "found"),
    [
        ("(i + 1) % every == 0", "pass", "pass", "pass", ["info"]),
        ("(i + 1) % every == 0", SKIPS, "pass", "pass", ["info"]),
        ("(i + 1) % every == 0", SKIPS, "pass", LAST_STEP, []),
        ("(i + 1) % every == 0", "pass", "pass", "opt.step()", []),
        ("(i + 1) % every == 0 or i + 1 == len(loader)", SKIPS, "pass", "pass", []),
        ("full or last", SKIPS, "full, last = (i + 1) % every == 0, i + 1 == len(loader)", "pass", []),
        ("step % every == 0", "pass", "pass", "pass", []),
    ],
)
def test_windows_that_go_on_in_the_next_epoch(ends: str, skips: str, ahead: str, behind: str, found: list[str]) -> None:
    program = EPOCHS.format(ends=ends, skips=skips, ahead=ahead, behind=behind)
    assert selected(program, "AMP303") == found
    assert selected(program, "AMP303", asked=False) == []


@pytest.mark.parametrize(
    ("there", "use", "found"),
    [("bfloat16", SCALED, ["info"]), ("float16", SCALED, []), ("bfloat16", PLAIN, [])],
)
def test_scaler_that_is_never_on(there: str, use: str, found: list[str]) -> None:
    program = ON.format(there=there, use=use)
    assert selected(program, "AMP209") == found
    assert selected(program, "AMP209", asked=False) == []


ALONE = """
def train(a, b, loader, first, second, every):
    for i, x in enumerate(loader):
        if i % every == 0:
            first.zero_grad()
        a(x).mean().backward()
        torch.nn.utils.clip_grad_norm_(a.parameters(), 1.0)
        if i % every == 0:
            first.step()
        if i % every == 0:
            second.zero_grad()
        b(x).mean().backward()
        if i % every == 0:
            second.step()
"""


def test_what_each_step_takes_is_of_one_micro_batch() -> None:
    found = findings_of(f"import torch\n{ALONE}", WINDOWS)
    assert [one.code for one in found] == ["AMP304"]
