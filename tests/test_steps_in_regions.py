"""Steps in regions: only before another pass on copies of weights that the optimizer updates (AMP102)."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from amplint.findings import Severity
from tests.linting import findings_of

RULE = load_registry().rules["AMP102"]
HEAD = """
import apex, timm, torch, transformers
from contextlib import contextmanager
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
"""
LOOP = """
def fit(loader, args, {arguments}):
{made}
    with torch.autocast("cuda", dtype=torch.bfloat16{options}):
        for inputs in loader:
            loss = model(inputs).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
{behind}
"""
ADAM = "    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)\n"
LAYER = "    model = nn.Linear(4, 4)\n"


def loop(made: str = LAYER + ADAM, arguments: str = "*others", options: str = "", behind: str = "") -> str:
    """A loop within a region."""
    return LOOP.format(made=made.rstrip(), arguments=arguments, options=options, behind=behind)


CRITIC = """
class Trainer:
    def __init__(self, config):
        self.generator, self.critic = nn.Linear(4, 4), nn.Linear(4, 1)
        self.of_generator = torch.optim.Adam(self.generator.parameters())
        self.of_critic = torch.optim.Adam(self.critic.parameters())

    def step(self, inputs):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            fake = self.generator(inputs)
            loss = self.critic(fake).mean()
            loss.backward()
            self.{stepped}.step()
            loss = self.critic(fake.detach()).mean()
        loss.backward()
"""
IN_CONTEXT = """
@contextmanager
def precision(on):
    if on:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            yield
    else:
        yield

class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 4)
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def step(self, inputs, whole):
        loss = self.model(inputs).sum()
        loss.backward()
        self.optimizer.step()
        if whole:
            return loss
        return loss.detach()

    def fit(self, loader):
        for inputs in loader:
            with precision(True):
                self.step(inputs, 1)
"""
IN_CLASS = """
class Precision:
    def __init__(self):
        self.region = torch.autocast("cuda", dtype=torch.bfloat16)
    def __enter__(self):
        self.region.__enter__()
    def __exit__(self, *error):
        self.region.__exit__(*error)

def fit(loader):
    model, precision = nn.Linear(4, 4), Precision()
    optimizer = torch.optim.AdamW(model.parameters())
    for inputs in loader:
        with precision:
            model(inputs).sum().backward()
            optimizer.step()
"""
BACKBONE = """
def fit(loader):
    backbone, head = nn.Linear(4, 4), nn.Linear(4, 2)
    optimizer = {optimizer}(head.parameters())
    for inputs in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            head(backbone(inputs)).sum().backward()
            optimizer.step()
            features = backbone(inputs)
"""
WARNING, INFO = Severity.WARNING, Severity.INFO
PROGRAMS = {
    "a loop in a region": (loop(), WARNING),
    "a model of a library, moved and wrapped": (
        loop(
            "    model = nn.parallel.DistributedDataParallel(timm.create_model(args.name).to(args.device))\n"
            '    optimizer = torch.optim.AdamW([{"params": model.parameters(), "lr": 1}])\n'
        ),
        WARNING,
    ),
    "parameters that a function of another file groups": (
        loop(LAYER + "    optimizer = torch.optim.AdamW(transformers.grouped(model, args.decay), lr=args.lr)\n"),
        WARNING,
    ),
    "an optimizer of a function out of sight": (
        loop(LAYER + "    optimizer = timm.optim.create_optimizer(args, model)\n"),
        WARNING,
    ),
    "a critic that judges once more": (CRITIC.format(stepped="of_critic"), WARNING),
    "a pass without gradients behind the step": (
        loop(behind="            with torch.no_grad():\n                model(inputs)\n            break"),
        WARNING,
    ),
    "model and optimizer of a caller": (loop("", "model, optimizer"), INFO),
    "a model of a caller": (loop(ADAM, "model"), INFO),
    "weights in the dtype in which they were saved": (
        loop("    model = transformers.AutoModel.from_pretrained(args.name)\n" + ADAM),
        INFO,
    ),
    "a dtype that is a setting": (loop(LAYER + "    model.to(dtype=args.dtype)\n" + ADAM), INFO),
    "the step of the generator": (CRITIC.format(stepped="of_generator"), None),
    "a region that a generator opens for each step": (IN_CONTEXT, None),
    "a region that a class opens for each step": (IN_CLASS, None),
    "another model, which is not trained": (BACKBONE.format(optimizer="torch.optim.AdamW"), None),
    "the same with an optimizer of another library": (BACKBONE.format(optimizer="apex.optimizers.FusedAdam"), None),
    "an optimizer that multiplies matrices": (BACKBONE.format(optimizer="torch.optim.Muon"), WARNING),
    "a step that ends the loop": (loop(behind="            break"), None),
    "bfloat16 weights": (loop("    model = nn.Linear(4, 4).bfloat16()\n" + ADAM), None),
    "sharded weights": (loop("    model = FullyShardedDataParallel(nn.Linear(4, 4))\n" + ADAM), None),
    "a region without copies": (loop(options=", cache_enabled=False"), None),
    "no copies at all": (loop("    torch.set_autocast_cache_enabled(False)\n" + LAYER + ADAM), None),
    "copies that are cleared": (loop(behind="            torch.clear_autocast_cache()"), None),
    "a pass in inference mode behind the step": (
        loop(behind="            with torch.inference_mode():\n                model(inputs)\n            break"),
        None,
    ),
}


@pytest.mark.parametrize("shape", PROGRAMS)
def test_a_step_in_a_region(shape: str) -> None:
    text, expected = PROGRAMS[shape]
    found = findings_of((HEAD + text), (RULE,), path="/nowhere/script.py")
    assert [one.severity for one in found] == ([] if expected is None else [expected])
