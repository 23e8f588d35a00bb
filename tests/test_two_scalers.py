"""Two models that train at once, each with its scaler, of which a setting leaves one out."""

from __future__ import annotations

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

ADVERSARIES = """
import torch


class Adversaries:
    def __init__(self, generator, critic, settings, criterion):
        self.generator, self.critic = generator, critic
        self.settings, self.criterion = settings, criterion
        self.generator_scaler = torch.amp.GradScaler("cuda", enabled=settings.amp)
        self.critic_scaler = torch.amp.GradScaler("cuda", enabled=settings.amp)
        self.generator_steps = torch.optim.Adam(generator.parameters())
        self.critic_steps = torch.optim.Adam(critic.parameters())

    def gradients(self, noise, wanted):
        with torch.autocast("cuda", enabled=self.settings.amp):
            made = self.generator(noise)
            loss = (made - wanted).abs().mean()
        self.generator_scaler.scale(loss).backward()
        if self.critic is not None:
            if self.criterion:
                with torch.autocast("cuda", enabled=self.settings.amp):
                    loss = self.criterion(self.critic(made.detach()), False)
                self.critic_scaler.scale(loss).backward()
            if self.settings.clip:
                self.critic_scaler.unscale_(self.critic_steps)
                torch.nn.utils.clip_grad_norm_(self.critic.parameters(), 1.0)

    def step(self, noise, wanted):
        self.gradients(noise, wanted)
        self.generator_scaler.step(self.generator_steps)
        self.critic_scaler.step(self.critic_steps)
        self.generator_scaler.update()
        self.critic_scaler.update()
        self.generator_steps.zero_grad()
        self.critic_steps.zero_grad()
"""
MISTAKEN = """
import torch


def train(model, batches, optimizer):
    scaler, other = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")
    for batch in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(batch).mean()
        scaler.scale(loss).backward()
        other.step(optimizer)
        other.update()
"""


def _messages(program: str) -> list[str]:
    job = Job("program.py", "", program.encode(), (load_registry().rules["AMP207"],))
    return [finding.message for finding in analyse(job, Modules()).findings]


def test_a_pass_that_a_setting_leaves_out_makes_the_other_no_foreign_one() -> None:
    assert not _messages(ADVERSARIES)


def test_another_scaler_steps_on_every_path() -> None:
    assert _messages(MISTAKEN) == ["step() unscales gradients whose loss was scaled by another scaler"]
