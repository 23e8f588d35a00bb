"""Shapes of correct code that were once reported wrongly in code nobody here had written: one program for each."""

from __future__ import annotations

import pytest

from amplint.engine.analyse import Job, analyse
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.engine.screen import screen
from amplint.findings import Severity

RULES = load_registry().rules

HEAD = "import torch\nfrom torch import nn\n\n"
PROGRAMS = {
    "a region from a dictionary": """
def train(model, loader, optimizer, device, args):
    settings = dict(device_type=device.type, enabled=args.amp)
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast(**settings):
            loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
""",
    "a scaler that is None by default": """
from torch.amp import GradScaler

class Engine:
    scaler: GradScaler | None = None

    def __init__(self, model, optimizer, amp):
        self.model, self.optimizer = model, optimizer
        if amp:
            self.scaler = GradScaler("cuda")

    def backward(self, loss):
        if self.scaler is not None:
            self.scaler.scale(loss).backward()
        else:
            loss.backward()

    def step(self):
        if self.scaler is not None:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        self.optimizer.zero_grad()
""",
    "one key of one dictionary, read twice": """
class Runner:
    def __init__(self, model, optimizer, count):
        self.model, self.optimizer = model, optimizer
        self.args = {"micro": count, "epochs": 3}

    def fit(self, loader):
        args = self.args
        for index, (inputs, targets) in enumerate(loader):
            loss = nn.functional.mse_loss(self.model(inputs), targets)
            if args["micro"] > 1:
                loss = loss / args["micro"]
            loss.backward()
            if (index + 1) % args["micro"] == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
""",
    "cleared before the first window": """
def fit(model, loader, optimizer, steps):
    for index, (inputs, targets) in enumerate(loader):
        if steps == 1 and index == 0:
            optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets) / steps
        loss.backward()
        if (index + 1) % steps == 0:
            optimizer.step()
            optimizer.zero_grad()
""",
    "an optimizer that comes back from a schedule": """
class Learner:
    def __init__(self, model, schedule):
        self.model, self.schedule = model, schedule
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def epoch(self, loader):
        self.optimizer = self.schedule.rescale(optimizer=self.optimizer)
        for inputs, targets in loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.mse_loss(self.model(inputs), targets)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
""",
    "a region that only evaluates": """
def train(model, loader, optimizer, amp):
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=amp):
            loss = nn.functional.mse_loss(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

@torch.inference_mode()
def evaluate(model, loader, half):
    model.eval()
    with torch.autocast("cuda", dtype=torch.float16, enabled=half):
        return [model(inputs) for inputs, _ in loader]
""",
    "half that is meant": '''
def as_bfloat16_reference(weight, inputs):
    """What the kernel has to give: the product in bfloat16, also inside of a region."""
    if weight.dtype is torch.bfloat16:
        with torch.autocast("cuda", enabled=False):
            return inputs.to(torch.bfloat16) @ weight
    return inputs @ weight
''',
    "no region anywhere": """
import threading

def serve(model, batches, args):
    if args.fp16:
        model.half()
    worker = threading.Thread(target=lambda: [model(batch) for batch in batches])
    worker.start()
    worker.join()
""",
    "a scaler made for every batch": """
def train(model, loader, optimizer, path):
    for inputs, targets in loader:
        scaler = torch.amp.GradScaler("cuda")
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
""",
}
TRUE = {"a scaler made for every batch": ["AMP210"]}


@pytest.mark.parametrize("shape", PROGRAMS)
def test_only_what_is_wrong_is_told(shape: str) -> None:
    raw = (HEAD + PROGRAMS[shape]).encode()
    rules = screen([rule for rule in RULES.values() if rule.default], raw, frozenset())
    found = analyse(Job("script.py", "/nowhere/script.py", raw, tuple(rules), ()), Modules()).findings
    assert [one.code for one in found if one.severity > Severity.INFO] == TRUE.get(shape, [])
