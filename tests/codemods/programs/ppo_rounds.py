"""Proximal policy optimisation: data is gathered without gradients, then used for several rounds of small batches."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.distributions import Normal

losses = []


@dataclass
class Settings:
    iterations: int = 5
    rounds: int = 5
    minibatches: int = 2
    clip: float = 0.2
    value_weight: float = 0.5
    entropy_weight: float = 0.01
    max_grad_norm: float = 0.5
    lr: float = 1e-3


class ActorCritic(nn.Module):
    def __init__(self, observations, actions):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(observations, 24), nn.Tanh(), nn.Linear(24, actions))
        self.critic = nn.Sequential(nn.Linear(observations, 24), nn.Tanh(), nn.Linear(24, 1))
        self.log_std = nn.Parameter(torch.zeros(actions))

    def act(self, obs):
        return Normal(self.actor(obs), self.log_std.exp())

    def evaluate(self, obs, action):
        dist = self.act(obs)
        return dist.log_prob(action).sum(-1), dist.entropy().sum(-1), self.critic(obs).squeeze(-1)


@torch.no_grad()
def collect(model, count):
    obs = torch.randn(count, 3)
    action = model.act(obs).sample()
    logp, _, value = model.evaluate(obs, action)
    reward = -(action - obs.sum(1, keepdim=True)).abs().sum(1)
    advantage = reward - value
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    return obs, action, logp, reward, advantage


def update(cfg, model, optimizer, data):
    obs, action, old_logp, returns, advantage = data
    for _ in range(cfg.rounds):
        for picked in torch.randperm(len(obs)).chunk(cfg.minibatches):
            logp, entropy, value = model.evaluate(obs[picked], action[picked])
            ratio = (logp - old_logp[picked]).exp()
            clipped = ratio.clamp(1 - cfg.clip, 1 + cfg.clip)
            policy_loss = -torch.min(ratio * advantage[picked], clipped * advantage[picked]).mean()
            value_loss = nn.functional.mse_loss(value, returns[picked])
            loss = policy_loss + cfg.value_weight * value_loss - cfg.entropy_weight * entropy.mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), cfg.max_grad_norm)
            optimizer.step()
            losses.append(loss.item())


def main():
    torch.manual_seed(37)
    cfg = Settings()
    agent = ActorCritic(3, 1)
    optimizer = torch.optim.Adam(agent.parameters(), lr=cfg.lr, eps=1e-5)
    for _ in range(cfg.iterations):
        update(cfg, agent, optimizer, collect(agent, 64))


main()
