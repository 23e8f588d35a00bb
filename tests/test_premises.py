"""What a finding takes for granted unseen: what is left of its severity, and that asking for its rule shows it."""

from __future__ import annotations

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Finding, Severity
from amplint.premises import Premise, named, remaining_severity
from tests.linting import findings_of

RULES = tuple(load_registry().rules.values())
INFO, WARNING, ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR
HEAD = "import time, torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
TRAIN = """
def fit(model, loader, cfg):
    opt = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda")
    {restores}
    for x in loader:
        opt.zero_grad()
        with torch.autocast("cuda"{dtype}):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
    torch.save({{"model": model.state_dict(), "opt": opt.state_dict()}}, cfg.path)
"""
RESTORES = 'opt.load_state_dict(torch.load(cfg.path)["opt"])'
CHOSEN = ", dtype=getattr(torch, cfg.dtype)"
DEVICE = """
class Trainer:
    def __init__(self, model, device):
        self.model, self.device = model.to(device), {device}

    def step(self, x):
        with torch.autocast("cuda"):
            return self.model(x.to(self.device)).mean()
"""
FILLED = """
def bias(mask, dtype=torch.float32):
    return 1e9 * (mask.to({dtype}) - 1)
"""
MEASURES = """
model = nn.Linear(8, 8)
begin = time.perf_counter()
with torch.autocast("cuda"):
    loss = model(torch.randn(4, 8)).mean()
    loss.backward()
print(time.perf_counter() - begin)
"""
LAST = """
def step(model, x, scaler, optimizer):
    with torch.autocast("cuda"):
        loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
"""
EITHER = """
def step(model, x, half):
    with torch.autocast("cuda", dtype=torch.float16 if half else torch.float32):
        loss = model(x).mean()
        loss.backward()
"""
CAST = """
def step(model, x, store):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        y = model(x)
        {use}
"""
CLIPS = """
from accelerate import Accelerator
from torch.distributed.fsdp import FullyShardedDataParallel

def fit(model, loader, steps):
    {made}
    for index, x in enumerate(loader):
        loss = model(x).mean() / steps
        {body}
        if (index + 1) % steps == 0:
            {end}optimizer.step()
            optimizer.zero_grad()
"""
CLIP, BACKWARD = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "accelerator.backward(loss)"
MANAGED = """accelerator = Accelerator(mixed_precision="fp16")
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)"""
SHARDED = """model = FullyShardedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())"""
EPOCH = """
def epoch(model, optimizer, loader, steps):
    optimizer.zero_grad()
    for i, x in enumerate({batches}):
        loss = model(x).mean() / steps
        loss.backward()
        if (i + 1) % steps == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
GIVEN = """
def fit(model, optimizer, loader, dtype):
    scaler = torch.amp.GradScaler("cuda"{enabled})
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=dtype):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
INFERS = """
def infer(model, x):
    with torch.autocast("cuda"):
        return model({x})
"""
CASES: dict[str, tuple[str, str, Severity | None, Severity | None]] = {
    "seen": ("AMP211", TRAIN.format(restores=RESTORES, dtype=""), WARNING, WARNING),
    "nothing restores it": ("AMP211", TRAIN.format(restores="", dtype=""), None, INFO),
    "a setting chooses the dtype": ("AMP211", TRAIN.format(restores=RESTORES, dtype=CHOSEN), INFO, INFO),
    "both": ("AMP211", TRAIN.format(restores="", dtype=CHOSEN), None, INFO),
    "a choice of devices": (
        "AMP106",
        DEVICE.format(device='torch.device("cuda" if torch.cuda.is_available() else "cpu")'),
        INFO,
        INFO,
    ),
    "a device that is handed over": ("AMP106", DEVICE.format(device="device"), None, INFO),
    "a region that is measured": ("AMP101", MEASURES, None, INFO),
    "a region that is measured on numbers of NumPy": (
        "AMP101",
        MEASURES.replace("torch.randn(4, 8)", "torch.from_numpy(numpy.random.uniform(size=(4, 8)))"),
        None,
        INFO,
    ),
    "a region that can be float32": ("AMP101", EITHER, INFO, INFO),
    "a step behind which nothing runs": (
        "AMP102",
        LAST.replace("optimizer):", "optimizer=None):\n    optimizer = torch.optim.Adam(model.parameters())"),
        None,
        INFO,
    ),
    "a step of an optimizer out of sight": ("AMP102", LAST, None, INFO),
    "a clip in front of the Accelerator's step": (
        "AMP705",
        CLIPS.format(made=MANAGED, body=BACKWARD, end=f"{CLIP}; "),
        ERROR,
        ERROR,
    ),
    "a clip in front of its backward": (
        "AMP705",
        CLIPS.format(made=MANAGED, body=f"{CLIP}; {BACKWARD}", end=""),
        None,
        None,
    ),
    "a clip of shards in front of the step": (
        "AMP712",
        CLIPS.format(made=SHARDED, body="loss.backward()", end=f"{CLIP}; "),
        ERROR,
        ERROR,
    ),
    "a clip of shards in front of backward": (
        "AMP712",
        CLIPS.format(made=SHARDED, body=f"{CLIP}; loss.backward()", end=""),
        None,
        None,
    ),
    "a last window of unknown batches": ("AMP303", EPOCH.format(batches="loader"), None, INFO),
    "a last window of a known number": ("AMP303", EPOCH.format(batches="range(8)"), None, None),
    "a scaler for a dtype that is given": ("AMP209", GIVEN.format(enabled=""), None, INFO),
    "a scaler that asks for the dtype": (
        "AMP209",
        GIVEN.format(enabled=", enabled=dtype == torch.float16"),
        None,
        None,
    ),
    "an input of a model that does not train": ("AMP103", INFERS.format(x="x.half()"), None, INFO),
    "an input that stays as it is": ("AMP103", INFERS.format(x="x"), None, None),
    "what is put away": ("AMP103", CAST.format(use="store(y.half())"), None, INFO),
    "what is computed with": ("AMP103", CAST.format(use="return (y.half() * 2).mean()"), None, INFO),
    "a large number in a dtype that callers choose": ("AMP401", FILLED.format(dtype="dtype"), INFO, INFO),
    "a large number in float16": ("AMP401", FILLED.format(dtype="torch.float16"), ERROR, ERROR),
}


def lint(code: str, program: str, filename: str = "program.py", *, asked: bool = False) -> list[Finding]:
    """What one rule finds, beside the others."""
    job = Job(filename, "", (HEAD + program).encode(), RULES, asked=frozenset({code} if asked else ()))
    return [finding for finding in analyse(job, Modules()).findings if finding.code == code]


@pytest.mark.parametrize(("code", "program", "default", "asked"), CASES.values(), ids=list(CASES))
def test_unseen_premises_weigh(code: str, program: str, default: Severity | None, asked: Severity | None) -> None:
    for expected, is_asked in ((default, False), (asked, True)):
        found = lint(code, program, asked=is_asked)
        assert [finding.severity for finding in found] == ([] if expected is None else [expected])


def test_an_info_names_what_it_takes_for_granted() -> None:
    (found,) = lint("AMP211", TRAIN.format(restores="", dtype=""), asked=True)
    assert found.reason.endswith("It holds where a later run restores this state, which is not seen.")
    (chosen,) = lint("AMP211", TRAIN.format(restores=RESTORES, dtype=CHOSEN))
    assert chosen.reason.endswith("It holds where float16 is what is chosen, which is not seen.")
    (seen,) = lint("AMP211", TRAIN.format(restores=RESTORES, dtype=""))
    assert "not seen" not in seen.reason


def test_a_warning_in_a_test_is_only_told_if_asked_for() -> None:
    program = TRAIN.format(restores=RESTORES, dtype="")
    assert not lint("AMP211", program, "tests/test_training.py")
    (found,) = lint("AMP211", program, "tests/test_training.py", asked=True)
    assert found.severity is INFO
    assert lint("AMP701", "torch.cuda.amp.GradScaler()", "tests/test_training.py")


def test_what_raises_does_so_anywhere() -> None:
    program = MEASURES.replace("loss = model", "loss = nn.BCELoss()(model").replace(".mean()", ", torch.rand(4, 8))")
    (found,) = lint("AMP404", program)
    assert found.severity is ERROR


def test_one_mistake_is_told_by_one_rule() -> None:
    program = """
model = nn.Linear(4, 1).cuda()
model.half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in data:
    with torch.autocast("cuda"):
        loss = model(x).mean()
    loss.backward()
    optimizer.step()
"""
    assert lint("AMP410", program)
    assert not lint("AMP103", program)
    assert lint("AMP103", program, asked=True)


def test_every_premise_reads_as_the_end_of_a_sentence() -> None:
    for premise in Premise:
        text = named([premise])
        assert text.startswith("It holds where ")
        assert premise.value[0].islower() or premise.value.startswith("PyTorch")
        assert remaining_severity(ERROR, [premise], asked=True) is INFO
    assert named([]) == ""
    assert remaining_severity(ERROR, [], asked=False) is ERROR


PROFILED = """
import copy
import time

import torch


def profile(x, layers):
    for layer in layers:
        begun = time.time()
        y = layer(x)
        {backward}
        print(time.time() - begun)


def find_batch_size(model, images):
    with torch.autocast("cuda"):
        profile(images, [copy.deepcopy(model).train()])


def main(model, loader):
    for images in loader:
        find_batch_size(model, images)
"""


@pytest.mark.parametrize(
    ("backward", "severities"),
    [("y.sum().backward()", []), ("loss = y.sum()\n        loss.backward()", [WARNING])],
)
def test_a_function_that_waits_for_a_backward_pass_measures(backward: str, severities: list[Severity]) -> None:
    program = PROFILED.format(backward=backward).encode()
    rule = load_registry().rules["AMP101"]
    assert [one.severity for one in findings_of(program, (rule,))] == severities
