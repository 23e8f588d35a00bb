"""Reinforcement learning: log-probabilities are collected over an episode and become one loss."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical

losses = []
EPS = torch.finfo(torch.float32).eps


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 32)
        self.affine2 = nn.Linear(32, 2)
        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        return F.softmax(self.affine2(F.relu(self.affine1(x))), dim=1)


torch.manual_seed(13)
policy = Policy()
optimizer = optim.Adam(policy.parameters(), lr=1e-3)


def finish_episode(states, actions, rewards):
    returns = torch.tensor(rewards)
    returns = (returns - returns.mean()) / (returns.std() + EPS)
    probs = policy(states)
    log_probs = Categorical(probs).log_prob(actions)
    policy_loss = (-log_probs * returns).mean()
    optimizer.zero_grad()
    policy_loss.backward()
    optimizer.step()
    losses.append(policy_loss.item())


for episode in range(50):
    states = torch.randn(16, 4)
    actions = torch.randint(0, 2, (16,))
    rewards = [float(a == (s.sum() > 0)) for a, s in zip(actions, states)]
    finish_episode(states, actions, rewards)
