"""What linting costs: within a small multiple of parsing, and in proportion to the code."""

from __future__ import annotations

import time
from collections.abc import Callable

import libcst
import pytest

from amplint.engine.analyse import Job, analyse
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from benchmarks.chains import chain

RULES = tuple(rule for rule in load_registry().rules.values() if rule.handlers())


def seconds(work: Callable[[], object]) -> float:
    """Processor time of `work`."""
    started = time.process_time()
    work()
    return time.process_time() - started


def lint(text: str) -> list[str]:
    """The codes found in a file with this text."""
    findings = analyse(Job("train.py", "", text.encode(), RULES), Modules()).findings
    return [f"{finding.code}:{finding.span.start.row}" for finding in findings]


@pytest.mark.parametrize("calls", [1, 4])
def test_linting_costs_a_few_times_parsing(calls: int) -> None:
    text = chain(200, calls)
    assert text.count("\n") > 5000
    assert seconds(lambda: lint(text)) < 4 * seconds(lambda: libcst.parse_module(text))


def test_twice_the_code_costs_twice_as_much() -> None:
    assert seconds(lambda: lint(chain(300))) < 2.6 * seconds(lambda: lint(chain(150)))


def test_the_end_of_a_deep_call_chain_is_seen() -> None:
    text = chain(200)
    head, tail = text.rsplit("        scaler.scale(loss).backward()\n", 1)
    clip = "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    broken = f"{head}        scaler.scale(loss).backward()\n{clip}{tail}"
    assert lint(text) == []
    assert lint(broken) == [f"AMP205:{head.count(chr(10)) + 2}"]
