"""What linting costs: within a small multiple of parsing, and in proportion to the code."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path

import libcst
import pytest

from amplint.engine.modules import Lookups, Modules
from amplint.engine.registry import load_registry
from amplint.semantics import interpret
from amplint.semantics.events import Event
from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import relevant
from amplint.semantics.values.symbols import Symbols
from amplint.source.source import Source
from benchmarks.chains import chain
from tests.linting import findings_of

RULES = tuple(rule for rule in load_registry().rules.values() if rule.handlers())
PAIRS = 4


def assert_ratio_below(bound: float, work: Callable[[], object], other: Callable[[], object]) -> None:
    """`work` takes less than `bound` times the processor time of `other`, in one of a few pairs of runs.

    The two runs of a pair follow each other, since the speed of a shared machine changes within seconds.
    """
    ratios = (processor_time(work) / processor_time(other) for _ in range(PAIRS))
    assert any(ratio < bound for ratio in ratios)


def processor_time(run: Callable[[], object]) -> float:
    """What `run` takes; the garbage collector stands still, since it would walk all that earlier tests have left."""
    gc.collect()
    gc.disable()
    try:
        started = time.process_time()
        run()
        return time.process_time() - started
    finally:
        gc.enable()


def lint(text: str) -> list[str]:
    """The codes found in a file with this text."""
    findings = findings_of(text, RULES)
    return [f"{finding.code}:{finding.span.start.row}" for finding in findings]


@pytest.mark.parametrize("calls", [1, 4])
def test_linting_costs_a_few_times_parsing(calls: int) -> None:
    text = chain(200, calls)
    assert text.count("\n") > 5000
    assert_ratio_below(4, lambda: lint(text), lambda: libcst.parse_module(text))


def test_twice_the_code_costs_about_twice_as_much() -> None:
    in_proportion, squared = 2, 4
    assert_ratio_below((in_proportion + squared) / 2, lambda: lint(chain(300)), lambda: lint(chain(150)))


def test_the_end_of_a_deep_call_chain_is_seen() -> None:
    text = chain(200)
    head, tail = text.rsplit("        scaler.scale(loss).backward()\n", 1)
    clip = "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    broken = f"{head}        scaler.scale(loss).backward()\n{clip}{tail}"
    assert lint(text) == []
    assert lint(broken) == [f"AMP205:{head.count(chr(10)) + 2}"]


TRAINING = """
import torch
from work import Environment, Trainer

def train(model, optimizer, loader):
    environment, trainer = Environment(), Trainer(optimizer)
    for batch in loader:
        batch = batch + environment.step(batch)
        trainer.run(model(batch).sum())

train(torch.nn.Linear(2, 2), None, [])
"""
WORK = '''
class Environment:
    """Steps; a trainer calls `loss.backward()` and `optimizer.step()` with what it returns."""

    def step(self, action):
        return self.inner.step(action)

class Trainer:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def run(self, loss):
        loss.backward()
        self.optimizer.step()
'''


def test_of_other_files_only_what_trains_is_looked_into(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "train.py").write_text(TRAINING)
    path = str(tmp_path / "train.py")
    source = Source(path, TRAINING, path)
    program = Program(source, Lookups(Modules(), source))
    found = relevant(program, {"step"}, frozenset(), frozenset(), {"optimizer_step"})
    assert {chunk.name for chunk in program.chunks} >= {"Environment", "Trainer"}
    assert {chunk.name for chunk in found if chunk.source is not source} == {"Trainer"}


def test_the_same_use_of_a_library_is_told_once() -> None:
    text = "import torch\nfor i in range(9):\n    for j in range(9):\n        torch.cuda.amp.autocast(i == j)\n"
    told: list[Event] = []
    interpret(Program(Source("train.py", text)), told.append, {"api_use"})
    names = [getattr(event, "name", "") for event in told]
    assert names.count("torch.cuda.amp.autocast") == 1


def test_small_functions_are_followed_however_often_they_are_called() -> None:
    head = "import torch\nscaler = torch.amp.GradScaler()\ndef helper(loss):\n    scaler.scale(loss).backward()\n"
    calls = [f"helper(losses[{i}].sum() / {i + 2})\n" for i in range(200)]
    told: list[Event] = []
    interpret(Program(Source("train.py", head + "".join(calls))), told.append, {"script_end"})
    assert [getattr(event, "complete", None) for event in told] == [True]


def test_values_joined_many_times_are_walked_once() -> None:
    """Each join doubles the paths to the first value; a walk along paths would not end."""
    symbols = Symbols()
    joined = first = symbols.fresh()
    for _ in range(1000):
        joined = symbols.intern("either", parts=(joined, symbols.intern("attribute", "module", parts=(joined,))))
    assert sum(1 for _ in symbols.derivation(joined)) == 2001
    assert first in symbols.alternatives(joined)
    assert sum(1 for _ in symbols.alternatives(joined)) == 1001
