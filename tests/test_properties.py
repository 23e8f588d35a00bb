"""Properties: what a getter returns is the same object each time, and each read of a property has its own value."""

from __future__ import annotations

import textwrap

import pytest

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = tuple(rule for code, rule in load_registry().rules.items() if code.startswith("AMP2"))
GETTER = """
    import torch

    class Trainer:
        def __init__(self, runtime, optimizer, model):
            self.runtime = runtime
            self.optimizer = optimizer
            self.scaler = torch.amp.GradScaler("cuda")
            self.model = model

        @property
        def engine(self):
            '''The engine.'''
            return self.runtime.engine

        def train(self, batch):
            with torch.autocast("cuda", enabled=self.engine.uses_amp):
                total = self.model(batch).sum()
            if self.engine.uses_amp:
                self.scaler.scale(total).backward()
            else:
                total.backward()
            if {asked}.uses_amp:
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                self.optimizer.step()
"""
COMPUTED = """
    import torch

    class Trainer:
        def __init__(self, model, lr):
            self.model = model
            self._scaler = torch.amp.GradScaler("cuda")
            self._optimizer = torch.optim.SGD(model.parameters(), lr=lr)

        @property
        def scaler(self):
            self.seen = True
            return self._scaler

        @property
        def optimizer(self):
            self.seen = True
            return self._optimizer

        def train(self, loader):
            for batch in loader:
                self.optimizer.zero_grad()
                with torch.autocast("cuda"):
                    loss = self.model(batch).sum()
                self.scaler.scale(loss).backward()
                {first}
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.scaler.step(self.optimizer)
                self.scaler.update()
"""


def codes(program: str) -> set[str]:
    """The codes of what is found."""
    findings = findings_of(textwrap.dedent(program), RULES)
    return {finding.code for finding in findings}


@pytest.mark.parametrize(("asked", "expected"), [("self.engine", set()), ("self.runtime", {"AMP207"})])
def test_a_getter_returns_the_same_object_each_time(asked: str, expected: set[str]) -> None:
    assert codes(GETTER.format(asked=asked)) == expected


@pytest.mark.parametrize(("first", "expected"), [("self.scaler.unscale_(self.optimizer)", set()), ("pass", {"AMP205"})])
def test_two_properties_in_one_statement_are_two_objects(first: str, expected: set[str]) -> None:
    assert codes(COMPUTED.format(first=first)) == expected
