"""Scalers and optimizers that dictionaries, lists and global variables hold."""

from __future__ import annotations

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

RULES = (load_registry().rules["AMP205"],)
LOOP = """\
    for x in loader:
        with torch.autocast("cuda"):
            loss = model(x).float().mean()
        {scaler}.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        {scaler}.step({optimizer})
        {scaler}.update()
        {optimizer}.zero_grad()
"""


def found(code: str) -> list[str]:
    """The codes of the findings in `code`."""
    job = Job("program.py", "", ("import torch\n" + code).encode(), RULES)
    return [each.code for each in analyse(job, Modules()).findings]


@pytest.mark.parametrize(
    ("scaler", "optimizer"),
    [
        ("held['scaler']", "optimizer"),
        ("held['amp']['scaler']", "held['optimizers'][0]"),
        ("held[0]", "held[1]"),
        ("held.parts['s'].inner", "optimizer"),
    ],
)
def test_elements_by_written_keys(scaler: str, optimizer: str) -> None:
    loop = LOOP.format(scaler=scaler, optimizer=optimizer)
    assert found(f"def train(held, model, optimizer, loader):\n{loop}") == ["AMP205"]
    unscaled = loop.replace("        torch.nn", f"        {scaler}.unscale_({optimizer})\n        torch.nn")
    assert found(f"def train(held, model, optimizer, loader):\n{unscaled}") == []


@pytest.mark.parametrize(("key", "expected"), [("name", ["AMP205"]), ("next(names)", [])])
def test_elements_by_a_variable_are_those_of_its_value(key: str, expected: list[str]) -> None:
    loop = LOOP.format(scaler=f"held[{key}]", optimizer="optimizer")
    assert found(f"def train(held, name, names, model, optimizer, loader):\n{loop}") == expected


@pytest.mark.parametrize(("declared", "expected"), [("    global scaler\n", ["AMP205"]), ("", [])])
def test_global_variables_that_functions_assign(declared: str, expected: list[str]) -> None:
    code = f"scaler = None\ndef begin():\n{declared}    scaler = torch.amp.GradScaler('cuda')\n"
    loop = LOOP.format(scaler="scaler", optimizer="optimizer")
    assert found(f"{code}def train(model, optimizer, loader):\n{loop}") == expected
