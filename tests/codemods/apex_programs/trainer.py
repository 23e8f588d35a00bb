"""A trainer that saves and loads the state of apex."""

import io

import torch
from torch import nn

try:
    from apex import amp

    APEX_AVAILABLE = True
except ModuleNotFoundError:
    APEX_AVAILABLE = False


class Trainer:
    """Trains a small regression."""

    def __init__(self, use_amp=True):
        self.use_amp = use_amp
        self.model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        if self.use_amp and not APEX_AVAILABLE:
            raise RuntimeError("apex is missing")
        if self.use_amp:
            self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level="O2", loss_scale=128.0)

    def step(self, inputs, targets):
        """One step of training."""
        self.optimizer.zero_grad()
        outputs = self.model(inputs)
        loss = nn.functional.mse_loss(outputs, targets)
        if self.use_amp:
            with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()
        return loss.item()

    def save(self, file):
        """Write a checkpoint."""
        checkpoint = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        if self.use_amp:
            checkpoint["amp"] = amp.state_dict()
        torch.save(checkpoint, file)

    def load(self, file):
        """Read a checkpoint."""
        checkpoint = torch.load(file)
        self.model.load_state_dict(checkpoint["model"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        if self.use_amp and "amp" in checkpoint:
            amp.load_state_dict(checkpoint["amp"])


torch.manual_seed(0)
inputs, targets = torch.randn(32, 4), torch.randn(32, 1)
trainer = Trainer()
losses = [trainer.step(inputs, targets) for _ in range(25)]
file = io.BytesIO()
trainer.save(file)
file.seek(0)
trainer.load(file)
losses += [trainer.step(inputs, targets) for _ in range(25)]
