"""Checkpoints that code of other files saves and restores, which get the scaler's state with the optimizer's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amplint.codemods import Conversion, Wish, convert
from amplint.engine.modules import Modules

TRAIN = """import sys

import torch
from torch import nn
from states import load_state, save_state


def main(path, resume):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    start = load_state(path, model, optimizer) if resume else 0
    for epoch in range(start, start + 2):
        for x in torch.ones(3, 8, 4):
            loss = model(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        save_state(model, optimizer, epoch + 1, path)


if __name__ == "__main__":
    main("last.pt", len(sys.argv) > 1)
"""
STATES = """import torch


def save_state(model, optimizer, epoch, path):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)


def load_state(path, model, optimizer):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["epoch"]
"""
TRAINER = """import torch.nn.functional as F
from base import Base


class Trainer(Base):
    def __init__(self, model, optimizer, resume):
        super().__init__(model, optimizer, resume)
        self.rounds = 2

    def train_epoch(self, batches):
        for x, y in batches:
            self.optimizer.zero_grad()
            loss = F.mse_loss(self.model(x), y)
            loss.backward()
            self.optimizer.step()
"""
BASE = """import torch


class Base:
    def __init__(self, model, optimizer, resume):
        self.model = model
        self.optimizer = optimizer
        if resume:
            self.restore(resume)

    def save(self, path):
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, path)

    def restore(self, path):
        state = torch.load(path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
"""
RUN_TRAINER = """import torch
from trainer import Trainer

batches = [(torch.ones(2, 4), torch.ones(2, 1))] * 3
model = torch.nn.Linear(4, 1)
trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), None)
trainer.train_epoch(batches)
trainer.scaler.update(1024.0)
trainer.save("last.pt")
again = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), "last.pt")
print(again.scaler.get_scale())
"""


def _converted(folder: Path, name: str, files: dict[str, str]) -> Conversion:
    """The conversion of a file of the project, whose files change with it."""
    for other, text in files.items():
        (folder / other).write_text(text, encoding="utf-8")
    found = convert(files[name], Wish(to="amp", device="cpu"), str(folder / name), Modules())
    assert found.done
    (folder / name).write_text(found.text, encoding="utf-8")
    for one in found.others:
        Path(one.path).write_bytes(one.after)
    return found


def _run(folder: Path, *arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_functions_take_the_scaler_and_keep_its_state(tmp_path: Path) -> None:
    found = _converted(tmp_path, "train.py", {"train.py": TRAIN, "states.py": STATES})
    assert "load_state(path, model, optimizer, scaler=scaler) if resume" in found.text
    assert "save_state(model, optimizer, epoch + 1, path, scaler=scaler)" in found.text
    (other,) = found.others
    assert other.done == ("Save and restore the scaler's state",)
    assert '    if scaler is not None and state.get("scaler"):\n' in other.after.decode()
    assert not any("scaler's" in one.text for one in found.left)
    _run(tmp_path, "train.py")
    saved = "import torch; print(torch.load('last.pt')['scaler']['_growth_tracker'])"
    before = int(_run(tmp_path, "-c", saved))
    _run(tmp_path, "train.py", "resume")
    assert int(_run(tmp_path, "-c", saved)) == before + 6


def test_functions_that_are_called_without_a_scaler_work_as_before(tmp_path: Path) -> None:
    _converted(tmp_path, "train.py", {"train.py": TRAIN, "states.py": STATES})
    (tmp_path / "plain.py").write_text(TRAIN, encoding="utf-8")
    _run(tmp_path, "plain.py")
    _run(tmp_path, "plain.py", "resume")


def test_methods_of_a_base_class_keep_the_state_of_the_scaler_which_is_made_before_them(tmp_path: Path) -> None:
    found = _converted(tmp_path, "trainer.py", {"trainer.py": TRAINER, "base.py": BASE})
    assert '        self.scaler = torch.amp.GradScaler("cpu")\n        super().__init__(' in found.text
    (tmp_path / "run.py").write_text(RUN_TRAINER, encoding="utf-8")
    assert _run(tmp_path, "run.py") == "1024.0\n"


def test_a_function_that_takes_a_scaler_gets_it(tmp_path: Path) -> None:
    states = STATES.replace("epoch, path):", "epoch, path, grad_scaler=None):").replace(
        '"epoch": epoch}', '"epoch": epoch, "scaler": grad_scaler and grad_scaler.state_dict()}'
    )
    found = _converted(tmp_path, "train.py", {"train.py": TRAIN, "states.py": states})
    assert "save_state(model, optimizer, epoch + 1, path, grad_scaler=scaler)" in found.text
    assert "load_state(path, model, optimizer, scaler=scaler)" in found.text


def test_two_optimizers_share_an_entry(tmp_path: Path) -> None:
    train = TRAIN.replace("model, optimizer, epoch + 1", "model, optimizer, optimizer_2, epoch + 1")
    train = train.replace("lr=0.1)\n", "lr=0.1)\n    optimizer_2 = torch.optim.SGD([model.bias], lr=0.1)\n", 1)
    train = train.replace(
        "            optimizer.step()\n", "            optimizer.step()\n            optimizer_2.step()\n"
    )
    states = STATES.replace("model, optimizer, epoch, path", "model, first_optim, second_optim, epoch, path")
    entries = '"first_optim": first_optim.state_dict(), "second_optim": second_optim.state_dict()'
    states = states.replace('"optimizer": optimizer.state_dict()', entries).replace('["optimizer"]', '["first_optim"]')
    found = _converted(tmp_path, "train.py", {"train.py": train, "states.py": states})
    assert found.others[0].after.decode().count(".state_dict() if scaler is not None else None") == 1
    _run(tmp_path, "train.py")
    _run(tmp_path, "train.py", "resume")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def load_state(path, model, optimizer):", "def load_state(path, model, optimizer, **options):"),
        ('optimizer.load_state_dict(state["optimizer"])', "optimizer.load_state_dict(moments(state))"),
        ("def load_state(path, model, optimizer):", "def load_state(path, model, optimizer, *more):"),
        ("def load_state(path, model, optimizer):", "def load_state(path, model, optimizer, scaler=None):"),
    ],
    ids=["keywords", "where the state comes from", "arguments", "a scaler of data"],
)
def test_state_that_could_be_saved_and_not_restored_is_left_to_a_person(tmp_path: Path, old: str, new: str) -> None:
    found = _converted(tmp_path, "train.py", {"train.py": TRAIN, "states.py": STATES.replace(old, new)})
    assert found.others == ()
    assert "scaler=scaler" not in found.text
    assert any("AMP211" in one.text for one in found.left)


def test_a_text_that_is_converted_alone_relies_on_no_change_of_others(tmp_path: Path) -> None:
    (tmp_path / "states.py").write_text(STATES, encoding="utf-8")
    found = convert(TRAIN, Wish(to="amp"), str(tmp_path / "train.py"))
    assert found.done
    assert "scaler=scaler" not in found.text


def test_a_call_before_the_scaler_is_made_is_left_alone_with_the_others(tmp_path: Path) -> None:
    train = TRAIN.replace("    start = load_state(path, model, optimizer) if resume else 0\n", "    start = 0\n")
    train = train.replace(
        "def main(", "def restored(path, model, optimizer):\n    load_state(path, model, optimizer)\n\n\ndef main("
    )
    found = _converted(tmp_path, "train.py", {"train.py": train, "states.py": STATES})
    assert found.others == ()
    assert "scaler=scaler" not in found.text


def test_an_optimizer_by_another_name_is_one_for_its_parameter(tmp_path: Path) -> None:
    train = TRAIN.replace("load_state(path, model, optimizer)", "load_state(path, model, sgd)")
    train = train.replace("    optimizer = torch", "    sgd = optimizer = torch")
    found = _converted(tmp_path, "train.py", {"train.py": train, "states.py": STATES})
    assert "load_state(path, model, sgd, scaler=scaler)" in found.text
    assert "save_state(model, optimizer, epoch + 1, path, scaler=scaler)" in found.text
