"""Findings in code that an exception keeps from running, or that nothing switches on."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest
import torch
from torch.nn.parallel import DataParallel, DistributedDataParallel

from amplint import check
from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Finding, Severity
from amplint.torchlib.wrappers import WRAPPED as ATTRIBUTES

RULES = tuple(load_registry().rules.values())
RULE = load_registry().rules["AMP205"]
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
        ("loader = load(path, **path)", True),
        ("loader = load(**{'path': path, 'workers': 4})", True),
        ("loader = load(**{'path': path, 'threads': 4})", False),
        ("loader = load(**{'path': path}, path=path)", False),
        ("loader = load(**{k: 1 for k in ('path', 'workers')}, workers=4)", False),
        ("loader = load(**{k: 1 for k in ('path', 'workers') if path}, workers=4)", True),
        ("loader = torch.load(path, **{'map_location': 'cpu'}, map_location='cuda')", False),
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


@pytest.mark.parametrize(
    ("first", "last", "runs"),
    [
        ("print(total)", "total = 1", False),
        ("if total > 1:\n            print(y)", "total = 1", False),
        ("y = total + 1", "total = 1", False),
        ("for one in total:\n            print(y)", "total = 1", False),
        ("if len(y):\n            print(total)", "total = 1", True),
        ("for one in y:\n            print(total)", "total = 1", True),
        ("for total in y:\n            print(total)", "total = 1", True),
        ("if len(y):\n            total = 2\n        print(total)", "total = 1", True),
        ("for one in y:\n            total = 2\n        else:\n            print(total)", "total = 1", True),
        ("try:\n            print(total)\n        except NameError:\n            pass", "total = 1", True),
    ],
)
def test_variables_that_a_round_binds_too_late(tmp_path: Path, first: str, last: str, runs: bool) -> None:
    script = SCRIPT.format(made="loader = load(path)", more="")
    script = script.replace("        optimizer.zero_grad()", f"        optimizer.zero_grad()\n        {first}")
    files = {"train.py": script.replace("scaler.update()", f"scaler.update()\n        {last}"), "data.py": DATA}
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
    kinds: dict[str, object] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
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


@pytest.mark.parametrize(
    ("more", "runs"),
    [
        ("model.eval()", False),
        ("print('net' in locals())", False),
        ("globals()['missing'] = 1", True),
        ("locals().update(missing=1)", True),
    ],
)
def test_what_can_bind_names_unseen(tmp_path: Path, more: str, runs: bool) -> None:
    script = SCRIPT.format(made="loader = load(missing)", more="") + f"\n\ndef more(model):\n    {more}\n"
    assert bool(lint(tmp_path, {"train.py": script, "data.py": DATA}, "train.py", "AMP205")) is runs


@pytest.mark.parametrize(("start", "runs"), [("main()", True), ("if __name__ == '__main__':\n    main()", False)])
def test_a_script_that_starts_by_itself_is_no_excerpt(tmp_path: Path, start: str, runs: bool) -> None:
    script = SCRIPT.format(made="loader = load(path, missing)", more="").replace("\nmain()\n", f"\n{start}\n")
    script = script.replace("from data import Folder, load", "from elsewhere import Folder, load")
    assert bool(lint(tmp_path, {"train.py": script}, "train.py", "AMP205")) is runs


WRAPPED = """
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, loader):
    {wrapped}
    {read}
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x, y)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("wrapped", "read", "runs"),
    [
        ("model = DDP(model)", "model.decoder.train()", False),
        ("model = nn.DataParallel(model)", "print(model.decoder)", False),
        ("model = nn.parallel.DistributedDataParallel(model)", "heads = list(model.decoder.parameters())", False),
        ("model = DDP(model)", "model.module.decoder.train()", True),
        ("model = DDP(model)", "model.train()", True),
        ("model = DDP(model)", "model.seen = 1", True),
        ("model = DDP(model)", "model.seen = 1\n    print(model.seen)", True),
        ("model = DDP(model)", "model = model.module\n    model.decoder.train()", True),
        ("model = DDP(model)", "for model in [model.module]:\n        pass\n    model.decoder.train()", True),
        ("if loader:\n        model = DDP(model)", "model.decoder.train()", True),
        ("model = DDP(model)", "if loader:\n        model.decoder.train()", True),
        ("model = wrap(model)", "model.decoder.train()", True),
    ],
)
def test_attributes_that_wrappers_of_models_lack(tmp_path: Path, wrapped: str, read: str, runs: bool) -> None:
    script = WRAPPED.format(wrapped=wrapped, read=read)
    assert bool(lint(tmp_path, {"train.py": script}, "train.py", "AMP205")) is runs


LOADED = """
import torch
from data import load


def make(path):
    {before}try:
        data = load(path, {argument})
        return data
    except Exception as failure:
        print(failure)
        return {otherwise}


def train(net):
    optimizer = torch.optim.Adam(net.parameters())
    scaler = torch.amp.GradScaler("cuda")
    loader = make("train")
    for epoch in range(3):
        if {test}:
            {leaves}
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = net(x, y)
            scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
"""


@pytest.mark.parametrize(
    ("changed", "runs"),
    [
        ({}, False),
        ({"test": "not loader", "leaves": "return"}, False),
        ({"before": "if not path:\n        return None\n    "}, False),
        ({"argument": "2"}, True),
        ({"otherwise": "[]"}, True),
        ({"before": "if not path:\n        return [1]\n    "}, True),
        ({"test": "loader is not None"}, True),
        ({"test": "epoch is None"}, True),
        ({"leaves": "print(loader)"}, True),
    ],
)
def test_a_loader_that_can_only_be_none(tmp_path: Path, changed: dict[str, str], runs: bool) -> None:
    parts = {"before": "", "argument": "missing", "otherwise": "None", "test": "loader is None", "leaves": "break"}
    files = {"train.py": LOADED.format(**parts | changed), "data.py": DATA}
    assert bool(lint(tmp_path, files, "train.py", "AMP205")) is runs


CALLED = """
import torch
{imports}

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


def train_in_parallel(net, loader):
    pass


def main(name):
    {started}


if __name__ == "__main__":
    main("train")
"""


@pytest.mark.parametrize(
    ("started", "others", "runs"),
    [
        ("train_in_parallel(1, [])", {}, False),
        ("# train(1, [])\n    train_in_parallel(1, [])", {}, False),
        ("train(1, [])", {}, True),
        ("spawn(train, 4)", {}, False),
        ("print(train)", {}, True),
        ("start('train')", {}, False),
        ("globals()[name](1, [])", {}, True),
        ("train_in_parallel(1, [])", {"run.py": "from main import train\ntrain(1, [])\n"}, True),
        ("train_in_parallel(1, [])", {"other.py": "def train():\n    pass\n"}, False),
    ],
)
def test_functions_of_a_script_that_nothing_calls(
    tmp_path: Path, started: str, others: dict[str, str], runs: bool
) -> None:
    files = {"main.py": CALLED.format(started=started, imports=""), **others}
    assert bool(lint(tmp_path, files, "main.py", "AMP205")) is runs


def test_functions_that_nothing_calls_are_told_where_that_is_selected(tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text(CALLED.format(started="train_in_parallel(1, [])", imports=""))
    job = Job("main.py", str(path), path.read_bytes(), (RULE,), asked=frozenset({"AMP205"}))
    (found,) = analyse(job, Modules()).findings
    assert found.severity is Severity.INFO
    assert "something outside this project calls the function" in found.reason


def test_functions_of_a_file_that_others_import(tmp_path: Path) -> None:
    module = CALLED.format(started="train_in_parallel(1, [])", imports="").partition("\n\nif __name__")[0]
    (found,) = lint(tmp_path, {"main.py": module, "run.py": "import main\n"}, "main.py", "AMP205")
    assert found.severity is Severity.ERROR
    registered = CALLED.format(started="train_in_parallel(1, [])", imports="from app import command")
    registered = registered.replace("def train(net", "@command\ndef train(net")
    (found,) = lint(tmp_path, {"main.py": registered}, "main.py", "AMP205")
    assert found.severity is Severity.ERROR


BLOCKS = """
import torch
from torch.utils.checkpoint import checkpoint


class Block(torch.nn.Module):
    def __init__(self, width, lean=False):
        super().__init__()
        self.lean = lean
        self.inner = torch.nn.Linear(width, width)

    def forward(self, x):
        if self.lean:
            return checkpoint(self.inner, x)
        return self.inner(x)


class Net(torch.nn.Module):
    def __init__(self, width, depth=2, lean=False):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(width, lean=lean) for _ in range(depth)])
"""
NET = "from nets import Net\nnet = Net(8)\n"


@pytest.mark.parametrize(
    ("others", "runs"),
    [
        ({}, True),
        ({"run.py": "from nets import Net\nnet = Net(8, depth=4)\n"}, False),
        ({"run.py": "from nets import Net\nnet = Net(8, depth=4, lean=True)\n"}, True),
        ({"run.py": "from nets import Net\nnet = Net(8, 4, args.lean)\n"}, True),
        ({"run.py": "from nets import Net\nnet = Net(**options)\n"}, True),
        ({"run.py": "from nets import Net\nnet = Net(8)\nmade = {'net': Net}\nmake(Net)\n"}, True),
        ({"run.py": "from nets import Net as Big\nnet = Big(8)\n"}, True),
        ({"run.py": "import nets\nnet = nets.Net(8)\n"}, True),
        ({"run.py": "from nets import *\nnet = Net(8)\n"}, True),
        ({"run.py": NET, "net.py": "made = getattr(nets, 'Net')(8)\n"}, True),
        ({"run.py": NET, "old.py": "class Net:\n    pass\n\nNet(lean=True)\n"}, False),
        ({"run.py": NET, "other/use.py": "from timm import Net\nNet(lean=True)\n"}, False),
        ({"run.py": NET, "conf.yaml": "_target_: nets.Net\nlean: true\n"}, True),
    ],
)
def test_an_option_that_no_caller_passes(tmp_path: Path, others: dict[str, str], runs: bool) -> None:
    assert bool(lint(tmp_path, {"nets.py": BLOCKS, **others}, "nets.py", "AMP603")) is runs


METHODS = """
import torch


class Loop{base}:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.Adam(net.parameters())
        self.scaler = torch.amp.GradScaler("cuda")

    def save(self, path):
        torch.save({{"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}}, path)

    def restore(self, path):
        self.optimizer.load_state_dict(torch.load(path)["optimizer"])

    def run_batch(self, x):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = self.net(x).sum()
        self.scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""


@pytest.mark.parametrize(
    ("base", "others", "codes"),
    [
        ("", {"run.py": "loop.run_batch(1)\nloop.restore(2)\n"}, {"AMP205", "AMP211"}),
        ("", {"run.py": "loop.run_batch(1)\n"}, {"AMP205"}),
        ("", {"run.py": "loop.restore(1)\n"}, {"AMP211"}),
        ("", {"run.py": "class Other:\n    def run_batch(self):\n        pass\n"}, set()),
        ("", {"run.py": "def run_batch(x):\n    return x\n\n\nrun_batch(1)\n"}, set()),
        ("", {"run.py": "    # loop.run_batch(1)\nloop.restore(2)\n"}, {"AMP211"}),
        ("", {"run.py": "getattr(loop, 'run_batch')(1)\n"}, {"AMP205"}),
        ("", {"run.yaml": "call: run_batch\n"}, {"AMP205"}),
        ("(torch.nn.Module)", {}, set()),
        ("(Trainer)", {}, {"AMP205", "AMP211"}),
        ("", {"pyproject.toml": "[project]\n"}, {"AMP205", "AMP211"}),
        ("", {"start.ipynb": '{"loop.run_batch(x)": "loop.restore(path)"}'}, {"AMP205", "AMP211"}),
    ],
)
def test_methods_that_nothing_mentions(tmp_path: Path, base: str, others: dict[str, str], codes: set[str]) -> None:
    files = {"loop.py": METHODS.format(base=base), "start.py": "from loop import Loop\nloop = Loop(None)\n", **others}
    found = {code for code in ("AMP205", "AMP211") if lint(tmp_path, files, "loop.py", code)}
    assert found == codes


def test_methods_of_a_class_that_nothing_uses_can_be_called_from_elsewhere(tmp_path: Path) -> None:
    assert lint(tmp_path, {"loop.py": METHODS.format(base="")}, "loop.py", "AMP205")


@pytest.mark.parametrize("wrapper", [DataParallel, DistributedDataParallel])
def test_attributes_of_wrappers(wrapper: type[torch.nn.Module]) -> None:
    known = ATTRIBUTES[f"torch.nn.parallel.{wrapper.__name__}"]
    set_by_itself = re.findall(r"\bself\.([a-z]\w*)", inspect.getsource(wrapper))
    public = {name for name in (*dir(torch.nn.Module()), *dir(wrapper)) if not name.startswith("_")}
    assert public.union(set_by_itself) <= known
