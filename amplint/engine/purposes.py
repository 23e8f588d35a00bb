"""Recognises files in which findings have few consequences: tests, and scripts that only measure time or memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from amplint.engine.screen import is_test
from amplint.premises import Premise
from amplint.regex import regex

if TYPE_CHECKING:
    from amplint.source.source import Source

_MEASURES = regex(
    r"enable_timing|perf_counter|\btime\.time\(|\btimeit\b|benchmark\.Timer|do_bench|memory_allocated|memory_reserved"
)
_MAKES_UP = regex(
    r"\b(?:randn|rand|randint|randn_like|rand_like)\(|\brandom\.(?:choice|normal|uniform|standard_normal)\("
)
_LEARNS_OR_KEEPS = regex(
    r"(?i)data_?loader|\bloader\b|data_?sets?\b|\bsave|check_?point(?!_sequential|ing)|\bckpt|state_dict|validat|wandb"
    r"|SummaryWriter"
)
"""Data sets, and code that saves or evaluates the result of a training run."""


_READS_CLOCK = regex(r"\btime\w*\(|\.time\(")
_USES_GRADIENTS = regex(r"(?i)\.step\(|\.grad\b|loss|criteri")
"""What a function contains that does more with a backward pass than to wait for its end."""

_CATCHES = regex(r"except\b[^:\n]{0,200}\b(?:RuntimeError|OutOfMemoryError)\b")
"""What ends a search for the largest batch that memory holds."""

_YES, _NO = regex(r"\bTrue\b"), regex(r"\b(?:False|None)\b")
"""What a function answers that says whether memory holds something."""
_RUNS_OUT = regex(r"OutOfMemoryError|out of memory")
_STEPS = regex(r"(?<!prof)(?<!profiler)\.step\(")
"""A step, but that of a profiler."""
_COUNTS = regex(r"\bFlopCounterMode\(|\bwith_flops\s*=|\bprofiler\.profile\(")
"""PyTorch's means to count operations, and to profile them."""

_READS_MEMORY = regex(r"\bmax_memory_(?:allocated|reserved)\(")

_NAMED = regex(r"(?i)^(?:\w*_)?bench(?:mark\w*)?(?:_\w+)?\.py$")
"""File names of benchmarks."""


def purposes_of_function(text: str, caller: str = "") -> tuple[Premise, ...]:
    """The premises of every finding in a function with this text, which may only measure a backward pass.

    It may be a part of a search of its `caller` for the largest batch.
    """
    both = text + caller
    if caller and "backward(" in both and _searches(caller) and not _LEARNS_OR_KEEPS.search(both):
        return (Premise.MEASURED,)
    if "backward(" not in text:
        return ()
    if _only_tries(text) and not _STEPS.search(text):
        return (Premise.MEASURED,)
    if _LEARNS_OR_KEEPS.search(text):
        return ()
    if _searches(text):
        return (Premise.MEASURED,)
    if _USES_GRADIENTS.search(text):
        return ()
    return (Premise.MEASURED,) if _MEASURES.search(text) or _READS_CLOCK.search(text) else ()


def _searches(text: str) -> bool:
    """Whether a function makes up larger and larger batches until memory ends."""
    return "while" in text and bool(_MAKES_UP.search(text) and _CATCHES.search(text))


def _only_tries(text: str) -> bool:
    """Whether a function without a step counts operations, or tries what memory holds."""
    if _COUNTS.search(text):
        return True
    if not _CATCHES.search(text):
        return False
    tries = _READS_MEMORY.search(text) or _MAKES_UP.search(text)
    return bool(tries or (_RUNS_OUT.search(text) and _answers(text)))


def _answers(text: str) -> bool:
    """Whether a function has one answer, and the other one behind an exception."""
    before, _, behind = text.partition("except")
    return any(one.search(before) and other.search(behind) for one, other in ((_YES, _NO), (_NO, _YES)))


def purposes(source: Source) -> tuple[Premise, ...]:
    """The premises of every finding in `source` that concern the whole file."""
    if is_test(source.filename):
        return (Premise.TESTED,)
    if _NAMED.search(os.path.basename(source.filename)):
        return (Premise.MEASURED,)
    text = source.text
    made_up = "rand" in text and _MAKES_UP.search(text)
    measures = made_up and _MEASURES.search(text) and not _LEARNS_OR_KEEPS.search(text)
    return (Premise.MEASURED,) if measures else ()
