"""Tensors that lists gather: what their elements have in common."""

from __future__ import annotations

import textwrap

import pytest
import torch

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Severity

RULES = tuple(load_registry().rules[code] for code in ("AMP501", "AMP502"))
HEADER = """\
import torch
from torch import nn

model, head = nn.Linear(4, 4).cuda(), nn.Linear(4, 4).cuda()


def predict(x):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return model(x.cuda())


"""
PROGRAMS = {
    "joined": """
        def run(loader):
            found = []
            for x in loader:
                found.append(predict(x))
            joined = torch.cat(found)
            head(joined)  # AMP502
            return joined.numpy()  # AMP501
    """,
    "one by one": """
        def run(loader):
            found = list()
            for x in loader:
                found.append(predict(x).cpu())
            for one in found:
                print(one.numpy())  # AMP501
            return [one.numpy() for one in found], found[0].numpy()  # AMP501 AMP501
    """,
    "a comprehension": """
        def run(loader):
            return torch.cat([predict(x) for x in loader]).numpy()  # AMP501
    """,
    "converted": """
        def run(loader):
            found, whole = [], []
            for x in loader:
                found.append(predict(x))
                whole.append(predict(x).float())
            found = [one.float() for one in found]
            return torch.cat(found).numpy(), torch.cat(whole).numpy()
    """,
    "replaced": """
        def run(loader):
            found = []
            for x in loader:
                found.append(predict(x))
            for place, one in enumerate(found):
                found[place] = one.float()
            return torch.cat(found).numpy()
    """,
    "changed elsewhere": """
        def run(loader, convert):
            found = []
            for x in loader:
                found.append(predict(x))
            convert(found)
            return torch.cat(found).numpy()
    """,
    "emptied": """
        def run(loader):
            found = []
            for x in loader:
                found.append(predict(x))
            found.clear()
            found.append(torch.zeros(4))
            return torch.cat(found).numpy()
    """,
    "beside others": """
        def run(loader, more):
            found = []
            for x in loader:
                found.append(predict(x))
                found.append(torch.zeros(4, 4, device="cuda"))
            rest = []
            for x in loader:
                rest.append(predict(x))
            rest.extend(more)
            return torch.cat(found).numpy(), torch.cat(rest).numpy()
    """,
    "of a list that was not empty": """
        def run(loader):
            found = list(loader)
            found.append(predict(found[0]))
            return torch.cat(found).numpy()
    """,
    "behind a comprehension": """
        def run(loader):
            found = [predict(x) for x in loader]
            found.append(torch.zeros(4, 4, device="cuda"))
            more = [predict(x) for x in loader]
            more[0] = torch.zeros(4, 4, device="cuda")
            return torch.cat(found).numpy(), torch.cat(more).numpy()
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_certain_findings_are_those_of_lists_with_one_dtype(name: str) -> None:
    program = textwrap.dedent(PROGRAMS[name]).lstrip("\n")
    lines = (HEADER + program).splitlines()
    expected = [(row, code) for row, line in enumerate(lines, 1) for code in line.partition("# ")[2].split()]
    job = Job("program.py", "", (HEADER + program).encode(), RULES)
    found = [one for one in analyse(job, Modules()).findings if one.severity is not Severity.INFO]
    assert [(one.span.start.row, one.code) for one in found] == expected


def test_a_join_has_the_dtype_of_its_tensors() -> None:
    one = torch.zeros(2, dtype=torch.bfloat16)
    assert torch.cat([one, one]).dtype == torch.bfloat16
    assert torch.cat([one, torch.zeros(2)]).dtype == torch.float32
