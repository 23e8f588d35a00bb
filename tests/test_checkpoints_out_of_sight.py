"""The state of apex's loss scaler belongs into the checkpoint, and that of training out of sight does as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.dispatch import Dispatcher
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.findings import Severity
from amplint.rule import Registry
from amplint.semantics import interpret
from amplint.semantics.reading.program import Program
from amplint.source.source import Source

RULES = [rule for rule in Registry().load().rules.values() if rule.code == "AMP211"]
APEX = """import torch
from apex import amp


def main(model, optimizer, loader, path):
    model, optimizer = amp.initialize(model, optimizer, {given})
    for inputs in loader:
        optimizer.zero_grad()
        with amp.scale_loss(model(inputs).mean(), optimizer) as loss:
            loss.backward()
        optimizer.step()
    states = {{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}
    {more}
    torch.save(states, path)


def resume(model, optimizer, path):
    model, optimizer = amp.initialize(model, optimizer, {given})
    optimizer.load_state_dict(torch.load(path)["optimizer"])
"""
ELSEWHERE = """import torch
from engine import Trainer, train_one_epoch


def main(model, loader, path):
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer.load_state_dict(torch.load(path)["optimizer"])
    scaler = torch.amp.GradScaler("cuda")
    {call}
    torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, path)
"""


OPTIONAL = """import torch
from engine import train


def main(options, model, path):
    if options.evaluate:
        optimizer = None
    else:
        optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda") if options.precision == "amp" else None
    if options.resume:
        optimizer.load_state_dict(torch.load(path)["optimizer"])
    for epoch in range(options.epochs):
        train(model, epoch, optimizer, scaler)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
"""


def found(text: str, *, asked: bool = False) -> list[int]:
    """The rows with findings of AMP211."""
    program = Program(Source("script.py", text))
    dispatcher = Dispatcher(program, RULES, {rule.code for rule in RULES} if asked else set())
    interpret(program, dispatcher.emit, dispatcher.kinds, frozenset() if asked else None)
    return sorted(finding.span.start.row for finding in dispatcher.findings())


@pytest.mark.parametrize("given", ['opt_level="O1"', "opt_level=level", 'opt_level="O3", loss_scale="dynamic"'])
def test_the_state_of_apex_is_missing(given: str) -> None:
    assert found(APEX.format(given=given, more="pass"), asked=True) == [12]


@pytest.mark.parametrize(
    ("given", "more"),
    [
        ('opt_level="O1"', 'states["amp"] = amp.state_dict()'),
        ('opt_level="O2", loss_scale=128.0', "pass"),
        ('opt_level="O1", enabled=False', "pass"),
        ('opt_level="O0"', "pass"),
        ('opt_level="O0", loss_scale="dynamic"', "pass"),
    ],
)
def test_no_state_of_apex_is_missing(given: str, more: str) -> None:
    assert found(APEX.format(given=given, more=more)) == []


@pytest.mark.parametrize(
    "call",
    [
        "train_one_epoch(model, optimizer, loader, scaler)",
        "train_one_epoch(model, optimizer, loader, scaler); callback_logging(1, scaler)",
        "Trainer(model, optimizer, scaler=scaler).run(loader)",
    ],
)
def test_training_out_of_sight_needs_the_scaler(call: str) -> None:
    assert found(ELSEWHERE.format(call=call)) == [10]


@pytest.mark.parametrize(
    "call",
    [
        "save_checkpoint(model, optimizer, scaler)",
        "register(optimizer, scaler)",
        "trainer = Trainer(model, optimizer, scaler); trainer.save_progress(path)",
        "train_one_epoch(model, scaler)",
    ],
)
def test_code_out_of_sight_may_save_the_scaler(call: str) -> None:
    assert found(ELSEWHERE.format(call=call)) == []


def test_an_optimizer_that_a_path_does_without_is_trained() -> None:
    assert found(OPTIONAL) == [15]
    assert found(
        OPTIONAL.replace("optimizer.state_dict()}", 'optimizer.state_dict(), "scaler": scaler.state_dict()}')
    ) == [12]
    assert found(OPTIONAL.replace("optimizer, scaler)", "scaler)")) == []


KEEPS = """import torch
from engine import SimpleTrainer


class Trainer(SimpleTrainer):
    def __init__(self, model, scaler=None):
        super().__init__(model)
        if scaler is None:
            scaler = torch.amp.GradScaler("cuda")
        self.scaler = scaler

    def run_step(self, loss):
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
{more}"""
STATE = """
    def state_dict(self):
        return {"scaler": self.scaler.state_dict()}
"""


def test_a_class_without_state_keeps_a_scaler() -> None:
    assert found(KEEPS.format(more=""), asked=True) == [9]
    assert found(KEEPS.format(more="")) == []


@pytest.mark.parametrize(
    "more", [STATE, "\n\ndef save(trainer, path):\n    torch.save(trainer.scaler.state_dict(), path)\n"]
)
def test_the_state_of_a_kept_scaler_is_saved(more: str) -> None:
    assert found(KEEPS.format(more=more), asked=True) == []


@pytest.mark.parametrize(
    ("taken", "rows"),
    [
        ("Checkpointer(model, trainer=trainer)", [9]),
        ("Checkpointer(model)", []),
        ("torch.save(trainer, 'all.pt')", []),
        ("Progress(trainer)", []),
    ],
)
def test_the_file_that_constructs_the_class_shows_what_asks_for_its_state(taken: str, rows: list[int]) -> None:
    used = f"\n\ndef main(model):\n    trainer = Trainer(model)\n    {taken}\n    trainer.train()\n"
    assert found(KEEPS.format(more=used), asked=True) == rows


TWO_FILES = """import torch


def resume(path, model, optimizer):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


def main(model, batches, path):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    {used}
    for inputs in batches:
        with torch.autocast("cuda"):
            loss = model(inputs).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, path)
"""


@pytest.mark.parametrize(("used", "rows"), [("register(resume)", [20]), ("pass", [])])
def test_a_function_that_nothing_uses_resumes_no_run(used: str, rows: list[int]) -> None:
    assert found(TWO_FILES.format(used=used)) == rows


@pytest.mark.parametrize(
    ("used", "rows"),
    [
        ("resume(path, model)", []),
        ("resume(path, model, fresh)", [23]),
        ("resume(path, model, optimizer=fresh)", [23]),
        ("resume(*rest)", [23]),
        ("register(resume)", [23]),
    ],
)
def test_an_optimizer_left_out_is_not_restored(used: str, rows: list[int]) -> None:
    optional = TWO_FILES.replace("def resume(path, model, optimizer):", "def resume(path, model, optimizer=None):")
    optional = optional.replace(
        '    optimizer.load_state_dict(state["optimizer"])\n',
        '    if optimizer is not None:\n        optimizer.load_state_dict(state["optimizer"])\n',
    )
    assert found(optional.format(used=f"fresh = make()\n    rest = taken()\n    {used}")) == rows


def test_a_step_shows_the_line_of_another_file_that_saves(tmp_path: Path) -> None:
    (tmp_path / "fitting.py").write_text(
        "import torch\n\n\ndef fit(model, optimizer, scaler, loader, path):\n"
        "    for x in loader:\n"
        "        with torch.autocast('cuda'):\n"
        "            loss = model(x).mean()\n"
        "        scaler.scale(loss).backward()\n"
        "        scaler.step(optimizer)\n"
        "        scaler.update()\n"
        "    torch.save({'optimizer': optimizer.state_dict()}, path)\n",
        encoding="utf-8",
    )
    text = (
        "import torch\nfrom fitting import fit\n\n\ndef main(model, loader, path):\n"
        "    optimizer = torch.optim.AdamW(model.parameters())\n"
        "    optimizer.load_state_dict(torch.load(path)['optimizer'])\n"
        "    scaler = torch.amp.GradScaler('cuda')\n"
        "    fit(model, optimizer, scaler, loader, path)\n"
    )
    path = tmp_path / "script.py"
    path.write_text(text, encoding="utf-8")
    job = Job("script.py", str(path), text.encode(), tuple(RULES))
    (found,) = analyse(job, Modules()).findings
    assert [(note.filename, note.span.start.row) for note in found.notes if "saved" in note.message] == [
        ("fitting.py", 11)
    ]


PASSED = """import torch


class Local(torch.optim.Optimizer):
    def step(self, closure=None, scaler: torch.amp.GradScaler | None = None):
        if scaler is not None:
            scaler.step(self.inner)
        else:
            self.inner.step(closure=closure)

    def state_dict(self):
        inner = self.inner.state_dict()
        return {"inner": inner, "epoch": self.epoch}

    def load_state_dict(self, state):
        self.inner.load_state_dict(state["inner"])
"""


def test_an_optimizer_saves_no_scaler_that_its_step_is_passed() -> None:
    job = Job("local.py", "local.py", PASSED.encode(), tuple(RULES))
    (found,) = analyse(job, Modules()).findings
    assert found.severity is Severity.INFO
