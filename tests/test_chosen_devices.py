"""Devices that helpers, properties and classes choose, where autocast takes their type."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from amplint.engine.screen import screen
from tests.linting import findings_of

RULES = load_registry().rules
HEAD = "import torch\nfrom torch import nn\n"
STEP = """
    def step(self, x):
        with torch.autocast({device}, dtype=torch.bfloat16):
            return self.model(x.to(self.device))
"""
PICK = """
def pick():
    if torch.cuda.is_available():
        device = torch.device("cuda:0")
    elif torch.backends.mps.is_available():
        device = torch.device("mps")
    else:
        device = torch.device("cpu")
    return device
"""
CLASSES = {
    "chosen by a helper": PICK
    + """
class Trainer:
    def __init__(self, model):
        self.model = model
        self.device = pick()
""",
    "chosen by a helper with two returns": """
def pick():
    if torch.cuda.is_available():
        return torch.device("cuda", 0)
    return torch.device("cpu")

class Trainer:
    def __init__(self, model):
        self.model = model
        self.device = pick()
""",
    "chosen by a helper out of its annotation": """
def pick(name) -> torch.device:
    return DEVICES[name]

class Trainer:
    def __init__(self, model):
        self.model = model
        self.device = pick("first")
""",
    "chosen in two branches": """
class Trainer:
    def __init__(self, model):
        self.model = model
        if torch.cuda.is_available():
            self.device = torch.device("cuda")
        else:
            self.device = torch.device("cpu")
""",
    "converted by the setter of a property": """
class Trainer:
    def __init__(self, model, device="cuda:0"):
        self.model = model
        self.device = device

    @property
    def device(self):
        return self._device

    @device.setter
    def device(self, device):
        self._device = torch.device(device)
""",
    "compared with a device elsewhere": """
class Trainer:
    def __init__(self, model, device):
        self.model, self.device = model, device

    def pinned(self):
        return self.device != torch.device("cpu")
""",
    "asked for its type where it comes from": """
class Trainer:
    def __init__(self, model, device):
        self.model = model
        self.device = device
        self.pinned = device.type == "cuda"
""",
}
BELOW = """
class Base:
{step}

class Trainer(Base):
    def __init__(self, model):
        self.model = model
        self.device = torch.device("cuda")
"""
SILENT = {
    "a string of a setter": """
class Trainer:
    def __init__(self, model, device):
        self.model = model
        self.device = device

    @property
    def device(self):
        return self._device

    @device.setter
    def device(self, device):
        self._device = str(device)
""",
    "a string in one branch": """
class Trainer:
    def __init__(self, model):
        self.model = model
        if torch.cuda.is_available():
            self.device = torch.device("cuda")
        else:
            self.device = "cpu"
""",
    "a helper that returns strings": """
def pick():
    if torch.cuda.is_available():
        return "cuda"
    return "cpu"

class Trainer:
    def __init__(self, model):
        self.model = model
        self.device = pick()
""",
    "a type that is kept": """
class Trainer:
    def __init__(self, model, device):
        self.model = model
        self.device = device.type
        self.pinned = device.type == "cuda"
""",
    "subclasses that disagree": """
class Trainer:
    pass

class One(Trainer):
    def __init__(self):
        self.device = torch.device("cuda")

class Other(Trainer):
    def __init__(self):
        self.device = "cuda"
""",
}


def told(code: str, asked: frozenset[str] = frozenset()) -> list[str]:
    raw = (HEAD + code).encode()
    rules = screen([rule for rule in RULES.values() if rule.default], raw, asked)
    found = findings_of(raw, rules, path="/nowhere/script.py", asked=asked)
    return [one.code for one in found if one.code == "AMP107"]


@pytest.mark.parametrize("shape", CLASSES)
def test_device_is_no_type(shape: str) -> None:
    assert told(CLASSES[shape] + STEP.format(device="self.device")) == ["AMP107"]
    assert told(CLASSES[shape] + STEP.format(device="device_type=self.device.type")) == []


def test_device_of_a_subclass() -> None:
    assert told(BELOW.format(step=STEP.format(device="device_type=self.device"))) == ["AMP107"]
    assert told(BELOW.format(step=STEP.format(device="self.device.type"))) == []


@pytest.mark.parametrize("shape", SILENT)
def test_text_is_a_type(shape: str) -> None:
    before, marker, after = SILENT[shape].partition("class Trainer:\n    pass\n")
    code = before + "class Trainer:" + STEP.format(device="self.device") + after if marker else SILENT[shape]
    assert told(code if marker else code + STEP.format(device="self.device")) == []


def test_text_of_a_device() -> None:
    code = """
def infer(model, x, device):
    device = torch.device(device)
    with torch.autocast(device_type={given}, dtype=torch.bfloat16):
        return model(x.to(device))
"""
    asked = frozenset({"AMP107"})
    assert told(code.format(given="str(device)"), asked) == ["AMP107"]
    assert told(code.format(given="device.type"), asked) == []


AVAILABLE = """
import torch

def get_device():
    return "cuda" if torch.cuda.is_available() else "cpu"

def other_device():
    return "xpu" if torch.xpu.is_available() else get_device()

def score(model, batch{parameters}):
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    device = {device}
    with torch.no_grad():
        with torch.autocast(device_type=kind):
            return model(batch.to(device))
"""


@pytest.mark.parametrize(
    ("device", "parameters", "count"),
    [
        ("torch.device(kind)", "", 0),
        ("torch.device(name)", ", name", 1),
        ("get_device()", "", 0),
        ("other_device()", "", 1),
    ],
)
def test_a_region_and_work_on_one_device_by_availability(device: str, parameters: str, count: int) -> None:
    raw = AVAILABLE.format(device=device, parameters=parameters).encode()
    found = findings_of(raw, (RULES["AMP106"],))
    assert len([one for one in found if one.code == "AMP106"]) == count


PASSED = """
import torch

def main(model, optimizer, loader, wanted):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    use_amp = {flag}

    def run(x, use_autocast=False):
        if use_autocast:
            with torch.cuda.amp.autocast():
                return model(x.to(device))
        return model(x.to(device))

    for x in loader:
        optimizer.zero_grad()
        run(x, use_autocast=use_amp).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("flag", "count"), [("wanted and device == 'cuda'", 0), ("wanted", 1)])
def test_a_flag_that_callers_pass_for_one_device_alone(flag: str, count: int) -> None:
    raw = PASSED.format(flag=flag).encode()
    found = findings_of(raw, (RULES["AMP106"],))
    assert len([one for one in found if one.code == "AMP106"]) == count
