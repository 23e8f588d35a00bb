"""What the required versions of PyTorch decide: repairs that need a newer one, and findings about older ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.engine.registry import load_registry
from amplint.findings import Applicability, Finding
from tests.linting import findings_of

RULES = tuple(rule for code, rule in load_registry().rules.items() if code in ("AMP107", "AMP603", "AMP701"))
SCALER = "import torch\nscaler = torch.cuda.amp.GradScaler()\n"
REGION = "import torch\nregion = torch.cuda.amp.autocast()\n"
TEXT = "import torch\n\ndef run(net, x, device):\n    with torch.autocast({text}):\n        return net(x.to(device))\n"


def lint(folder: Path, program: str, requirements: str, name: str = "requirements.txt") -> list[Finding]:
    """What is found in a program beside these requirements."""
    (folder / "pyproject.toml").write_text("")
    (folder / name).write_text(requirements)
    path = folder / "program.py"
    path.write_text(program)
    return findings_of(program, RULES, path=str(path))


@pytest.mark.parametrize(
    ("program", "requirements", "safe", "moves_on"),
    [
        (SCALER, "", True, False),
        (SCALER, "torch>=2.3\n", True, False),
        (SCALER, "torch>=1.13\n", False, False),
        (SCALER, "torch==1.13.1\n", False, True),
        (REGION, "torch==1.13.1\n", True, True),
        (REGION, "torch<2.0\n", False, True),
    ],
)
def test_a_repair_needs_what_it_writes(
    tmp_path: Path, program: str, requirements: str, safe: bool, moves_on: bool
) -> None:
    (finding,) = lint(tmp_path, program, requirements)
    assert finding.fix is not None
    assert (finding.fix.applicability is Applicability.SAFE) == safe
    assert ("moves on to PyTorch 2.4" in finding.reason) == moves_on


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "README.md",
            "## Setup\n\n    pip install torch==1.9.0+cu111 torchvision==0.10.0+cu111 -f https://example.org\n",
        ),
        ("README.md", "```\nconda install pytorch==1.9.0 cudatoolkit=11.1\n```\n"),
        ("Dockerfile", "RUN pip3 install --no-cache-dir numpy 'torch==1.9.0'\n"),
        ("docs/requirements.txt", "torch==1.9.0\n"),
    ],
)
def test_commands_and_documentation_ask_for_versions(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "docs").mkdir()
    (finding,) = lint(tmp_path, SCALER, text, name)
    assert "moves on to PyTorch 2.4" in finding.reason


@pytest.mark.parametrize(
    "text", ["pip install torch\n", "It was torch==1.9.0 once.\n", "pip install pytorch-lightning==1.9.0"]
)
def test_other_texts_ask_for_none(tmp_path: Path, text: str) -> None:
    (finding,) = lint(tmp_path, SCALER, text, "README.md")
    assert "moves on to PyTorch 2.4" not in finding.reason


def test_conda_names_it_otherwise(tmp_path: Path) -> None:
    (finding,) = lint(tmp_path, SCALER, "dependencies:\n  - pytorch=1.12\n", "environment.yml")
    assert finding.fix is not None
    assert finding.fix.applicability is Applicability.UNSAFE


@pytest.mark.parametrize(
    ("text", "requirements", "found"),
    [
        ("str(device)", "", False),
        ("str(device)", "torch==2.1\n", True),
        ("str(device)", "torch>=2.4\n", False),
        ('str(device).replace(":0", "")', "torch==2.1\n", False),
        ('f"cuda:{device}"', "", True),
    ],
)
def test_the_text_of_a_device_needs_an_older_version(tmp_path: Path, text: str, requirements: str, found: bool) -> None:
    assert [finding.code for finding in lint(tmp_path, TEXT.format(text=text), requirements)] == ["AMP107"] * found


CHECKPOINTED = """import torch
from torch.utils.checkpoint import checkpoint

def run(block, loader, x):
    for batch in loader:
        checkpoint(block, {given})
"""


@pytest.mark.parametrize(
    ("given", "requirement", "found", "repaired"),
    [
        ("x", "pytorch=1.9.0", False, False),
        ("x", "pytorch=2.0.1", False, False),
        ("x", "pytorch=2.1.0", True, True),
        ("x", "pytorch>=1.9", True, True),
        ("x", "numpy=1.9.0", True, True),
        ("x, mask=x", "pytorch=1.9.0", True, False),
        ("batch", "pytorch=1.9.0", True, False),
        ("batch", "pytorch=1.11.0", True, True),
    ],
)
def test_a_variant_of_checkpoints_needs_a_version_that_has_it(
    tmp_path: Path, given: str, requirement: str, found: bool, repaired: bool
) -> None:
    program = CHECKPOINTED.format(given=given)
    findings = lint(tmp_path, program, f"dependencies:\n  - {requirement}\n", "environment.yaml")
    assert [finding.code for finding in findings] == ["AMP603"] * found
    assert any(finding.fix is not None for finding in findings) == repaired
    assert all(("use_reentrant" in finding.advice) == repaired for finding in findings)


HANDED_ON = """import torch

class Trainer:
    def __init__(self, net, name="cuda"):
        kind = "cuda" if torch.cuda.is_available() else "cpu"
        self.net, self.device = net, torch.device({given})

    def run(self, x):
        return step(self.net, x, self.device)

def step(net, x, device):
    with torch.autocast(str(device)):
        return net(x.to(device))
"""


@pytest.mark.parametrize(("given", "found"), [("kind", False), ("'cuda'", False), ("name", True), ("GPUS[0]", True)])
def test_the_caller_of_a_function_chooses_a_device_without_an_index(tmp_path: Path, given: str, found: bool) -> None:
    findings = lint(tmp_path, HANDED_ON.format(given=given), "torch==2.1\n")
    assert [finding.code for finding in findings] == ["AMP107"] * found
