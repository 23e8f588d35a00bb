"""Findings in code that an exception keeps from running, or that nothing switches on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amplint import check
from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Finding

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
        ("loader = Folder(root, 'png')", False),
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


@pytest.mark.parametrize("more", [", *", "\nfrom other import *", "\nexec(open('settings').read())"])
def test_names_that_may_be_bound_elsewhere(tmp_path: Path, more: str) -> None:
    files = {"train.py": SCRIPT.format(made="loader = Folder(root, 'png')", more=more), "data.py": DATA}
    if more != ", *":
        assert lint(tmp_path, files, "train.py", "AMP205")


def test_functions_that_other_files_call(tmp_path: Path) -> None:
    files = {
        "train.py": SCRIPT.format(made="loader = load()", more=""),
        "data.py": DATA,
        "run.py": "from train import train\n",
    }
    assert lint(tmp_path, files, "train.py", "AMP205")


CELL = """
net = torch.nn.Linear(4, 4)
show(net)
optimizer = torch.optim.Adam(net.parameters())
scaler = torch.amp.GradScaler("cuda")
for x, y in batches:
    with torch.autocast("cuda", dtype=torch.float16):
        loss = net(x).sum()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""


def notebook(*cells: str) -> str:
    """A notebook of these cells."""
    kinds = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    made = [{**kinds, "source": cell} for cell in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})


def test_notebooks_whose_names_come_from_the_session(tmp_path: Path) -> None:
    script = "import torch\nimport display as show\nfrom data import batches\n" + CELL
    files = {"train.py": script, "data.py": "batches = []\n"}
    assert lint(tmp_path, files, "train.py", "AMP205")
    files["train.py"] = script.replace("import display as show\n", "")
    assert not lint(tmp_path, files, "train.py", "AMP205")
    told = check(notebook("import torch\n%run batches.ipynb\n", CELL), filename="train.ipynb")
    assert "AMP205" in {one.code for one in told}


def test_excerpts_that_lack_names(tmp_path: Path) -> None:
    excerpt = "import torch\n" + CELL.replace("show(net)", "show(net, missing)")
    assert lint(tmp_path, {"train.py": excerpt, "other.py": "x = 1\n"}, "train.py", "AMP205")
