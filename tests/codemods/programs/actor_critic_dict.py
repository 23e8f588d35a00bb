"""An actor and a critic with their optimizers in a dictionary; the losses are added before one backward pass."""

import torch
from torch import nn

losses = []


class Agent:
    def __init__(self):
        self.actor = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
        self.critic = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
        self.optimizers = {
            "actor": torch.optim.Adam(self.actor.parameters(), lr=1e-3),
            "critic": torch.optim.Adam(self.critic.parameters(), lr=1e-3),
        }

    def losses(self, states, actions, returns):
        values = self.critic(states).squeeze(-1)
        advantages = returns - values.detach()
        log_probabilities = self.actor(states).log_softmax(-1)
        chosen = log_probabilities.gather(-1, actions[:, None]).squeeze(-1)
        return -(chosen * advantages).mean(), (values - returns).pow(2).mean()

    def update(self, states, actions, returns):
        policy_loss, value_loss = self.losses(states, actions, returns)
        loss = policy_loss + 0.5 * value_loss
        for optimizer in self.optimizers.values():
            optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.actor.parameters(), 0.5)
        nn.utils.clip_grad_norm_(self.critic.parameters(), 0.5)
        self.optimizers["actor"].step()
        self.optimizers["critic"].step()
        return loss.item()


torch.manual_seed(15)
agent = Agent()
for _ in range(50):
    states = torch.randn(32, 3)
    actions = (states.sum(-1) > 0).long()
    losses.append(agent.update(states, actions, states.mean(-1)))
