"""`amplint check --fix` with a rule about an opportunity does what `amplint convert` does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amplint.codemods import Conversion, Wish, driver
from amplint.engine.registry import load_registry
from tests.codemods.running import LOOP
from tests.conftest import Command
from tests.linting import findings_of

FLOAT32 = LOOP.replace("nn.Linear(4, 1)", "nn.Linear(4, 1)  # é")
FLOAT16 = """import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x in [torch.ones(2, 4)]:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(x).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize(
    ("text", "rule", "wish"),
    [
        (FLOAT32, "AMP901", ("--to", "amp")),
        (FLOAT32, "float32-training-loop", ("--to", "amp")),
        (FLOAT16, "AMP902", ("--from", "float16")),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1"])
def test_a_repair_is_a_conversion(
    amplint: Command, project: Path, text: str, rule: str, wish: tuple[str, str], encoding: str
) -> None:
    cookie = "" if encoding.startswith("utf-8") else f"# coding: {encoding}\n"
    one, other = project / "one.py", project / "other.py"
    for path in (one, other):
        path.write_bytes((cookie + text).encode(encoding))
    assert amplint("check", "--fix", "--select", rule, "one.py").status == 0
    assert amplint("convert", *wish, "--write", "other.py").status == 0
    assert one.read_bytes() == other.read_bytes() != (cookie + text).encode(encoding)


@pytest.mark.parametrize("options", [(), ("--select", "ALL"), ("--select", "AMP901", "--no-unsafe-fixes")])
def test_nothing_is_converted_unasked(amplint: Command, project: Path, options: tuple[str, ...]) -> None:
    path = project / "train.py"
    path.write_text(FLOAT32, encoding="utf-8")
    amplint("check", "--fix", *options, "train.py")
    assert path.read_text(encoding="utf-8") == FLOAT32


CLOSURE = FLOAT32.replace("optimizer.step()", "optimizer.step()\nother = torch.optim.LBFGS(model.parameters())\n")
CLOSURE += "other.step(lambda: model(x).mean())\n"
TWO_SCALERS = FLOAT16 + FLOAT16.partition("from torch import nn\n")[2].replace("scaler", "other")


@pytest.mark.parametrize("rule", ["AMP901", "ALL"])
def test_what_is_refused_is_no_opportunity(amplint: Command, project: Path, rule: str) -> None:
    (project / "train.py").write_text(CLOSURE, encoding="utf-8")
    assert "refused" in amplint("convert", "--to", "amp", "train.py").err
    assert "AMP901" not in amplint("check", "--select", rule, "train.py").out


def test_a_file_is_converted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = load_registry().rules["AMP902"]
    converted = []

    def run(text: str, wish: Wish, path: str) -> Conversion:
        converted.append(wish)
        return Conversion(text.replace("scaler", "nothing"))

    monkeypatch.setattr(driver, "run", run)
    found = findings_of(TWO_SCALERS, (rule,))
    assert ([finding.code for finding in found], len(converted)) == (["AMP902", "AMP902"], 1)


def test_linting_loads_no_codemod() -> None:
    program = "from amplint.engine.registry import load_registry\nload_registry()\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = [name for name in done.stdout.split() if name.startswith("amplint.codemods.")]
    assert loaded == ["amplint.codemods.conversion"]
