"""What is handed to NumPy though nothing tells its dtype: said to those who ask for it."""

from __future__ import annotations

import textwrap

import pytest

from amplint.engine.analyse import Job, analyse
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

RULES = (load_registry().rules["AMP501"],)
FOUND = {
    "as it comes": "out.detach().cpu().numpy()",
    "half before": "out.bfloat16().cpu().numpy()",
    "moved": "out.to(self.device).numpy()",
}
SILENT = {
    "float first": "out.float().cpu().numpy()",
    "float last": "out.squeeze(0).cpu().float().numpy()",
    "converted by dtype": "out.to(torch.float32).cpu().numpy()",
    "converted by type": "out.type(torch.float64).detach().numpy()",
    "computed from what was converted": "out.float().softmax(-1).cpu().numpy()",
}
EACH = """
def joined(outputs):
    return [output{conversion}.numpy() for output in outputs]
"""


def lines(code: str) -> list[int]:
    job = Job("program.py", "", code.encode(), RULES, asked=frozenset({"AMP501"}))
    return [finding.span.start.row for finding in analyse(job, Modules()).findings]


def predicted(expression: str) -> str:
    return textwrap.dedent(f"""
        import torch

        class Predictor:
            def predict(self, batch):
                with torch.no_grad():
                    out = self.model(batch)
                return {expression}
    """)


@pytest.mark.parametrize("expression", FOUND.values(), ids=FOUND)
def test_found(expression: str) -> None:
    assert lines(predicted(expression)) == [8]


@pytest.mark.parametrize("expression", SILENT.values(), ids=SILENT)
def test_silent(expression: str) -> None:
    assert lines(predicted(expression)) == []


def test_elements() -> None:
    assert lines(EACH.format(conversion="")) == [3]
    assert lines(EACH.format(conversion=".float()")) == []
