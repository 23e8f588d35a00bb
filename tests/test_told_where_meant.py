"""Shapes of code in which errors and warnings were wrong, or may be: what is told of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.engine.registry import load_registry
from amplint.engine.screen import screen
from amplint.findings import Finding, Severity
from tests.linting import findings_of

RULES = load_registry().rules
HEAD = """
import time, torch
from torch import nn
"""
MANAGED = """
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps={steps})
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
model, optimizer{loader} = accelerator.prepare(model, optimizer{made})
{before}
for inputs in {data}:
    with accelerator.accumulate(model):
        accelerator.backward(model(inputs).sum())
{clips}
        optimizer.step()
        optimizer.zero_grad()
{behind}
"""
PLAIN = "torch.nn.utils.clip_grad_norm_(model.parameters(), {limit})"


def managed(clips: str, steps: int = 4, before: str = "", data: str = "loader", behind: str = "") -> str:
    """A loop of Accelerate with these clips."""
    lines = "".join(f"        {line}\n" for line in clips.splitlines())
    given = (", loader", ", make()") if data == "loader" else ("", "")
    return MANAGED.format(
        steps=steps, clips=lines.rstrip(), before=before, data=data, behind=behind, loader=given[0], made=given[1]
    )


OWN = "if accelerator.sync_gradients:\n    accelerator.clip_grad_norm_(model.parameters(), 1.0)\n"
CHOSEN = """
from accelerate import Accelerator

def main(args):
    accelerator = Accelerator(mixed_precision=args.precision if args.half else "no")
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, make())
    for inputs in loader:
        accelerator.backward(model(inputs).sum())
        if args.half:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        else:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
"""
FITS = """
def fits(model, batch, setting):
    try:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            model(batch, **setting).loss.backward()
        return True
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        return False
"""
COUNTS = """
from torch.utils.flop_counter import FlopCounterMode

def operations(model, batch):
    counter = FlopCounterMode(display=False)
    with counter, torch.autocast("cuda", dtype=torch.bfloat16):
        model(batch).sum().backward()
    return counter.get_total_flops()
"""
SKIPS = """
def learn(model, batch):
    try:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            model(batch).loss.backward()
    except RuntimeError as error:
        print("out of memory", error)
        raise
"""
BY_SETTING = """
def main(args):
    dtype = torch.bfloat16 if args.brain else torch.float16
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for inputs in make():
        with torch.autocast("cuda", dtype=dtype, enabled={enabled}):
            loss = model(inputs).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
MEASURED = """
def learn(loader, model, optimizer, scaler):
    for inputs in loader:
        with torch.autocast("cuda"):
            loss = model(inputs).sum()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), torch.inf)
        print(norm {by})
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
BEHIND = """
def learn(loader, model, optimizer, scaler):
    for inputs in loader:
        with torch.autocast("cuda"):
            loss = model(inputs).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(torch.nn.utils.clip_grad_norm_(model.parameters(), {limit}))
        optimizer.zero_grad()
"""
REGISTERED = """
CLASSES = {{}}

def register(cls):
    CLASSES[cls.__name__] = cls
    return cls

@register
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs):
        {forward}

def main(name, loader):
    model = CLASSES[name]()
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cuda")
    for inputs in loader:
        model.train()
        with torch.autocast("cuda"):
            loss = model(inputs).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            print(model(inputs))
"""
OWN_REGION = """with torch.autocast("cuda"):
            return self.layer(inputs)"""
TIMED = {"before": "start = time.perf_counter()", "behind": "print(time.perf_counter() - start)"}
ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
PROGRAMS = {
    "clipping of the prepared gradients by PyTorch": (managed(PLAIN.format(limit=1.0)), [("AMP705", ERROR)]),
    "a script that only measures": (
        managed(PLAIN.format(limit=1.0), 1, data="[torch.randn(4, 4)]", **TIMED),
        [("AMP705", INFO)],
    ),
    "gradients that are only measured": (
        managed(f"norm = {PLAIN.format(limit='torch.inf')}\nprint(norm)", 1),
        [("AMP705", WARNING)],
    ),
    "clipping of what the Accelerator has clipped": (managed(OWN + PLAIN.format(limit=1.0)), []),
    "clipping where a setting leaves out half": (CHOSEN, []),
    "a norm divided by the scale": (MEASURED.format(by="/ scale"), []),
    "a norm times the inverse scale": (MEASURED.format(by="* (1 / scale)"), []),
    "a norm times the scale": (MEASURED.format(by="* scale"), [("AMP205", ERROR)]),
    "a norm behind the step, with a limit that nothing reaches": (BEHIND.format(limit="1e9"), []),
    "a clip behind the step": (BEHIND.format(limit="5.0"), [("AMP202", ERROR)]),
    "a registered model that enters a region itself": (REGISTERED.format(forward=OWN_REGION), []),
    "a registered model without a region": (REGISTERED.format(forward="return self.layer(inputs)"), [("AMP111", INFO)]),
    "a trial of what memory holds": (FITS, []),
    "a count of operations": (COUNTS, []),
    "training that can run out of memory": (SKIPS, [("AMP101", WARNING)]),
    "a region that one setting switches off and makes float16": (BY_SETTING.format(enabled="args.brain"), []),
    "the same through bool": (BY_SETTING.format(enabled="bool(args.brain) and torch.cuda.is_available()"), []),
    "a region that another setting switches off": (BY_SETTING.format(enabled="args.on"), [("AMP208", INFO)]),
}


def lint(text: str, name: str = "script.py", folder: str = "/nowhere") -> list[Finding]:
    """The findings of the default rules."""
    raw = text.encode()
    rules = screen([rule for rule in RULES.values() if rule.default], raw, frozenset())
    return findings_of(raw, rules, path=f"{folder}/{name}")


@pytest.mark.parametrize("shape", PROGRAMS)
def test_what_is_told(shape: str) -> None:
    text, expected = PROGRAMS[shape]
    assert [(one.code, one.severity) for one in lint(HEAD + text)] == expected


def test_a_second_clip_is_not_advised() -> None:
    clips = PLAIN.format(limit=1.0) + "\naccelerator.clip_grad_norm_(model.parameters(), 1.0)"
    (found,) = (one for one in lint(HEAD + managed(clips, 1)) if one.code == "AMP705")
    assert found.fix is None
    assert "unscales what is unscaled" in found.advice


ATTENTION = """
import torch
from parts import Config

def test_attention():
    config = Config(wide=True, half=True)
    query = torch.randn(4, 4).half()
    {condition}
        return torch.matmul(query, torch.randn(4, 4))
"""


@pytest.mark.parametrize(("condition", "severity"), [("if config.wide:", INFO), ("for _ in range(2):", ERROR)])
def test_a_branch_of_a_test_is_perhaps_not_taken(condition: str, severity: Severity) -> None:
    found = lint(ATTENTION.format(condition=condition), "tests/test_attention.py")
    assert [(one.code, one.severity) for one in found] == [("AMP502", severity)]


VERSIONS = """
import torch
from packaging import version

base = version.parse(version.parse(torch.__version__).base_version)
TORCH_1_9 = version.parse("1.9") <= base
is_at_least_1_10 = base >= version.parse("1.10")
IS_OLD = not is_at_least_1_10
"""
ASKS = """
import torch
from versions import IS_OLD, TORCH_1_9, is_at_least_1_10

def step(model, inputs, optimizer, scaler):
    with torch.autocast("cuda"):
        loss = model(inputs).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    if {condition}:
        scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize("condition", ["not TORCH_1_9", "not is_at_least_1_10", "IS_OLD"])
def test_versions_of_another_module(tmp_path: Path, condition: str) -> None:
    others = "\n\n".join(f"def unrelated_{number}(one):\n    return one + {number}" for number in range(40))
    (tmp_path / "versions.py").write_text(VERSIONS + others)
    (tmp_path / "script.py").write_text(ASKS.format(condition=condition))
    assert lint(ASKS.format(condition=condition), folder=str(tmp_path)) == []
    assert lint(ASKS.format(condition="model.twice"), folder=str(tmp_path))
