"""Gradient penalties of functions whose callers are not seen."""

from __future__ import annotations

import textwrap

import pytest

from amplint.engine.registry import load_registry
from amplint.findings import Severity
from tests.linting import findings_of

RULE = load_registry().rules["AMP213"]
PROGRAMS = {
    "a norm of the gradients": """
        def r1(critic, real, scaler):
            real.requires_grad_(True)
            scores = critic(real).sum()
            (grad,) = torch.autograd.grad(scaler.scale(scores), real, create_graph=True)  # AMP213
            return grad.square().sum(dim=1).mean()
    """,
    "outputs by name, in a method": """
        class Critic:
            def penalty(self, images):
                loss = self.scaler.scale(self.net(images).sum())
                grad = torch.autograd.grad(outputs=loss, inputs=images, create_graph=True)[0]  # AMP213
                return (grad.norm(2, dim=1) - 1) ** 2

            def step(self, loss):
                self.scaler.scale(loss).backward()
    """,
    "divided by the scale": """
        def r1(critic, real, scaler):
            grad = torch.autograd.grad(scaler.scale(critic(real).sum()), real, create_graph=True)[0]
            grad = grad / scaler.get_scale()
            return grad.square().sum(dim=1).mean()
    """,
    "the gradients themselves": """
        def gradients(critic, real, scaler):
            return torch.autograd.grad(scaler.scale(critic(real).sum()), real, create_graph=True)[0]
    """,
    "a caller that divides": """
        def gradients(critic, real, scaler):
            return torch.autograd.grad(scaler.scale(critic(real).sum()), real, create_graph=True)[0]

        def r1(critic, real, scaler):
            grad = gradients(critic, real, scaler) * (1.0 / scaler.get_scale())
            return grad.square().sum(dim=1).mean()
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_penalty_that_is_returned(name: str) -> None:
    code = "import torch\n\n" + textwrap.dedent(PROGRAMS[name])
    findings = findings_of(code, (RULE,), asked=frozenset({"AMP213"}))
    expected = [row for row, line in enumerate(code.splitlines(), 1) if "# AMP213" in line]
    assert [finding.span.start.row for finding in findings] == expected
    assert all(finding.severity is Severity.INFO for finding in findings)
