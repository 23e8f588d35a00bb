"""The benchmark of dry runs, on a repository that is written here."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import dry_run
from benchmarks.dry_run_scripts import COMMITS, SCRIPTS, Script

SCRIPT = """\
import sys

import torch
import wandb
from torch.utils.tensorboard import SummaryWriter
from torchvision import datasets, models, transforms

wandb.init(project="none")
writer = SummaryWriter()
open("names.txt").read()
transform = transforms.Compose([transforms.RandomResizedCrop(32), transforms.ToTensor()])
loader = torch.utils.data.DataLoader(datasets.ImageFolder("data", transform), batch_size=int(sys.argv[1]))
model = models.resnet18(num_classes=10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, targets in loader:
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), targets.cuda())
    loss.backward()
    optimizer.step()
    writer.add_scalar("loss", loss.item())
"""


def test_a_script_runs_on_random_data(tmp_path: Path) -> None:
    repository = tmp_path / "owner" / "name"
    repository.mkdir(parents=True)
    (repository / "train.py").write_text(SCRIPT)
    script = Script("owner/name", "train.py", "2", {"names.txt": lambda path: path.touch()})
    outcome = dry_run.run(script, repository, tmp_path, ["--steps", "2", "--skip", "0"], 300)
    assert (outcome.status, outcome.steps) == (0, 2)
    assert [path.name for path in repository.iterdir()] == ["train.py"]


def test_the_failure_of_a_script_is_said(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import nothing_of_this_name\n")
    outcome = dry_run.run(Script("owner/name", "train.py"), tmp_path, tmp_path, [], 300)
    assert (outcome.status, outcome.said) == (1, "ModuleNotFoundError: No module named 'nothing_of_this_name'")


def test_what_is_missing_is_told_with_the_commands_that_fetch_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dry_run.main(["--repositories", str(tmp_path), "--only", "nanoGPT"])
    said = " ".join(capsys.readouterr().out.split())
    assert "git clone https://github.com/karpathy/nanoGPT" in said
    assert COMMITS["karpathy/nanoGPT"] in said


def test_each_script_has_a_name_and_a_commit_of_its_own() -> None:
    names = [script.name for script in SCRIPTS]
    assert len(set(names)) == len(names)
    assert {script.repository for script in SCRIPTS} == set(COMMITS)
