"""Running a script in this process for its memory alone: on a GPU that is pretended, with fake tensors."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils.data import DataLoader

from amplint.trace.dry import CannotFollow, dry_run
from amplint.trace.frames import raising_line
from amplint.trace.gpus import Gpu
from amplint.trace.memory.accumulation import accumulation, arguments_of_loader
from amplint.trace.memory.answers import faked
from amplint.trace.memory.checkpointing import checkpointing
from amplint.trace.memory.estimates import Estimate, Variant
from amplint.trace.memory.fakes import Fakes
from amplint.trace.memory.kernels import cuda_kernels
from amplint.trace.memory.parallel import OneOfSeveral
from amplint.trace.memory.refused import DependsOnValues, Refused
from amplint.trace.memory.regions import regions
from amplint.trace.memory.tracker import Tracker
from amplint.trace.replaced import replaced
from amplint.trace.run import NoScript, begin

_STEPS = 2


class _Enough(BaseException):
    """All that matters has been seen."""


def estimate(script: str, arguments: Sequence[str], variant: Variant, gpu: Gpu, *, module: bool = False) -> Estimate:
    """Run `script` as `variant` until nothing more can come, two steps at most; the peak. Takes over the process."""
    tracker = Tracker(gpu)
    try:
        with tracked(variant, gpu, tracker):
            code, main = begin(script, arguments, module=module)
            exec(code, vars(main))
    except NoScript:
        raise
    except SystemExit as ended:
        if ended.code:
            return Estimate(variant.name, refused=f"the script ended with status {ended.code}")
    except DependsOnValues as failure:
        return Estimate(variant.name, {}, *raising_line(failure), refused=str(failure))
    except (CannotFollow, Refused) as failure:
        return Estimate(variant.name, refused=str(failure).partition("\n")[0])
    except Exception as failure:
        message = f"{type(failure).__name__}: {str(failure).strip().partition(chr(10))[0]}"
        return Estimate(variant.name, {}, *raising_line(failure), refused=message)
    if not sum(tracker.peak.values()):
        return Estimate(variant.name, refused="the script put nothing on a GPU")
    return Estimate(variant.name, tracker.peak, *tracker.line, tracker.phase)


@contextlib.contextmanager
def tracked(variant: Variant, gpu: Gpu, tracker: Tracker) -> Iterator[None]:
    """Let what runs here take no memory on a GPU that is pretended, and `tracker` see what it would. Raises Refused.

    Ends the block when two steps are done, or one and two backward passes.
    """
    fakes = Fakes()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(_Enough))
        for context in (
            torch.compiler.set_stance("force_eager"),
            fakes,
            dry_run(gpu),
            faked(fakes),
            cuda_kernels(gpu),
            replaced(DataLoader, __init__=_without_workers(DataLoader.__init__)),
            replaced(nn.parallel, DistributedDataParallel=OneOfSeveral),
            replaced(nn.parallel.distributed, DistributedDataParallel=OneOfSeveral),
            checkpointing(variant.checkpoint),
            accumulation(variant.accumulate),
            regions(variant.autocast),
            tracker,
            _until_enough(),
        ):
            stack.enter_context(context)
        yield


@contextlib.contextmanager
def _until_enough() -> Iterator[None]:
    """Raise _Enough when a step was taken, and whole forward and backward passes after it."""
    steps: Counter[Optimizer] = Counter()
    passes = 0
    run: Any = torch.autograd.backward

    def stepped(optimizer: Optimizer, *_: object) -> None:
        steps[optimizer] += 1
        if steps[optimizer] == _STEPS:
            raise _Enough

    def backward(*args: Any, **kwargs: Any) -> None:
        nonlocal passes
        run(*args, **kwargs)
        passes += bool(steps)
        if passes > _STEPS * len(steps):
            raise _Enough

    hook = register_optimizer_step_post_hook(stepped)
    try:
        with replaced(torch.autograd, backward=backward):
            yield
    finally:
        hook.remove()


def _without_workers(init: Any) -> Any:
    """Workers are processes, where nothing is fake."""

    def made(loader: Any, *args: Any, **kwargs: Any) -> None:
        given = arguments_of_loader(loader, *args, **kwargs)
        none = {"num_workers": 0, "persistent_workers": False, "prefetch_factor": None, "timeout": 0}
        init(loader, **{**given, **none, "multiprocessing_context": None})

    return made
