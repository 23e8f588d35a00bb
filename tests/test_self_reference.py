"""Definitions that read themselves, which raise RecursionError where they run: their analysis ends."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = load_registry().rules.values()
USE = """
scaler = torch.amp.GradScaler("cuda")
optimizer = torch.optim.SGD(m.parameters(), 0.1)
scaler.scale(m.a).backward()
torch.nn.utils.clip_grad_norm_(m.b, 1.0)
setattr(m, m.name, m.b.half())
scaler.step(optimizer)
scaler.update()
"""
PROGRAMS = {
    "a property that returns itself": """
class Model:
    @property
    def a(self):
        return self.a

m = Model()
""",
    "properties that return each other": """
class Model:
    @property
    def a(self):
        return self.b

    @property
    def b(self):
        return self.a + 1

m = Model()
""",
    "a property of an object made in it": """
class Model:
    def __init__(self, parent=None):
        self.parent = parent

    @property
    def a(self):
        return Model(self).a

    @property
    def b(self):
        return self.parent.b

m = Model()
m.parent = m
""",
    "a property with a variable": """
class Model:
    @property
    def a(self):
        value = self.a
        return value

    b = property(lambda self: self.b)

m = Model()
""",
    "attributes of a class and of its objects": """
class Model:
    a = Model.b
    b = a

    def __init__(self):
        self.a = self.b
        self.b = self.a

m = Model()
""",
    "methods and bases": """
class Model(Model):
    def a(self):
        return self.a()

    def __getattr__(self, name):
        return getattr(self, name)

class One(Two):
    pass

class Two(One):
    @property
    def a(self):
        return super().a

m = Two(Model().a())
""",
    "functions and annotations": """
def call(function: "call"):
    return call(call)(function)

class Model:
    a: "Model.a" = None
    b: "Model"

forward = lambda: forward()
m = call(Model())
m = forward()
""",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_the_analysis_ends(program: str) -> None:
    found = {
        one.code for one in findings_of(f"import torch\n{program}{USE}", RULES, asked=frozenset(load_registry().rules))
    }
    assert not found & {"AMP001", "AMP003", "AMP005"}
