"""Runs of a script in this process for its memory alone: on an emulated GPU, with fake tensors."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils.data import DataLoader

from amplint.trace.dry import CannotFollow, dry_run
from amplint.trace.frames import raising_line
from amplint.trace.gpus import Gpu
from amplint.trace.memory.accumulation import accumulation, arguments_of_loader
from amplint.trace.memory.answers import faked
from amplint.trace.memory.checkpointing import checkpointing
from amplint.trace.memory.estimates import Estimate, Holder, Variant
from amplint.trace.memory.fakes import Fakes
from amplint.trace.memory.kernels import cuda_kernels
from amplint.trace.memory.parallel import one_process
from amplint.trace.memory.refused import DependsOnValues, Refused
from amplint.trace.memory.regions import Seen, regions, seeing
from amplint.trace.memory.tracker import Tracker
from amplint.trace.replaced import replaced
from amplint.trace.run import NoScript, begin

_STEPS, _MANY = 2, 12
_HOLDERS = 8
_NUMBER = re.compile(r"\.\d+")


class _AllStepsRun(BaseException):
    """All relevant steps have run."""


def estimate(script: str, arguments: Sequence[str], variant: Variant, gpu: Gpu, *, module: bool = False) -> Estimate:
    """Run `script` as `variant` for about two steps; return the peak. Takes over the process. Raises NoScript."""
    tracker, seen = Tracker(gpu), Seen()
    try:
        with seeing(seen) if not variant.autocast else contextlib.nullcontext(), tracked(variant, gpu, tracker):
            code, main = begin(script, arguments, module=module)
            exec(code, vars(main))
    except SystemExit as ended:
        if ended.code:
            how = f"with status {ended.code}" if isinstance(ended.code, int) else f"by saying: {ended.code}"
            return Estimate(variant.name, refused=f"the script ended {how}")
    except DependsOnValues as failure:
        return Estimate(variant.name, {}, *raising_line(failure), refused=str(failure))
    except (CannotFollow, Refused) as failure:
        return Estimate(variant.name, refused=str(failure).partition("\n")[0])
    except NoScript:
        raise
    except Exception as failure:
        message = f"{type(failure).__name__}: {str(failure).strip().partition(chr(10))[0]}"
        return Estimate(variant.name, {}, *raising_line(failure), refused=message)
    if not sum(tracker.peak.values()):
        return Estimate(variant.name, refused="the script put nothing on a GPU")
    return Estimate(
        variant.name,
        tracker.peak,
        *tracker.line,
        tracker.phase,
        peaks={phase: peak.sizes for phase, peak in tracker.peaks.items()},
        holders=tuple(_largest(tracker)),
        batch=tracker.batch,
        unit=tracker.unit,
        wide=tracker.trained == {torch.float32},
        autocast=variant.autocast or seen.autocast,
    )


def _largest(tracker: Tracker) -> list[Holder]:
    """The largest allocations at the peak; layers repeated in a list are one, with `*` for their indices."""
    sizes: Counter[tuple[str, str, int, str]] = Counter()
    for (kind, ((filename, row), module)), size in tracker.holders().items():
        sizes[kind, filename, row, _NUMBER.sub(".*", module)] += size
    return [Holder(*place, size) for place, size in sizes.most_common(_HOLDERS)]


@contextlib.contextmanager
def tracked(variant: Variant, gpu: Gpu, tracker: Tracker) -> Iterator[None]:
    """Run with fake tensors on an emulated GPU, and let `tracker` count the memory. Raises Refused.

    Ends the block as soon as further steps would be equal.
    """
    fakes = Fakes()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(_AllStepsRun))
        for context in (
            torch.compiler.set_stance("force_eager"),
            fakes,
            dry_run(gpu),
            faked(fakes),
            cuda_kernels(gpu),
            replaced(DataLoader, __init__=_without_workers(DataLoader.__init__)),
            one_process(),
            checkpointing(variant.checkpoint),
            accumulation(variant.accumulate),
            regions(variant.autocast),
            tracker,
            _Progress().followed(),
        ):
            stack.enter_context(context)
        yield


class _Progress:
    """Raises _Enough when further steps would be equal: each optimizer took two steps, or one and complete passes after
    it.

    Optimizers that rarely or never step are awaited until another took many.
    """

    def __init__(self) -> None:
        self._optimizers = self._passes = 0
        self._steps: Counter[Optimizer] = Counter()

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Count optimizers, their steps, and backward passes."""
        init: Any = Optimizer.__init__
        run: Any = torch.autograd.backward

        def made(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            init(optimizer, *args, **kwargs)
            self._optimizers += 1

        def backward(*args: Any, **kwargs: Any) -> None:
            run(*args, **kwargs)
            self._passed()

        hook = register_optimizer_step_post_hook(self._stepped)
        try:
            with replaced(Optimizer, __init__=made), replaced(torch.autograd, backward=backward):
                yield
        finally:
            hook.remove()

    def _stepped(self, optimizer: Optimizer, *_: object) -> None:
        self._steps[optimizer] += 1
        done = [steps for steps in self._steps.values() if steps >= _STEPS]
        if len(done) >= self._optimizers or self._steps[optimizer] >= _MANY:
            raise _AllStepsRun

    def _passed(self) -> None:
        self._passes += len(self._steps) >= max(1, self._optimizers)
        if self._passes > _STEPS * self._optimizers:
            raise _AllStepsRun


def _without_workers(init: Any) -> Any:
    """Load data in this process: workers are processes without fake tensors."""

    def made(loader: Any, *args: Any, **kwargs: Any) -> None:
        given = arguments_of_loader(loader, *args, **kwargs)
        none = {"num_workers": 0, "persistent_workers": False, "prefetch_factor": None, "timeout": 0}
        init(loader, **{**given, **none, "multiprocessing_context": None})

    return made
