"""Findings in code that an exception keeps from running, or that nothing switches on."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Finding, Severity

RULES = tuple(load_registry().rules.values())
SCRIPT = """
import torch
from data import Folder, load{more}


def prepare(path):
    {made}
    return loader


def train(net, loader):
    optimizer = torch.optim.Adam(net.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(x, y)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


def main():
    net = torch.nn.Linear(4, 4).cuda()
    loader = prepare("train")
    train(net, loader)


main()
"""
DATA = """
class Base:
    def __init__(self, path, kind, *, shuffle=True):
        self.path = path


class Folder(Base):
    def size(self):
        return 0


def load(path, workers=2):
    return Folder(path, "jpg")
"""


def lint(folder: Path, files: dict[str, str], name: str, code: str) -> list[Finding]:
    """What a rule finds in one of several files of a project."""
    for path, text in {"pyproject.toml": "", **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    job = Job(name, str(folder / name), files[name].encode(), RULES)
    return [one for one in analyse(job, Modules()).findings if one.code == code]


@pytest.mark.parametrize(
    ("made", "runs"),
    [
        ("loader = load(path)", True),
        ("loader = load(path, workers=4)", True),
        ("loader = load(path, threads=4)", False),
        ("loader = load()", False),
        ("loader = load(path, 2, 3)", False),
        ("loader = load(*path)", True),
        ("loader = Folder(path, 'png', shuffle=False)", True),
        ("loader = Folder(path)", False),
        ("loader = Folder(path, 'png', False)", False),
        ("loader = [load() for _ in path]", True),
        ("loader = path and load()", True),
        ("loader = Folder(root, 'png')", True),
        ("loader = Folder(path, 'png') if path else Folder(path)", True),
        ("if path:\n        loader = load()\n    else:\n        loader = Folder(path)", False),
        ("if path:\n        loader = load()\n    elif len(path) > 1:\n        loader = Folder(path)", True),
        ("if path:\n        loader = load()\n    elif path is None:\n        load()\n    else:\n        load()", False),
        ("if path:\n        loader = load()\n    else:\n        loader = load(path)", True),
    ],
)
def test_exceptions_before_the_loop(tmp_path: Path, made: str, runs: bool) -> None:
    files = {"train.py": SCRIPT.format(made=made, more=""), "data.py": DATA}
    assert bool(lint(tmp_path, files, "train.py", "AMP205")) is runs


def test_functions_that_other_files_call(tmp_path: Path) -> None:
    files = {
        "train.py": SCRIPT.format(made="loader = load()", more=""),
        "data.py": DATA,
        "run.py": "from train import train\n",
    }
    assert lint(tmp_path, files, "train.py", "AMP205")


BASE = """
import torch


class Base:
    def save(self, path):
        torch.save({"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}, path)

    def load(self, path):
        self.optimizer.load_state_dict(torch.load(path)["optimizer"])

    def fit(self, loader):
        self.load("last.pt")
        self.train(loader)
        self.save("last.pt")
"""
TRAINER = """
import torch
from base import Base


class Trainer(Base):
    def __init__(self, net, optimizer, use_amp=False):
        self.net, self.optimizer = net, optimizer
        self.use_amp = use_amp
        if use_amp:
            self.scaler = torch.amp.GradScaler("cuda")

    def train(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            if self.use_amp:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = self.net(x, y)
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                self.net(x, y).backward()
                self.optimizer.step()
"""
STARTS = """
import torch
from trainer import Trainer


def run(config, net, loader):
    optimizer = torch.optim.Adam(net.parameters())
    {amp}
    trainer = Trainer(net, optimizer{given})
    trainer.fit(loader)
"""


@pytest.mark.parametrize(
    ("amp", "given", "config", "severity"),
    [
        ("", ", use_amp=False", "", None),
        ("", "", "", None),
        ("", ", use_amp=True", "", Severity.WARNING),
        ("", ", use_amp=config.amp", "", Severity.WARNING),
        ("amp = getattr(config, 'AMP', False)", ", use_amp=amp", "TRAIN:\n  LR: 1\n", Severity.INFO),
        ("amp = getattr(config, 'AMP', False)", ", use_amp=amp", "TRAIN:\n  AMP: false\n", Severity.WARNING),
        ("amp = config.get('amp')", ", use_amp=amp", "lr: 1\n", Severity.INFO),
        ("amp = config.get('amp', True)", ", use_amp=amp", "lr: 1\n", Severity.WARNING),
    ],
)
def test_settings_that_nothing_switches_on(
    tmp_path: Path, amp: str, given: str, config: str, severity: Severity | None
) -> None:
    files = {
        "run.py": STARTS.format(amp=amp or "pass", given=given),
        "trainer.py": TRAINER,
        "base.py": BASE,
        "config.yaml": config,
    }
    found = lint(tmp_path, files, "run.py", "AMP211")
    assert [one.severity for one in found] == ([] if severity is None else [severity])
