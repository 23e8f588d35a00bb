"""The tracer inside of the process: all hooks and modes, enabled and disabled together."""

from __future__ import annotations

import contextlib
import copy
import os
import time
from collections.abc import Collection, Iterator
from datetime import datetime
from multiprocessing import process
from types import TracebackType
from typing import Any, ClassVar

import torch
from torch.optim import Optimizer

from amplint.trace.curves import Curves
from amplint.trace.frames import following, raising_line
from amplint.trace.gpus import Gpu
from amplint.trace.held import held, parameters
from amplint.trace.modules import Modules
from amplint.trace.numerics import SAMPLE, Numerics
from amplint.trace.operators import Operators
from amplint.trace.ranks import rank_and_ranks
from amplint.trace.record import Record
from amplint.trace.sources import digests
from amplint.trace.steps import Steps
from amplint.trace.window import Window

_DEVICE_ERROR: type[Exception] = getattr(torch, "AcceleratorError", RuntimeError)
"""What a GPU that has failed raises; PyTorch before 2.8 has no name for it."""


class Watch:
    """A context manager that returns a `Record`; with `stop` it ends its block by SystemExit after the window.

    `numerics` is one of `record.NUMERICS`; operations of optimizers are recorded only at `full`. `compare_float32`
    also computes in float32 what is recorded, and needs at least the level `sample`. A run without any step is recorded
    as a whole: whether there are steps to skip is known only after the first one.

    Installed packages in `follow` count as the user's code. Series of tensor magnitudes are kept if `every` is above 1.

    With `gpu` it is a dry run on that GPU; the block ends with CannotFollow if the simulation does not suffice.

    Compiled models run eagerly meanwhile, since their operations are not visible otherwise.
    """

    _running: ClassVar[bool] = False

    def __init__(
        self,
        window: Window,
        *,
        stop: bool = False,
        numerics: str = "sample",
        compare_float32: bool = False,
        gpu: Gpu | None = None,
        follow: Collection[str] = (),
    ) -> None:
        if compare_float32 and numerics == "off":
            numerics = "sample"
        rank, ranks = rank_and_ranks()
        self.record = Record(
            torch=torch.__version__,
            rank=rank,
            ranks=ranks,
            numerics=numerics,
            skip=window.skip,
            every=window.every,
            began=datetime.now().astimezone().isoformat(timespec="seconds"),
        )
        self.gpu = gpu
        self._follow = follow
        self._window = window
        self._stop = stop
        self._modules = Modules()
        self._operators = Operators(self._modules, optimizers=numerics == "full")
        self._numerics = Numerics(numerics, self._modules.parameter, self._trained, compare=compare_float32)
        self._curves = Curves(SAMPLE)
        self._operators.calls.on_backward = self._curves.backward
        if window.every > 1:
            self._numerics.curves = self._curves
        self._steps = Steps(
            self._on_step,
            self._operators.optimize,
            self._operators.paused,
            self._on_stepped,
            self._numerics,
            self._curves,
            window,
        )
        self._known: set[Optimizer] = set()
        self._dtypes: dict[torch.Tensor, torch.dtype] = {}
        self._modes = contextlib.ExitStack()
        self._pretence = contextlib.ExitStack()
        self._step = 0
        self._folder = os.getcwd()
        self._began = time.time()
        self._processes = _processes()

    def __enter__(self) -> Record:
        if Watch._running:
            raise RuntimeError("a run is being watched already")
        if self.gpu is not None:
            from amplint.trace.dry import dry_run

            self.record.gpu = self.gpu.name
            self._pretence.enter_context(dry_run(self.gpu))
        Watch._running = True
        self._modes.enter_context(following(self._follow))
        self._modes.enter_context(torch.compiler.set_stance("force_eager"))
        self._modes.enter_context(self._operators.regions.following())
        self._operators.attach()
        self._modes.callback(self._operators.calls.follow_modules())
        self._modules.attach()
        self._steps.attach()
        if self._numerics.enabled:
            self._operators.numerics = self._numerics
            self._operators.calls.on_gradients = self._numerics.computed
            self._modules.on_return = self._numerics.leave_module
        self._watch_step(0, on=True)
        return self.record

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._operators.on = self._operators.alert = False
        self._steps.detach()
        self._modules.detach()
        self._operators.detach()
        self.record.cut = failure is not None and not isinstance(failure, SystemExit)
        if failure is not None and self.record.cut:
            self._operators.calls.failed(failure, *raising_line(failure))
        self._modes.close()
        Watch._running = False
        try:
            self._write()
        finally:
            self._pretence.__exit__(kind, failure, trace)

    @property
    def step(self) -> int:
        """The number of completed steps."""
        return self._step

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """Do not record in this context."""
        return self._operators.paused()

    def partial_record(self) -> Record:
        """The record of a run that ends here, in the middle of a step."""
        with self._operators.paused():
            self._write()
        self.record.cut = True
        return self.record

    def _on_step(self, number: int) -> None:
        if number == self._step:
            return
        self._end_step()
        if self._window.holds(self._step):
            self.record.steps += 1
        elif self._step == 0:
            self._operators.forget()
            self._numerics.forget()
            self._curves.forget()
        self._watch_step(number, on=self._window.holds(number))
        if self._stop and self._window.is_past(number):
            raise SystemExit  # libraries clean up on it, and threads end silently

    def _on_stepped(self, optimizer: Optimizer) -> None:
        self._operators.calls.stepped(optimizer)
        if optimizer not in self._known:
            self._known.add(optimizer)
            with torch._C.DisableTorchFunction():
                for _, parameter, _ in parameters(optimizer, self._modules.parameter):
                    self._dtypes.setdefault(parameter, parameter.dtype)

    def _watch_step(self, number: int, *, on: bool) -> None:
        self._step = self._numerics.step = number
        alert = self._numerics.enabled and not on and not self._window.is_past(number)
        self._operators.on, self._operators.alert = on, alert
        self._numerics.on, self._numerics.alert = on and self._numerics.enabled, alert

    def _trained(self) -> Iterator[torch.Tensor]:
        """The parameters of modules that ran and of optimizers that stepped."""
        yield from self._modules.parameters()
        for optimizer in self._steps.optimizers:
            for group in optimizer.param_groups:
                yield from group["params"]

    def _end_step(self) -> None:
        self._operators.end_step()
        self._curves.end_step(self._step, on=self._operators.on)
        self._numerics.end_step(self._steps.optimizers, self._steps.skipped(self._step))

    def _write(self) -> None:
        with contextlib.suppress(_DEVICE_ERROR):  # a failed device cannot be read
            if self.record.cut:
                self._numerics.abort_step()
            self._end_step()
            self._numerics.write(self.record)
        self.record.taken = self._step
        self.record.backwards = self._operators.calls.backwards
        self.record.started = _processes() - self._processes
        self.record.operations, self.record.seconds = self._operators.operations()
        if self.record.gpu:
            self.record.seconds.clear()  # CPU times say nothing about a GPU
        self.record.calls, self.record.failures = self._operators.calls.seen(), self._operators.calls.failures()
        self.record.scaler_steps = self._steps.history()
        self.record.series = list(self._curves.series())
        self.record.held = list(held(self._steps.optimizers, self._dtypes, self._modules))
        self.record.sources = digests(self.record, self._folder, self._began)
        devices = [operation.device for operation in self.record.operations]
        self.record.device = max(
            set(devices), key=lambda one: (one not in ("cpu", "meta"), devices.count(one)), default=""
        )
        self.record.memory = _most_allocated(self.record.device)


def _most_allocated(device: str) -> int | None:
    """Peak of allocated bytes on one GPU since the script last reset the statistics; None if none were allocated."""
    module: Any = getattr(torch, device, None)
    if not hasattr(module, "max_memory_allocated"):
        return None
    return max(map(module.max_memory_allocated, range(module.device_count())), default=0) or None


def _processes() -> int:
    """The number of processes that this one has started by `multiprocessing`."""
    return int(next(copy.copy(process._process_counter)))  # type: ignore[attr-defined]
