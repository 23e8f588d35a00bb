"""Where a framework scales the loss and steps the optimizer, the rules about raw calls have nothing to say."""

from __future__ import annotations

import textwrap

import pytest

from amplint.engine.dispatch import Dispatcher
from amplint.rule import Registry
from amplint.semantics import interpret
from amplint.semantics.reading.program import Program
from amplint.source.source import Source

RULES = [rule for rule in Registry().load().rules.values() if rule.code not in ("AMP702", "AMP703", "AMP901", "AMP902")]
HEADER = """import deepspeed
import horovod.torch as hvd
import lightning.pytorch as pl
import torch
from accelerate import Accelerator
from apex import amp
from lightning import Fabric
from mmengine.optim import AmpOptimWrapper

"""
GOOD = {
    "DeepSpeed": """
        def deepspeed_loop(args, model, loader):
            engine, optimizer, _, _ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters())
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16, enabled=args.autocast):
                    loss = engine(x, y)
                engine.backward(loss)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                engine.step()
        """,
    "DeepSpeed, gradients that a test reads": """
        def test_gradients(batches):
            engine, _, _, _ = deepspeed.initialize(model=torch.nn.Linear(4, 4), config={"train_batch_size": 1})
            for x in batches:
                engine.backward(engine(x).sum())
                assert all(weight.grad is not None for weight in engine.module.parameters())
        """,
    "DeepSpeed, gradients of one batch": """
        engine, _, _, _ = deepspeed.initialize(model=torch.nn.Linear(4, 4), config={"train_batch_size": 1})
        engine.backward(engine(x).sum())
        norms = [weight.grad.norm().item() for weight in engine.module.parameters()]
        """,
    "mmengine": """
        def mmengine_loop(model, loader):
            inner = torch.optim.SGD(model.parameters(), 0.1)
            wrapper = AmpOptimWrapper(optimizer=inner, loss_scale="dynamic", accumulative_counts=4)
            for batch in loader:
                with wrapper.optim_context(model):
                    losses = model(batch)
                wrapper.update_params(losses)
        """,
    "mmengine by hand": """
        def mmengine_by_hand(model, wrapper, batch):
            with wrapper.optim_context(model):
                loss = model(batch)
            loss = wrapper.scale_loss(loss)
            wrapper.backward(loss)
            if wrapper.should_update():
                wrapper.step()
                wrapper.zero_grad()
        """,
    "Horovod": """
        def horovod_loop(model, loader):
            inner = torch.optim.SGD(model.parameters(), 0.1)
            optimizer = hvd.DistributedOptimizer(inner, named_parameters=model.named_parameters())
            scaler = torch.amp.GradScaler("cuda")
            for x in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(x)
                scaler.scale(loss).backward()
                optimizer.synchronize()
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                with optimizer.skip_synchronize():
                    scaler.step(optimizer)
                scaler.update()
        """,
    "Lightning": """
        class Auto(pl.LightningModule):
            def training_step(self, batch, index):
                loss = self(batch)
                self.log("loss", loss)
                return loss
            def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
                torch.nn.utils.clip_grad_norm_(self.parameters(), gradient_clip_val)
            def on_before_optimizer_step(self, optimizer):
                norm = torch.nn.utils.clip_grad_norm_(self.parameters(), float("inf"))
            def optimizer_step(self, epoch, batch_idx, optimizer, closure):
                optimizer.step(closure=closure)
        """,
    "Lightning by hand": """
        class Gan(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.automatic_optimization = False
            def training_step(self, batch, index):
                g, d = self.optimizers()
                self.toggle_optimizer(g)
                loss = self(batch)
                g.zero_grad()
                self.manual_backward(loss)
                g.step()
                self.untoggle_optimizer(g)
                d.zero_grad()
                self.manual_backward(self(batch))
                if (index + 1) % 4 == 0:
                    d.step()
        """,
    "Accelerate with two optimizers": """
        def gan_with_accelerate(args, g, d, loader):
            accelerator = Accelerator(mixed_precision=args.mp, gradient_accumulation_steps=2)
            g_opt, d_opt = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
            g, d, g_opt, d_opt, loader = accelerator.prepare(g, d, g_opt, d_opt, loader)
            for x in loader:
                with accelerator.accumulate(g, d):
                    accelerator.backward(d(g(x).detach()).mean())
                    d_opt.step(); d_opt.zero_grad()
                    loss = d(g(x)).mean()
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        norm = accelerator.clip_grad_norm_(g.parameters(), args.max_norm)
                    g_opt.step(); g_opt.zero_grad()
                    if accelerator.optimizer_step_was_skipped:
                        continue
            accelerator.save_state(args.out)
        """,
    "Accelerate and an optimizer of one's own": """
        def inner_backward(accelerator_args, model, loader):
            accelerator = Accelerator(**accelerator_args)
            optimizer = torch.optim.Adam(model.parameters())
            model, optimizer = accelerator.prepare(model, optimizer)
            for x in loader:
                latent = torch.zeros(4, requires_grad=True)
                inner = torch.optim.SGD([latent], 0.1)
                (latent * x).sum().backward()
                inner.step()
                optimizer.zero_grad()
                accelerator.backward(model(latent).sum())
                optimizer.step()
        """,
    "apex": """
        def apex_loop(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
            for i, x in enumerate(loader):
                loss = model(x)
                with amp.scale_loss(loss, optimizer) as scaled_loss:
                    scaled_loss.backward()
                torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        """,
}
BYPASSED = {
    "a parameter": """
        def step(accelerator: Accelerator, model, optimizer, batch):
            model, optimizer = accelerator.prepare(model, optimizer)
            optimizer.zero_grad()
            model(batch).backward()
            optimizer.step()

        def clip(accelerator: Accelerator, model, loss):
            accelerator.backward(loss)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        """,
    "a list of optimizers": """
        accelerator = Accelerator(mixed_precision="fp16")
        model = torch.nn.Linear(1, 1)
        optimizers = accelerator.prepare(torch.optim.SGD(model.parameters()), torch.optim.Adam(model.parameters()))
        model(batch).backward()
        optimizers[1].step()
        """,
    "a Fabric of an unknown precision": """
        def main(args, model):
            fabric = Fabric(precision=args.precision)
            model = fabric.setup_module(model)
            optimizer = fabric.setup_optimizers(torch.optim.SGD(model.parameters()))
            model(args).backward()
            optimizer.step()
        """,
}


def lint(body: str) -> list[str]:
    """The codes found in `body`."""
    program = Program(Source("script.py", HEADER + textwrap.dedent(body)))
    dispatcher = Dispatcher(program, RULES)
    interpret(program, dispatcher.emit, dispatcher.kinds)
    return [f"{finding.code} {finding.message}" for finding in dispatcher.findings()]


@pytest.mark.parametrize("body", GOOD.values(), ids=GOOD.keys())
def test_silence(body: str) -> None:
    assert lint(body) == []


@pytest.mark.parametrize("body", BYPASSED.values(), ids=BYPASSED.keys())
def test_bypassed(body: str) -> None:
    found = lint(body)
    assert found
    assert all(finding.startswith("AMP705") for finding in found)
