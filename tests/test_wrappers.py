"""A scaler kept by a wrapper of another file: mistakes in the wrapper or the loop are found, their twins are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Severity
from tests.linting import findings_of
from tests.test_modules import lint as found_in
from tests.test_modules import write

RULES = tuple(rule for code, rule in load_registry().rules.items() if code.startswith(("AMP1", "AMP2", "AMP3")))
CLIPPING = """
    import torch

    def limit(parameters, most):
        torch.nn.utils.clip_grad_norm_(parameters, most)
"""
WRAPPER = """
    import torch
    from .clipping import limit

    class LossScaler:
        def __init__(self):
            self._scaler = torch.amp.GradScaler("cuda")

        def __call__(self, loss, optimizer, most=None, parameters=None, last=True):
            self._scaler.scale(loss).backward()
            if last:
                if most is not None:
                    self._scaler.unscale_(optimizer)
                    limit(parameters, most)
                self._scaler.step(optimizer)
                self._scaler.update()

        def state_dict(self):
            return self._scaler.state_dict()
"""
ENGINE = """
    import torch

    def train_epoch(model, batches, optimizer, loss_scaler, args):
        optimizer.zero_grad()
        for index, batch in enumerate(batches):
            last = (index + 1) % args.rounds == 0
            with torch.autocast("cuda", torch.float16):
                loss = model(batch).sum()
            loss /= args.rounds
            loss_scaler(loss, optimizer, most=args.most, parameters=model.parameters(), last=last)
            if last:
                optimizer.zero_grad()
"""
SCRIPT = """
    import argparse
    import torch
    from engine import train_epoch
    from kit.scaling import LossScaler

    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--most", type=float, default=None)
    args = parser.parse_args()
    model = torch.nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loss_scaler = LossScaler()
    for epoch in range(3):
        train_epoch(model, [torch.ones(2, 2).cuda()] * 8, optimizer, loss_scaler, args)
"""
FILES = {"kit/clipping.py": CLIPPING, "kit/scaling.py": WRAPPER, "engine.py": ENGINE, "train.py": SCRIPT}
STEP = "self._scaler.step(optimizer)"
CALL = "last=last)\n"


def lint(root: Path, files: dict[str, str]) -> set[str]:
    """Codes of what is found when all `files` are linted together."""
    write(root, files)
    modules = Modules()
    jobs = [Job(name, str(root / name), (root / name).read_bytes(), (), RULES) for name in files]
    return {finding.code for job in jobs for finding in analyse(job, modules).findings}


def test_a_right_wrapper_is_silent(tmp_path: Path) -> None:
    assert lint(tmp_path, FILES) == set()


@pytest.mark.parametrize(
    ("file", "right", "wrong", "code"),
    [
        ("kit/scaling.py", "self._scaler.unscale_(optimizer)", "pass", "AMP205"),
        ("kit/scaling.py", STEP, f"{STEP}; {STEP}", "AMP204"),
        ("kit/scaling.py", "self._scaler.update()", "pass", "AMP203"),
        ("kit/scaling.py", STEP, f"self._scaler.unscale_(optimizer); {STEP}", "AMP201"),
        ("kit/scaling.py", "if most is not None", f"{STEP}\n                if most is not None", "AMP202"),
        ("kit/scaling.py", STEP, "optimizer.step()", "AMP206"),
        ("kit/scaling.py", "self._scaler.scale(loss).backward()", "loss.backward()", "AMP207"),
        ("engine.py", CALL, f"{CALL}            optimizer.step()\n", "AMP206"),
        ("engine.py", CALL, f"{CALL}            loss.backward()\n", "AMP207"),
        ("engine.py", CALL, f"{CALL}            torch.nn.utils.clip_grad_norm_(model.parameters(), 1)\n", "AMP205"),
        ("engine.py", CALL, f"{CALL}            optimizer.zero_grad()\n", "AMP304"),
    ],
)
def test_a_mistake_is_found(tmp_path: Path, file: str, right: str, wrong: str, code: str) -> None:
    assert right in FILES[file]
    assert code in lint(tmp_path, {**FILES, file: FILES[file].replace(right, wrong)})


INSTALLED = """
    import torch
    from timm.utils import NativeScaler
    from saving import save_on_master

    def train(model, loader, args):
        optimizer = torch.optim.AdamW(model.parameters())
        loss_scaler = NativeScaler()
        for inputs in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.float16):
                loss = model(inputs).sum()
            loss_scaler(loss, optimizer, clip_grad=args.clip, parameters=model.parameters())
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": loss_scaler.state_dict()}
        save_on_master(state, "last.pt")
        loss_scaler.load_state_dict(torch.load("last.pt")["scaler"])
"""
SAVING = """
    import torch

    def save_on_master(*args, **kwargs):
        if torch.distributed.get_rank() == 0:
            torch.save(*args, **kwargs)
"""


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ("", "", []),
        (', "scaler": loss_scaler.state_dict()', "", ["AMP211:14"]),
        ("            loss_scaler(loss", "                loss_scaler(loss", ["AMP101:13"]),
    ],
)
def test_a_wrapper_of_an_installed_library(tmp_path: Path, right: str, wrong: str, expected: list[str]) -> None:
    assert right in INSTALLED
    write(tmp_path, {"train.py": INSTALLED.replace(right, wrong) if right else INSTALLED, "saving.py": SAVING})
    assert found_in(tmp_path, "train.py") == expected


def test_the_tree_comes_before_what_stands_for_a_library(tmp_path: Path) -> None:
    own = "class NativeScaler:\n    def __call__(self, loss, *args, **kwargs):\n        loss.backward()\n"
    broken = INSTALLED.replace(', "scaler": loss_scaler.state_dict()', "")
    write(tmp_path, {"train.py": broken, "saving.py": SAVING, "timm/utils.py": own})
    assert found_in(tmp_path, "train.py") == []


EPOCH = """
    import torch

    def train_one_epoch(model, loader, optimizer, loss_scaler, amp):
        for inputs in loader:
            with torch.autocast("cuda", torch.float16, enabled=amp):
                loss = model(inputs).sum()
                optimizer.zero_grad()
                if amp:
                    loss_scaler(loss, optimizer, parameters=model.parameters())
                else:
                    loss.backward()
                    optimizer.step()
{after}
"""
MAIN = """
    from timm.optim import create_optimizer
    from timm.utils import NativeScaler
    from epoch import train_one_epoch

    def main(args, model, loader):
        optimizer, loss_scaler = create_optimizer(args, model), NativeScaler()
        for _ in range(args.epochs):
            train_one_epoch(model, loader, optimizer, loss_scaler, args.amp)
"""


@pytest.mark.parametrize(
    ("after", "stale"), [("", []), ("                loss = model(inputs).sum()", [("AMP102", Severity.WARNING, 10)])]
)
def test_it_is_told_of_the_call_in_another_file_and_what_follows_there(
    tmp_path: Path, after: str, stale: list[object]
) -> None:
    write(tmp_path, {"main.py": MAIN, "epoch.py": EPOCH.format(after=after)})
    path = tmp_path / "main.py"
    findings = findings_of(path.read_bytes(), (), RULES, path=str(path))
    told = [(one.code, one.severity, one.elsewhere and one.elsewhere.span.start.row) for one in findings]
    assert told == [("AMP101", Severity.WARNING, 10), *stale]
