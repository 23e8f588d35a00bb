"""What the interpreter follows: each case is a small script and the findings it must, or must not, lead to."""

from __future__ import annotations

import textwrap

import pytest

from amplint.engine.dispatch import Dispatcher
from amplint.rule import Registry
from amplint.semantics import interpret
from amplint.semantics.reading.program import Program
from amplint.source.source import Source

RULES = [
    rule
    for rule in Registry().load().rules.values()
    if rule.code.startswith(("AMP1", "AMP2", "AMP3")) and rule.code != "AMP108"  # most scripts here leave out regions
]
HEADER = """import contextlib, functools, torch
from torch.amp import GradScaler, autocast
clip = torch.nn.utils.clip_grad_norm_
"""


def lint(body: str) -> list[str]:
    """The codes found in `body` by selected rules, each with the text of its line up to the first parenthesis."""
    source = Source("script.py", HEADER + textwrap.dedent(body))
    program = Program(source)
    dispatcher = Dispatcher(program, RULES, {rule.code for rule in RULES})
    interpret(program, dispatcher.emit, dispatcher.kinds)
    found = dispatcher.findings()
    return [f"{f.code} {source.lines[f.span.start.row - 1].strip().partition('(')[0]}" for f in found]


CLIPPED = "AMP205 clip"

FOUND = {
    "a round that begins as an earlier one did, but for a flag": (
        """
        def main(loader):
            model = torch.nn.Linear(96, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = GradScaler("cuda")
            begun = False
            for parts, last in loader:
                for part in parts:
                    scaler.update()
                    if last:
                        begun = True
                    else:
                        scaler.unscale_(optimizer)
                        scaler.update()
                    if not begun:
                        optimizer.zero_grad()
                    else:
                        optimizer.step()
                        model(part).sum().backward()
                optimizer.zero_grad()
                scaler.scale(model(parts).sum()).backward()
                scaler.step(optimizer)
                scaler.update()
        """,
        ["AMP221 scaler.update", "AMP215 scaler.update", "AMP206 optimizer.step", "AMP207 model"],
    ),
    "what runs where a tensor is not on a GPU": (
        """
        def train(model, optimizer, batch):
            scaler = GradScaler("cuda")
            places = torch.zeros(4)
            scaler.scale(model(batch).sum()).backward()
            if places.is_cuda:
                scaler.unscale_(optimizer)
            else:
                scaler.unscale_(optimizer)
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        """,
        ["AMP210 scaler = GradScaler", "AMP201 scaler.unscale_"],
    ),
    "an overflow that nobody asks for, behind a question whether there is a scaler": (
        """
        def main(loader, amp, often):
            model = torch.nn.Linear(96, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = GradScaler("cuda") if amp else None
            for batch in loader:
                optimizer.zero_grad()
                loss = model(batch).sum()
                if scaler is not None:
                    scaler.scale(loss).backward()
                    scaler.unscale_(optimizer)
                else:
                    loss.backward()
                if often:
                    if scaler is not None:
                        torch.save(scaler.state_dict(), "scaler.pt")
                    optimizer.step()
                if amp:
                    scaler.update()
        """,
        ["AMP206 optimizer.step"],
    ),
    "a round that begins as an earlier one did, but on the other side of a condition": (
        """
        def main(loader, amp):
            model = torch.nn.Linear(96, 1)
            other = torch.nn.Linear(96, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = GradScaler("cuda")
            for batch, last in loader:
                if not amp:
                    scaler.scale(model(batch).sum()).backward()
                else:
                    clip(model.parameters(), 1.0)
                if last:
                    scaler.step(optimizer)
                else:
                    scaler.scale(model(batch).sum()).backward()
        """,
        ["AMP202 clip", "AMP205 clip", "AMP203 scaler.step", "AMP304 scaler.step"],
    ),
    "an update after an unscale_ that PyTorch refused": (
        """
        def main(loader):
            model = torch.nn.Linear(96, 1, bias=False)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = GradScaler("cuda")
            optimizer.zero_grad()
            scaler.unscale_(optimizer)
            for batch in loader:
                optimizer.zero_grad()
                scaler.scale(model(batch).sum()).backward()
                scaler.unscale_(optimizer)
                scaler.update()
        """,
        ["AMP201 scaler.unscale_"],
    ),
    "an exception on the path that has no scaler": (
        """
        def train(model, loader, optimizer, amp, risky):
            scaler = GradScaler("cuda") if amp else None
            for batch in loader:
                optimizer.zero_grad()
                if scaler is not None:
                    scaler.scale(model(batch).sum()).backward()
                else:
                    model(batch).sum().backward()
                if amp:
                    scaler.unscale_(optimizer)
                if scaler is not None:
                    scaler.step(optimizer)
                else:
                    optimizer.step()
                optimizer.zero_grad()
                try:
                    risky()
                    if amp:
                        scaler.update()
                    risky()
                except RuntimeError:
                    if scaler is not None:
                        scaler.unscale_(optimizer)
                finally:
                    if amp:
                        scaler.scale(model(batch).sum()).backward()
                    else:
                        model(batch).sum().backward()
        """,
        ["AMP201 scaler.unscale_", "AMP203 scaler.unscale_"],
    ),
    "a skipped iteration without update(), told as what raises and as what is missing": (
        """
        def train(model, loader, optimizer):
            scaler = GradScaler("cuda")
            for batch in loader:
                optimizer.zero_grad()
                scaler.scale(model(batch).sum()).backward()
                scaler.unscale_(optimizer)
                if not torch.isfinite(clip(model.parameters(), 1.0)):
                    continue
                scaler.step(optimizer)
                scaler.update()
        """,
        ["AMP201 scaler.unscale_", "AMP203 scaler.unscale_"],
    ),
    "a step in an iteration after the one in which its helper was understood": (
        """
        class Trainer:
            def __init__(self):
                self.models = [torch.nn.Linear(96, 1) for _ in range(3)]
                self.one = torch.optim.SGD(self.models[0].parameters(), lr=0.1)
                self.two = torch.optim.SGD(self.models[1].parameters(), lr=0.1)
                self.three = torch.optim.SGD(self.models[2].parameters(), lr=0.1)
                self.scaler = GradScaler("cuda")

            def unscale(self):
                self.scaler.unscale_(self.two)

            def fit(self, extra, loader, coin):
                for batch in loader:
                    odd = coin("odd")
                    self.one.zero_grad()
                    self.scaler.step(self.three)
                    if coin("rare"):
                        self.two.zero_grad()
                        self.three.zero_grad()
                        self.scaler.scale(sum(model(batch).sum() for model in self.models)).backward()
                    else:
                        self.scaler.step(self.one)
                        continue
                    self.scaler.unscale_(self.one)
                    if extra and odd:
                        self.scaler.step(self.one)
                        self.unscale()
                        self.scaler.step(self.two)
                        self.scaler.unscale_(self.three)
                    self.scaler.update()
        """,
        [*["AMP203 self.scaler.step"] * 2, "AMP202 self.scaler.unscale_", "AMP215 self.scaler.update"],
    ),
    "through a method and attributes": (
        """
        class Trainer:
            def __init__(self, model):
                self.model = model
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                self.scaler = GradScaler("cuda")

            def backward(self, loss):
                self.scaler.scale(loss).backward()

            def train_step(self, batch):
                self.backward(self.model(batch))
                clip(self.model.parameters(), 1.0)
                self.scaler.step(self.optimizer)
                self.scaler.update()
        """,
        [CLIPPED],
    ),
    "through an attribute that another method sets": (
        """
        class Trainer:
            def __init__(self, model):
                self.scaler = None

            def setup(self):
                self.scaler = GradScaler("cuda")
                self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

            def train_step(self, loss):
                self.scaler.scale(loss).backward()
                clip(self.model.parameters(), 1.0)
                self.scaler.step(self.optimizer)
                self.scaler.update()
        """,
        [CLIPPED],
    ),
    "through an alias and a tuple": (
        """
        def train(model, loss, optimizer):
            scaler, limit = GradScaler("cuda"), 1.0
            amp = scaler
            amp.scale(loss).backward()
            clip(model.parameters(), limit)
            scaler.step(optimizer)
            amp.update()
        """,
        ["AMP210 scaler, limit = GradScaler", CLIPPED],
    ),
    "a parameter known by what is done to it": (
        """
        def train(model, loss, opt, s):
            s.scale(loss).backward()
            clip(model.parameters(), 1.0)
            s.step(opt)
            s.update()
        """,
        [CLIPPED],
    ),
    "a parameter known by its annotation": (
        """
        def backward(model, loss, scaling: "GradScaler | None" = None, other: GradScaler = None):
            other.scale(loss).backward()
            clip(model.parameters(), 1.0)
        """,
        [CLIPPED],
    ),
    "only the path that leaves update out": (
        """
        def train(model, loader, optimizer, scaler):
            for batch in loader:
                optimizer.zero_grad()
                scaler.scale(model(batch)).backward()
                scaler.step(optimizer)
                if skip(batch):
                    continue
                scaler.update()
        """,
        ["AMP203 scaler.step"],
    ),
    "behind a condition on a tensor": (
        """
        def train(model, loader, optimizer, scaler):
            for batch in loader:
                optimizer.zero_grad()
                loss = model(batch)
                scaler.scale(loss).backward()
                skip = False
                if torch.isnan(loss) or torch.isinf(loss):
                    skip = True
                if not skip:
                    clip(model.parameters(), 1.0)
                    scaler.step(optimizer)
                    scaler.update()
        """,
        [CLIPPED],
    ),
    "a region entered by an exit stack": (
        """
        def train(model, batch):
            with contextlib.ExitStack() as stack:
                stack.enter_context(autocast("cuda"))
                model(batch).backward()
        """,
        ["AMP101 model"],
    ),
    "a region entered by a context manager of the file": (
        """
        @contextlib.contextmanager
        def half():
            with autocast("cuda"):
                yield

        def train(model, batch):
            with half():
                model(batch).backward()
        """,
        ["AMP101 model"],
    ),
    "a region that a function returns": (
        """
        def context(on):
            return autocast("cuda") if on else contextlib.nullcontext()

        def train(model, batch, on):
            with context(on):
                model(batch).backward()
        """,
        ["AMP101 model"],
    ),
    "a renamed import": (
        """
        from torch import autocast as half_precision

        def train(model, batch):
            with half_precision("cuda"):
                model(batch).backward()
        """,
        ["AMP101 model"],
    ),
    "a partial application": (
        """
        amp = functools.partial(autocast, device_type="cuda")

        def train(model, batch):
            with amp():
                model(batch).backward()
        """,
        ["AMP101 model"],
    ),
    "a decorated function": (
        """
        @autocast("cuda")
        def step(model, batch):
            model(batch).backward()
        """,
        ["AMP101 model"],
    ),
    "a helper called in a region": (
        """
        def finish(loss):
            loss.backward()

        def train(model, batch):
            with autocast("cuda"):
                finish(model(batch))
        """,
        ["AMP101 loss.backward"],
    ),
    "a scaler made for every epoch by a helper": (
        """
        def epoch(model, loader, optimizer):
            scaler = GradScaler("cuda")
            for batch in loader:
                optimizer.zero_grad()
                scaler.scale(model(batch)).backward()
                scaler.step(optimizer)
                scaler.update()

        def main(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(3):
                epoch(model, loader, optimizer)
        """,
        ["AMP210 scaler = GradScaler"],
    ),
}

SILENT = {
    "an exception out of a block that returns where nothing is raised": """
        def main(loader, amp):
            model = torch.nn.Linear(96, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = GradScaler("cuda")
            for batch in loader:
                if amp:
                    optimizer.zero_grad()
                    scaler.scale(model(batch).sum()).backward()
                    try:
                        scaler.unscale_(optimizer)
                        report(model)
                        return
                    except RuntimeError:
                        pass
                else:
                    optimizer.step()
        """,
    "an exception raised behind a step": """
        def main(loader):
            model = torch.nn.Linear(96, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = GradScaler("cuda")
            for batch in loader:
                optimizer.zero_grad()
                scaler.scale(model(batch).sum()).backward()
                try:
                    scaler.step(optimizer)
                    raise StopIteration
                except StopIteration:
                    clip(model.parameters(), 1.0)
                scaler.update()
        """,
    "a flag that is raised before an exception": """
        def main(loader):
            model = torch.nn.Linear(96, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = GradScaler("cuda")
            for batch in loader:
                optimizer.zero_grad()
                scaler.scale(model(batch).sum()).backward()
                failed = True
                try:
                    failed = False
                    clip_and_report(model)
                except RuntimeError:
                    if not failed:
                        scaler.unscale_(optimizer)
                if failed:
                    scaler.unscale_(optimizer)
                scaler.step(optimizer)
                scaler.update()
        """,
    "a plain backward on the way out of a block that perhaps was unscaled": """
        def main(loader):
            model = torch.nn.Linear(96, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = GradScaler("cuda")
            for batch in loader:
                optimizer.zero_grad()
                scaler.scale(model(batch).sum()).backward()
                scaler.unscale_(optimizer)
                try:
                    scaler.step(optimizer)
                    scaler.update()
                    continue
                except RuntimeError:
                    model(batch).sum().backward()
                scaler.step(optimizer)
                scaler.update()
        """,
    "members given by enum.auto() exclude each other": """
        import enum

        class Kind(enum.Enum):
            APEX = enum.auto()
            TORCH = enum.auto()

        def train(task, model, batch, optimizer, scaler):
            loss = model(batch)
            if task.kind is Kind.APEX:
                loss.backward()
            elif task.kind is Kind.TORCH:
                scaler.scale(loss).backward()
            else:
                loss.backward()
            if task.kind is Kind.TORCH:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
        """,
    "an enumeration finds the same member each time": """
        import enum

        class Precision(enum.Enum):
            HALF = "half"
            FULL = "full"

        class Trainer:
            def __init__(self, model, precision, optimizer):
                self.model, self.precision, self.optimizer = model, precision, optimizer
                self.scaler = GradScaler("cuda")

            def _scales(self, precision):
                precision = Precision(precision)
                return precision == Precision.HALF

            def train(self, batch):
                scales = self._scales(self.precision)
                self._backward(batch)
                if scales:
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
                else:
                    self.optimizer.step()

            def _backward(self, batch):
                loss = self.model(batch)
                if self._scales(self.precision):
                    self.scaler.scale(loss).backward()
                else:
                    loss.backward()
        """,
    "a loop over range(1) has no next round": """
        ROUNDS = 1

        def train(loader, generator, critic, optimizer_g, optimizer_d, scaler):
            for batch in loader:
                for _ in range(ROUNDS):
                    optimizer_d.zero_grad()
                    scaler.scale(critic(batch).mean()).backward()
                    scaler.unscale_(optimizer_d)
                    scaler.step(optimizer_d)
                optimizer_g.zero_grad()
                scaler.scale(generator(batch).mean()).backward()
                scaler.step(optimizer_g)
                scaler.update()
        """,
    "gradients cleared one parameter at a time": """
        def estimate(model, loader):
            for batch in loader:
                model(batch).mean().backward()
                for name, parameter in model.named_parameters():
                    if parameter.grad is not None:
                        parameter.grad = None

        def train(loader, model, scaler):
            estimate(model, loader)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for batch in loader:
                scaler.scale(model(batch).mean()).backward()
                scaler.unscale_(optimizer)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        """,
    "gradients cleared where a new window begins": """
        class Loop:
            def __init__(self, model, loader, every):
                self.model, self.loader, self.every = model, loader, every
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                self.scaler = GradScaler("cuda")

            def begin(self):
                self.optimizer.zero_grad()

            def train(self):
                for epoch in range(10):
                    fresh = True
                    for i, batch in enumerate(self.loader):
                        if fresh:
                            self.begin()
                            fresh = False
                        loss = self.model(batch).mean() / self.every
                        self.scaler.scale(loss).backward()
                        if (i + 1) % self.every:
                            continue
                        self.scaler.step(self.optimizer)
                        self.scaler.update()
                        fresh = True
        """,
    "gradients cleared where windows hold one micro-batch": """
        class Loss:
            def __init__(self):
                self._scaler = GradScaler("cuda")

            def __call__(self, loss, optimizer, clip=None, parameters=None, update=True):
                self._scaler.scale(loss).backward()
                if update:
                    if clip is not None:
                        self._scaler.unscale_(optimizer)
                        norm = torch.nn.utils.clip_grad_norm_(parameters, clip)
                    else:
                        self._scaler.unscale_(optimizer)
                        norm = None
                    self._scaler.step(optimizer)
                    self._scaler.update()
                else:
                    norm = None
                return norm


        def train(loader, model, optimizer, config, scaler):
            optimizer.zero_grad()
            for i, batch in enumerate(loader):
                with autocast("cuda", enabled=config.level != "O0"):
                    output = model(batch)
                if config.every > 1:
                    loss = output.mean() / config.every
                    if config.level != "O0":
                        scaler(loss, optimizer, config.clip, model.parameters(), update=(i + 1) % config.every == 0)
                        if (i + 1) % config.every == 0:
                            optimizer.zero_grad()
                    else:
                        loss.backward()
                        if (i + 1) % config.every == 0:
                            optimizer.step()
                            optimizer.zero_grad()
                else:
                    loss = output.mean()
                    optimizer.zero_grad()
                    if config.level != "O0":
                        scaler(loss, optimizer, config.clip, model.parameters(), update=(i + 1) % config.every == 0)
                    else:
                        loss.backward()
                        optimizer.step()


        def main(config, loader, model):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = Loss()
            for epoch in range(10):
                train(loader, model, optimizer, config, scaler)
        """,
    "a scaled loss that goes through typing.cast or an unseen function": """
        from typing import cast
        from elsewhere import watched

        def one(model, loader, optimizer, scaler):
            for batch in loader:
                optimizer.zero_grad()
                cast(torch.Tensor, scaler.scale(model(batch).mean())).backward()
                scaler.step(optimizer)
                scaler.update()

        def two(model, loader, optimizer, scaler):
            for batch in loader:
                optimizer.zero_grad()
                watched(scaler.scale(model(batch).mean())).backward()
                scaler.step(optimizer)
                scaler.update()
        """,
    "a script that asks the scaler how far an optimizer is": """
        from torch.amp.grad_scaler import OptState

        def clip_all(model, optimizer, scaler, norm, limit):
            if norm:
                scaler.unscale_(optimizer)
                clip(model.parameters(), norm)
            if limit:
                records = scaler._per_optimizer_states[id(optimizer)]
                if records["stage"] is not OptState.UNSCALED:
                    scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_value_(model.parameters(), limit)

        def train(model, loader, optimizer, norm, limit):
            scaler = GradScaler("cuda")
            for batch in loader:
                optimizer.zero_grad()
                scaler.scale(model(batch).mean()).backward()
                clip_all(model, optimizer, scaler, norm, limit)
                scaler.step(optimizer)
                scaler.update()
        """,
    "a scaler that another method makes before the loop": """
        class Trainer:
            def prepare(self, model, half):
                self.model = model
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                self.scaler = GradScaler("cuda", enabled=half)

            def finish(self):
                self.scaler.step(self.optimizer)
                self.scaler.update()

        class Classifier(Trainer):
            def train(self, loader):
                for batch in loader:
                    self.optimizer.zero_grad()
                    self.scaler.scale(self.model(batch).mean()).backward()
                    self.finish()
        """,
    "gradients measured behind a loop that steps every optimizer": """
        class Optimizers:
            def __init__(self, optimizers):
                self.optimizers = optimizers

            def step(self, scaler):
                for name, optimizer in self.optimizers.items():
                    scaler.step(optimizer)

        class Trainer:
            def __init__(self, model, optimizers):
                self.model = model
                self.optimizers = Optimizers(optimizers)
                self.scaler = GradScaler("cuda")

            def train(self, batch):
                self.scaler.scale(self.model(batch).mean()).backward()
                self.optimizers.step(self.scaler)
                for name, parameter in self.model.named_parameters():
                    if parameter.grad is not None:
                        print(name, parameter.grad.norm())
                self.scaler.update()
        """,
    "optimizers without a gradient are left out": """
        def train(model, batch, optimizers, scaler):
            scaler.scale(model(batch).mean()).backward()
            for optimizer in optimizers.values():
                if any(any(p.grad is not None for p in group["params"]) for group in optimizer.param_groups):
                    scaler.step(optimizer)
            scaler.update()
        """,
    "what an object with a scaler hands out steps through it": """
        class Wrapper:
            def __init__(self, optimizer, scaler):
                self._optimizer, self._scaler = optimizer, scaler

            def step(self):
                if self._scaler is not None:
                    self._scaler.step(self._optimizer)
                else:
                    self._optimizer.step()

            def zero_grad(self):
                self._optimizer.zero_grad()

        class Helper:
            def __init__(self, half):
                self._scaler = GradScaler("cuda") if half else None

            def update(self):
                if self._scaler is not None:
                    self._scaler.update()

            def backward(self, loss):
                if self._scaler is not None:
                    self._scaler.scale(loss).backward()
                else:
                    loss.backward()

            def prepare(self, *things):
                return tuple(self._one(thing) for thing in things)

            def _one(self, thing):
                return Wrapper(thing, self._scaler) if isinstance(thing, torch.optim.Optimizer) else thing

        def train(model, optimizer, loader, half):
            helper = Helper(half)
            model, optimizer, loader = helper.prepare(model, optimizer, loader)
            for batch in loader:
                optimizer.zero_grad()
                helper.backward(model(batch).mean())
                optimizer.step()
                helper.update()
        """,
    "a conjunction whose sides are known from different places": """
        class Trainer:
            def __init__(self, half=False, brain=False):
                self.half = half
                self.mixed = half or brain

            def train(self, model=None, optimizer=None, scaler=None, loader=None):
                for i, batch in enumerate(loader):
                    with context():
                        with maybe(self.mixed):
                            pass
                        loss = model(batch).mean() / self.every
                        if self.half and scaler is not None:
                            scaler.scale(loss).backward()
                        else:
                            loss.backward()
                    if (i + 1) % self.every == 0:
                        if self.limit > 0:
                            if not torch.isfinite(norm):
                                continue
                        if self.half and scaler is not None:
                            scaler.step(optimizer)
                            scaler.update()
                        else:
                            optimizer.step()
                        optimizer.zero_grad()

        @contextlib.contextmanager
        def maybe(enabled):
            if enabled:
                with autocast("cuda"):
                    pass
            else:
                yield
        """,
    "a scaler of the script's own that runs closures": """
        class ClosureScaler(GradScaler):
            def step(self, optimizer, *args, closure=None):
                closure()
                self.unscale_(optimizer)
                optimizer.step()

        def train(model, batch, optimizer):
            scaler = ClosureScaler("cuda")

            def closure():
                scaler.scale(model(batch).mean()).backward()

            scaler.step(optimizer, closure=closure)
            scaler.update()
        """,
    "a half model that only infers beside one that trains": """
        def test_moves(batch):
            model = torch.nn.Linear(4, 4)
            model = model.bfloat16()
            model.eval()
            with autocast("cuda", dtype=torch.bfloat16):
                model(batch)
            model = model.float()
            model = model.bfloat16()
            with autocast("cuda", dtype=torch.bfloat16):
                model(batch)

        def test_trains(batch):
            model = torch.nn.Linear(4, 4)
            model(batch).sum().backward()
        """,
    "a method decorated with a disabled region, whatever it is given": """
        class Norm(torch.nn.Module):
            @autocast("cuda", enabled=False)
            def forward(self, features):
                return features - torch.mean(features, dim=2, keepdim=True)
        """,
    "one flag for scaler and branches": """
        def train(model, loader, optimizer, use_amp):
            scaler = GradScaler("cuda", enabled=use_amp)
            for batch in loader:
                optimizer.zero_grad()
                loss = model(batch)
                if use_amp:
                    scaler.scale(loss).backward()
                else:
                    loss.backward()
                if use_amp:
                    scaler.unscale_(optimizer)
                clip(model.parameters(), 1.0)
                if use_amp:
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    optimizer.step()
        """,
    "a scaler and a flag asked together, twice": """
        def train(self, model, loader, optimizer, scaler=None):
            for index, batch in enumerate(loader):
                loss = model(batch) / self.every
                if self.use_fp16 and scaler is not None:
                    scaler.scale(loss).backward()
                else:
                    loss.backward()
                if (index + 1) % self.every == 0:
                    if self.use_fp16 and scaler is not None:
                        scaler.step(optimizer)
                        scaler.update()
                    else:
                        optimizer.step()
                    optimizer.zero_grad()
        """,
    "a helper that is called without its scaler": """
        def step_and_measure(model, optimizer, scaler: GradScaler | None = None):
            if scaler:
                scaler.step(optimizer)
            else:
                optimizer.step()

        def train(model, loader, optimizer):
            for batch in loader:
                optimizer.zero_grad()
                model(batch).backward()
                clip(model.parameters(), 5.0)
                step_and_measure(model, optimizer)
        """,
    "results of functions out of sight in a region that is off": """
        import mel

        def losses(net, duration, batch):
            with autocast("cuda"):
                wave, lengths = net(batch), duration(batch)
                wanted, made = mel.log_bands(batch), mel.log_bands(wave)
                with autocast("cuda", enabled=False):
                    total = lengths.float().sum()
                    return torch.nn.functional.l1_loss(wanted, made) + total
        """,
    "a scaler that may be None": """
        def train(model, loader, optimizer, scaler=None):
            for batch in loader:
                optimizer.zero_grad()
                loss = model(batch)
                if scaler is not None:
                    scaler.scale(loss).backward()
                    scaler.unscale_(optimizer)
                    clip(model.parameters(), 1.0)
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    loss.backward()
                    clip(model.parameters(), 1.0)
                    optimizer.step()
        """,
    "a flag derived from a string": """
        def train(model, loader, optimizer, precision):
            amp = precision == "fp16"
            scaler = GradScaler("cuda") if amp else None
            for batch in loader:
                optimizer.zero_grad()
                loss = model(batch)
                if amp:
                    loss = scaler.scale(loss)
                loss.backward()
                if precision == "fp16":
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    optimizer.step()
        """,
    "accumulation with an inner loop": """
        def train(model, loader, optimizer, scaler):
            for window in loader:
                for batch in window:
                    scaler.scale(model(batch) / 4).backward()
                scaler.unscale_(optimizer)
                clip(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        """,
    "accumulation with a boundary": """
        def train(model, loader, optimizer, scaler):
            for i, batch in enumerate(loader):
                scaler.scale(model(batch) / 4).backward()
                if (i + 1) % 4 == 0:
                    scaler.unscale_(optimizer)
                    clip(model.parameters(), 1.0)
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()
        """,
    "two optimizers and two rounds in an iteration": """
        def train(g, d, loader, scaler):
            opt_g = torch.optim.Adam(g.parameters())
            opt_d = torch.optim.Adam(d.parameters())
            for batch in loader:
                opt_d.zero_grad()
                scaler.scale(d(batch)).backward()
                scaler.step(opt_d)
                scaler.update()
                opt_g.zero_grad()
                scaler.scale(g(batch)).backward()
                scaler.unscale_(opt_g)
                clip(g.parameters(), 1.0)
                scaler.step(opt_g)
                scaler.update()
        """,
    "a scaler handed to code out of sight": """
        from library import finish

        def train(model, loader, optimizer, scaler):
            for batch in loader:
                scaler.scale(model(batch)).backward()
                finish(scaler, optimizer)
                clip(model.parameters(), 1.0)
                scaler.step(optimizer)
        """,
    "a context that is only sometimes autocast, left before backward": """
        def train(model, batch, device):
            ctx = contextlib.nullcontext() if device == "cpu" else autocast("cuda")
            with ctx:
                loss = model(batch)
            loss.backward()
        """,
    "backward in a disabled region": """
        def train(model, batch):
            with autocast("cuda"):
                loss = model(batch)
                with autocast("cuda", enabled=False):
                    loss.backward()
        """,
    "a new scaler and optimizer for every fold": """
        def main(build, folds):
            for fold in folds:
                model = build()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                scaler = GradScaler("cuda")
                for batch in fold:
                    optimizer.zero_grad()
                    scaler.scale(model(batch)).backward()
                    scaler.step(optimizer)
                    scaler.update()
        """,
    "a limit that carries the scale": """
        def train(model, loss, optimizer, scaler):
            scaler.scale(loss).backward()
            clip(model.parameters(), 1.0 * scaler.get_scale())
            scaler.step(optimizer)
            scaler.update()
        """,
    "a framework's own backward": """
        def train(model, loader, optimizer, accelerator, scaler):
            for batch in loader:
                accelerator.backward(model(batch))
                clip(model.parameters(), 1.0)
                optimizer.step()
        """,
    "a context manager that steps when it is left": """
        @contextlib.contextmanager
        def stepping(optimizer, scaler, parameters):
            optimizer.zero_grad()
            yield
            scaler.unscale_(optimizer)
            clip(parameters, 1.0)
            scaler.step(optimizer)
            scaler.update()

        def train(model, loader, optimizer):
            scaler = GradScaler("cuda")
            for batch in loader:
                with stepping(optimizer, scaler, model.parameters()):
                    scaler.scale(model(batch)).backward()
        """,
    "a list of scaled losses": """
        def train(model, loader, optimizer, scaler):
            for batch in loader:
                optimizer.zero_grad()
                torch.autograd.backward([scaler.scale(loss) for loss in model(batch)])
                for loss in scaler.scale(list(model(batch))):
                    loss.backward()
                scaler.step(optimizer)
                scaler.update()
        """,
    "another optimizer with a closure": """
        def train(model, batch, optimizer, scaler):
            scaler.scale(model(batch)).backward()
            scaler.step(optimizer)
            scaler.update()
            polish = torch.optim.LBFGS(model.parameters())

            def closure():
                polish.zero_grad()
                loss = model(batch)
                loss.backward()
                return loss

            polish.step(closure)
        """,
    "an error path that ends": """
        import sys

        def train(model, loader, optimizer, scaler):
            for batch in loader:
                optimizer.zero_grad()
                scaler.scale(model(batch)).backward()
                scaler.step(optimizer)
                if bad(batch):
                    sys.exit(1)
                scaler.update()
        """,
    "members of a class of another file exclude each other": """
        from kinds import Kind

        def train(task, loss, optimizer, scaler):
            if task.kind == Kind.APEX:
                loss.backward()
            elif task.kind == Kind.TORCH:
                scaler.scale(loss).backward()
            else:
                loss.backward()
            if task.kind != Kind.TORCH:
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
        """,
    "methods that are kept under another name": """
        def train(model, x, optimizer, scaler, scheduler):
            half, mean, advance, state = x.half, x.mean, scheduler.step, scaler.state_dict
            with autocast("cuda"):
                half()
                mean()
                loss = model(x).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            advance()
            torch.save({"optimizer": optimizer.state_dict(), "scaler": state()}, "last.pt")
        """,
    "a norm taken after unscale_ in a loop over parameters": """
        def train(model, loss, optimizer, scaler):
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            total = sum(p.grad.norm() for p in model.parameters() if p.grad is not None)
            scaler.step(optimizer)
            scaler.update()
            return total
        """,
}


@pytest.mark.parametrize(("body", "expected"), FOUND.values(), ids=FOUND)
def test_found(body: str, expected: list[str]) -> None:
    assert lint(body) == expected


ASKED = {
    "gradients cleared where windows hold one micro-batch": ["AMP303 scaler"],
}
"""What rules report of such programs only because they are selected: windows of unknown batches."""


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert lint(SILENT[name]) == ASKED.get(name, [])


def test_many_branches_do_not_multiply() -> None:
    branch = "        if flags.f{0}:\n            note(flags.f{0})\n            scaler.update()\n"
    start = "def train(model, loader, optimizer, scaler, flags):\n    for batch in loader:\n"
    body = "        scaler.scale(model(batch)).backward()\n        scaler.step(optimizer)\n"
    lint(start + body + "".join(map(branch.format, range(40))))


def test_a_return_from_a_loop_ends_its_iterations() -> None:
    found = lint(
        """
        def train(model, optimizer, scaler, loader, every, epochs):
            for epoch in range(epochs):
                optimizer.zero_grad()
                for i, batch in enumerate(loader):
                    if batch is None:
                        return
                    with autocast("cuda"):
                        loss = model(batch).mean() / every
                    scaler.scale(loss).backward()
                    if (i + 1) % every == 0:
                        scaler.step(optimizer)
                        scaler.update()
                        optimizer.zero_grad()

        def main(model, optimizer, scaler, loader, every):
            train(model, optimizer, scaler, loader, every, 10)
            train(model, optimizer, scaler, loader, every, 20)
        """,
    )
    assert [one for one in found if not one.startswith("AMP303")] == []
