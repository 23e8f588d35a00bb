"""Findings that hold only for one of the dtypes that a script chooses among, and their absence."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Finding, Severity

RULES = tuple(load_registry().rules.values())
SCRIPT = """
import torch
from torch import nn

{before}

def main(args):
    {choice}
    net = nn.Linear(4, 4).to("cuda", {dtype})
    x = torch.zeros(2, 4, device="cuda"{after})
    return net(x)
"""
CHAIN = """
    dtype = torch.float32
    if args.precision == "fp16":
        dtype = torch.float16
    elif args.precision == "bf16":
        dtype = torch.bfloat16
"""
CASES = """
    match args.precision:
        case "fp16":
            dtype = torch.float16
        case _:
            dtype = torch.float32
"""
TABLE = '{"fp16": torch.float16, "bf16": torch.bfloat16, "no": torch.float32}'
FUNCTION = """
def precision(name):
    if name == "fp16":
        return torch.float16
    return torch.bfloat16 if name == "bf16" else torch.float32
"""
PAIR = """
def precisions(args):
    weights = saved = torch.float32
    if args.mixed == "fp16":
        weights = torch.float16
    if args.saved == "fp16":
        saved = torch.float16
    return weights, saved
"""
OBJECT = """
class Settings:
    def __init__(self, args):
        self.dtype = torch.float16 if args.fp16 else torch.float32
"""
CHOICES = {
    "conditional": ("", "dtype = torch.float16 if args.fp16 else torch.float32"),
    "conditional of three": (
        "",
        "dtype = torch.float16 if args.fp16 else torch.bfloat16 if args.bf16 else torch.float32",
    ),
    "chain": ("", CHAIN.strip()),
    "cases": ("", CASES.strip()),
    "table": (f"DTYPES = {TABLE}", "dtype = DTYPES[args.precision]"),
    "table with a default": (f"DTYPES = {TABLE}", "dtype = DTYPES.get(args.precision, torch.float32)"),
    "attribute of torch": ("", "dtype = getattr(torch, args.dtype)"),
    "function": (FUNCTION, "dtype = precision(args.precision)"),
    "part of a tuple": (PAIR, "dtype, saved = precisions(args)"),
    "attribute": (OBJECT, "dtype = Settings(args).dtype"),
}


def findings(text: str, *codes: str) -> list[Finding]:
    """The findings of the rules with these codes, including those under assumptions."""
    job = Job("script.py", "/nowhere/script.py", text.encode(), RULES, asked=frozenset(codes))
    return [finding for finding in analyse(job, Modules()).findings if finding.code in codes]


@pytest.mark.parametrize(("before", "choice"), CHOICES.values(), ids=list(CHOICES))
def test_what_holds_for_a_half_dtype_is_told_with_that_condition(before: str, choice: str) -> None:
    text = SCRIPT.format(before=before, choice=choice, dtype="dtype", after="")
    (found,) = findings(text, "AMP502")
    assert found.severity is Severity.INFO
    assert "where float16 is what is chosen" in found.reason


@pytest.mark.parametrize(("before", "choice"), CHOICES.values(), ids=list(CHOICES))
def test_what_has_the_same_dtype_in_any_case_is_right(before: str, choice: str) -> None:
    assert not findings(SCRIPT.format(before=before, choice=choice, dtype="dtype", after=", dtype=dtype"), "AMP502")
    assert not findings(SCRIPT.format(before=before, choice=choice, dtype="dtype", after=").to(dtype"), "AMP502")


def test_flags_agree_with_the_dtype_that_they_choose() -> None:
    script = """
import torch
from torch import nn

def main(args):
    dtype = torch.float16 if args.fp16 else torch.float32
    net = nn.Linear(4, 4).to("cuda", dtype)
    x = torch.zeros(2, 4, device="cuda")
    if {condition}:
        return net(x)
    return x
"""
    assert not findings(script.format(condition="not args.fp16"), "AMP502")
    assert findings(script.format(condition="args.fp16"), "AMP502")


def test_a_finding_of_any_choice_is_told_once_and_without_condition() -> None:
    script = """
import torch
from torch import nn

def main(args):
    dtype = torch.float16 if args.fp16 else torch.bfloat16
    net = nn.Linear(4, 4).cuda().half()
    torch.zeros(2, 4, dtype=dtype)
    return net(torch.zeros(2, 4, device="cuda"))
"""
    (found,) = findings(script, "AMP502")
    assert found.severity is Severity.ERROR
    assert "chosen" not in found.reason


def test_bfloat16_alone_has_findings_beside_float16() -> None:
    script = """
import torch
from torch import nn

def main(args):
    dtype = {choice}
    net = nn.Linear(4, 4).to("cuda", dtype)
    return net(torch.zeros(2, 4, device="cuda", dtype=dtype)).detach().cpu().numpy()
"""
    (found,) = findings(script.format(choice=f"{TABLE}[args.dtype]"), "AMP501")
    assert "bfloat16" in found.reason
    assert not findings(script.format(choice="torch.float16 if args.fp16 else torch.float32"), "AMP501")


def test_the_choice_of_another_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "precisions.py").write_text(f"import torch\n{FUNCTION}", encoding="utf-8")
    path = tmp_path / "script.py"
    before = "from precisions import precision"
    text = SCRIPT.format(before=before, choice="dtype = precision(args.precision)", after="", dtype="dtype")
    path.write_text(text, encoding="utf-8")
    job = Job("script.py", str(path), text.encode(), RULES, asked=frozenset({"AMP502"}))
    assert [finding.code for finding in analyse(job, Modules()).findings if finding.code == "AMP502"] == ["AMP502"]
