"""Run programs, each in a forked child of one process that has PyTorch loaded: `python -m proof.server`.

Reads one JSON request per line on standard input (`text`, `filename`, `cuda`, `framework`, `float32`, `trace`,
`timeout` in seconds) and answers each with one JSON line on standard output: `exception`, `warnings`, `printed`,
`result`, `expected` and, with `trace`, `record`, what `amplint trace` sees.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import json
import os
import select
import signal
import sys
import time
import types
import warnings
from typing import Any

import numpy as np
import torch

from amplint.trace.dry import dry_run
from amplint.trace.gpus import GPUS

Reply = dict[str, Any]
FIXTURES = os.path.join(os.path.dirname(__file__), "..", "..", "fixtures")
FRAMEWORKS = os.path.join(os.path.dirname(__file__), "frameworks")


def serve() -> None:
    """Answer requests until standard input ends."""
    _preload()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # gloo of PyTorch 2.9 writes to standard output
    for line in sys.stdin:
        print(json.dumps(_run_in_child(json.loads(line))), file=answers, flush=True)


def _preload() -> None:
    """Load what programs make PyTorch import lazily; start no thread and touch no GPU, which a fork would lose."""
    torch.set_num_threads(1)
    torch.optim.SGD([torch.nn.Parameter(torch.ones(1))]).zero_grad()
    gc.collect()
    gc.freeze()


def _run_in_child(request: dict[str, Any]) -> Reply:
    if request["trace"]:
        _load_tracer()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w", encoding="utf-8") as pipe:
            json.dump(_run(request), pipe)
        os._exit(0)
    os.close(writing)
    answer = _read(reading, time.monotonic() + request["timeout"])
    if answer is None:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if answer is None:
        return {"exception": {"type": "Timeout", "message": f"ran longer than {request['timeout']} s"}}
    if status != 0 or not answer:
        return {"exception": {"type": "Crash", "message": f"wait status {status}"}}
    reply: Reply = json.loads(answer)
    return reply


def _read(descriptor: int, deadline: float) -> bytes | None:
    """Everything up to the end of the pipe, None when the deadline passes first."""
    parts: list[bytes] = []
    with os.fdopen(descriptor, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            part = pipe.read(65536)
            if not part:
                return b"".join(parts)
            parts.append(part)
    return None


def _run(request: dict[str, Any]) -> Reply:
    torch.manual_seed(0)
    reply: Reply = {"exception": None}
    record: Any = None
    printed = io.StringIO()
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.argv = [request["filename"]]
    folder = os.path.join(FIXTURES, os.path.dirname(request["filename"]))
    if os.path.isdir(folder):
        os.chdir(folder)  # where a program finds the files of settings that it names
    if request["framework"]:
        sys.path.insert(0, FRAMEWORKS)
    with (
        _environment(request["cuda"], request["float32"]),
        contextlib.redirect_stdout(printed),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        try:
            with _watch(request["trace"]) as record:
                exec(compile(request["text"], request["filename"], "exec"), module.__dict__)
        except BaseException as failure:
            reply["exception"] = {"type": type(failure).__name__, "message": str(failure)}
    reply["record"] = record.to_json() if record is not None else None
    reply["warnings"] = [{"type": warning.category.__name__, "message": str(warning.message)} for warning in caught]
    reply["printed"] = printed.getvalue()
    reply["result"] = _summary(getattr(module, "result", None))
    reply["expected"] = _summary(getattr(module, "expected", None))
    return reply


@functools.cache
def _load_tracer() -> None:
    """Load what watching needs; the stand-ins are libraries to it, as what they stand for would be."""
    from amplint.trace import frames, watching

    assert watching
    frames._HIDDEN = (*frames._HIDDEN, f"{os.path.dirname(__file__)}/")


def _watch(trace: bool) -> contextlib.AbstractContextManager[Any]:
    if not trace:
        return contextlib.nullcontext()
    import amplint.trace

    return amplint.trace.watch(numerics="off")


def _environment(cuda: bool, float32: bool) -> contextlib.AbstractContextManager[object]:
    if float32:
        _switch_amp_off()
    if cuda and not torch.cuda.is_available():
        return dry_run(GPUS["a100"])
    return contextlib.nullcontext()


def _switch_amp_off() -> None:
    """Make every autocast region and every gradient scaler of this process behave as if built with `enabled=False`."""
    for kind in (torch.amp.autocast_mode.autocast, torch.amp.grad_scaler.GradScaler):
        original = kind.__init__

        def disabled(self: Any, *args: Any, original: Any = original, **options: Any) -> None:
            original(self, *args, **options)
            self._enabled = False

        kind.__init__ = disabled


def _summary(value: Any) -> Any:
    """`value` as JSON: tensors and arrays as nested lists of float, whatever has no JSON form as its text."""
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    if isinstance(value, torch.Tensor):
        return value.detach().double().tolist()
    if isinstance(value, (list, tuple)):
        return [_summary(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _summary(item) for key, item in value.items()}
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


if __name__ == "__main__":
    serve()
