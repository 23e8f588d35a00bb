"""What real PyTorch makes of a program: the dtype of every value it shows, and where it raises.

A program shows its values with `see(name, value)`, which it imports from `world`. It runs to its end, or to the first
exception. That exception is of the dtypes' making if the line gets by once every floating dtype is float32 and no
region is on.

Programs for CUDA run on the CPU (see `emulation`): their text is given the CPU's device.
"""

from __future__ import annotations

import re
import sys
import types
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import torch

FILENAME = "<program>"
NO_KERNEL = "not implemented for"
"""What an operator says that the CPU has no kernel of for a dtype."""
OVERLAP = "single memory location"
"""What an operator says that will not write into a tensor whose elements share memory, which depends on the kernel."""
SHAPES = (
    "expects each tensor to be equal size",
    "match the broadcast shape",
    "must match the size of tensor",
    "index k out of range",
    "Dimension out of range",
    "shapes cannot be multiplied",
    "too many indices for tensor of dimension",
)
"""What operators say whose operands do not fit in shape."""
VALUES = "the numbers do not allow it"
"""What stands before the message of an exception that comes of numbers, as a singular matrix does."""
_PLAIN = (
    (re.compile(r"torch\.(?:float16|bfloat16|float64|half|double)\b"), "torch.float32"),
    (re.compile(r"\.(?:half|bfloat16|double)\(\)"), ".float()"),
    (re.compile(r"(?:torch\.|torch\.amp\.|old_)autocast\("), "no_autocast("),
)
_ON_CPU = (
    (re.compile(r"torch\.cuda\.amp\.autocast\("), "old_autocast("),
    (re.compile(r"\.cuda\(\)"), ".cpu()"),
    (re.compile(r"(['\"])cuda(?::0)?\1"), '"cpu"'),
)


@dataclass
class Outcome:
    """What a run showed.

    `shown` tells the dtypes of the values shown in a line, `ranks` how many dimensions they had, and `times` how often
    it showed one. The run ended at line
    `stopped` with an exception that says `message`; `raised` is that line where dtypes are the reason.
    """

    shown: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    ranks: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    times: Counter[int] = field(default_factory=Counter)
    stopped: int | None = None
    message: str = ""
    raised: int | None = None


def old_autocast(
    enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True
) -> torch.autocast:
    """`torch.cuda.amp.autocast`, for the CPU."""
    return torch.autocast("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


def no_autocast(*given: object, **named: object) -> torch.autocast:
    """A region that is not on."""
    return torch.autocast("cpu", enabled=False)


def observe(source: str, device: str) -> Outcome:
    """Run `source`, a program for this device type."""
    text = _replaced(source, _ON_CPU) if device == "cuda" else source
    outcome = Outcome()
    failure = _run(text, outcome)
    if failure is not None:
        line, outcome.message = failure
        outcome.stopped = line
        plain = Outcome()
        _run(_replaced(text, _PLAIN), plain)
        kernel = device == "cuda" and NO_KERNEL in outcome.message
        other = any(words in outcome.message for words in (OVERLAP, *SHAPES)) or outcome.message.startswith(VALUES)
        if not kernel and not other and plain.times[line + 1] > outcome.times[line + 1]:
            outcome.raised = line
    return outcome


def _replaced(text: str, replacements: tuple[tuple[re.Pattern[str], str], ...]) -> str:
    for pattern, replacement in replacements:
        text = pattern.sub(replacement, text)
    return text


def _run(text: str, outcome: Outcome) -> tuple[int, str] | None:
    """The line that raised, and what the exception says."""

    def see(name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            line = sys._getframe(1).f_lineno
            outcome.times[line] += 1
            outcome.ranks[line].add(value.dim())
            outcome.shown[line].add(str(value.dtype).removeprefix("torch."))

    world = types.ModuleType("world")
    vars(world).update(see=see)
    names = {"__name__": "__main__", "old_autocast": old_autocast, "no_autocast": no_autocast}
    code = compile(text, FILENAME, "exec")
    outer = sys.modules.get("world")
    sys.modules["world"] = world
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(code, names)
    except torch.linalg.LinAlgError as failure:
        return _line(failure), f"{VALUES}: {failure}"
    except Exception as failure:
        return _line(failure), str(failure).partition("\n")[0]
    finally:
        if outer is None:
            del sys.modules["world"]
        else:
            sys.modules["world"] = outer
        torch.clear_autocast_cache()
    return None


def _line(failure: Exception) -> int:
    """The innermost line of the program that was running."""
    trace, line = failure.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILENAME:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
