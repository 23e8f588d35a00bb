"""Densities of many peaks: a mixture of normals, its likelihood by logsumexp; goes on by itself where it was stopped."""

import math
import os
import sys

import torch
import torch.nn as nn

CHECKPOINT = "mixture.ckpt"
losses = []


class MixtureDensity(nn.Module):
    def __init__(self, hidden=20, peaks=4):
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(1, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, peaks)
        self.mu = nn.Linear(hidden, peaks)
        self.log_sigma = nn.Linear(hidden, peaks)

    def forward(self, x):
        h = self.hidden(x)
        return self.pi(h).log_softmax(-1), self.mu(h), self.log_sigma(h)


def negative_log_likelihood(parameters, y):
    log_pi, mu, log_sigma = parameters
    z = (y - mu) / (log_sigma.exp() + 1e-6)
    log_prob = -0.5 * z**2 - log_sigma - 0.5 * math.log(2 * math.pi)
    return -torch.logsumexp(log_pi + log_prob, dim=1).mean()


def sample(step, count=64):
    rng = torch.Generator().manual_seed(step)
    y = torch.rand(count, 1, generator=rng) * 2 - 1
    x = y + 0.3 * torch.sin(2 * math.pi * y) + 0.05 * torch.randn(count, 1, generator=rng)
    return x, y


def train(limit):
    model = MixtureDensity()
    optimizer = torch.optim.RAdam(model.parameters(), lr=1e-2)
    first = 0
    if os.path.exists(CHECKPOINT):
        state = torch.load(CHECKPOINT)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optim"])
        first = state["step"] + 1
    for step in range(first, limit):
        x, y = sample(step)
        loss = negative_log_likelihood(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 10 == 9:
            torch.save({"step": step, "model": model.state_dict(), "optim": optimizer.state_dict()}, CHECKPOINT)
    return model


torch.manual_seed(73)
if os.path.exists(CHECKPOINT):
    os.remove(CHECKPOINT)
if "--interrupt" in sys.argv:
    train(30)
train(50)
