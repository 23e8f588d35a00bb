"""Regions that a table, a helper or a conditional expression chooses, as contexts or as what makes them."""

from __future__ import annotations

import textwrap

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

RULES = (load_registry().rules["AMP101"],)
PROGRAM = """
import contextlib
from contextlib import nullcontext, suppress
from functools import partial

import torch

def helper(name):
{helper}

def step(net, x, args):
    region = {region}
    with {entered}:
        net(x).mean().backward()
"""
HALF = 'partial(torch.autocast, "cuda", dtype=torch.float16)'


def told(helper: str = "pass", region: str = "helper(args.name)", entered: str = "region()") -> int:
    """The number of findings in the program with these parts."""
    program = PROGRAM.format(helper=textwrap.indent(helper, "    "), region=region, entered=entered)
    job = Job("program.py", "", program.encode(), RULES, asked=frozenset())
    return len(analyse(job, Modules()).findings)


HELPERS = [
    'if name == "half":\n    return torch.cuda.amp.autocast\nreturn suppress',
    'if name == "half":\n    return torch.cuda.amp.autocast\nreturn nullcontext',
    f'if name == "half":\n    return {HALF}\nreturn nullcontext',
    'return torch.cuda.amp.autocast if name == "half" else suppress',
    f'return {{"half": {HALF}, "full": nullcontext}}[name]',
    'table = {"half": torch.cuda.amp.autocast, "full": nullcontext}\nreturn table[name]',
]


@pytest.mark.parametrize("helper", HELPERS)
def test_what_makes_a_region_comes_from_a_helper(helper: str) -> None:
    assert told(helper) == 1


@pytest.mark.parametrize("helper", HELPERS)
def test_it_is_called_where_it_is_chosen(helper: str) -> None:
    assert told(helper, entered="helper(args.name)()") == 1


@pytest.mark.parametrize(
    "region",
    ["torch.cuda.amp.autocast if args.half else nullcontext", f"{HALF} if args.half else contextlib.suppress"],
)
def test_a_conditional_expression_chooses(region: str) -> None:
    assert told(region=region) == 1


@pytest.mark.parametrize("helper", ["return {'a': nullcontext, 'b': suppress}[name]", "return unseen(name)"])
def test_no_region_is_among_them(helper: str) -> None:
    assert told(helper) == 0
