"""A world model and a policy: an object that is called with a loss steps the optimizer of either."""

import torch
from torch import distributions, nn

losses = []


class Optimizer:
    def __init__(self, name, parameters, lr, clip=100.0):
        self._name = name
        self._parameters = list(parameters)
        self._clip = clip
        self._opt = torch.optim.Adam(self._parameters, lr=lr)

    def __call__(self, loss, retain_graph=False):
        self._opt.zero_grad()
        loss.backward(retain_graph=retain_graph)
        norm = nn.utils.clip_grad_norm_(self._parameters, self._clip)
        self._opt.step()
        return {f"{self._name}_loss": loss.item(), f"{self._name}_norm": norm.item()}


class World(nn.Module):
    def __init__(self, observed=6, size=16, acts=2):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(observed, 32), nn.ELU(), nn.Linear(32, size))
        self.dynamics = nn.Linear(size, size)
        self.control = nn.Linear(acts, size)
        self.decoder = nn.Linear(size, observed)
        self.reward = nn.Linear(size, 1)


class Agent:
    def __init__(self):
        self.world = World()
        self.policy = nn.Sequential(nn.Linear(16, 32), nn.ELU(), nn.Linear(32, 2), nn.Tanh())
        self._world_opt = Optimizer("world", self.world.parameters(), 3e-3)
        self._policy_opt = Optimizer("policy", self.policy.parameters(), 1e-3)

    def train(self, batch):
        metrics, state = self._train_world(batch)
        metrics.update(self._train_policy(state))
        return metrics

    def _train_world(self, batch):
        state = self.world.encoder(batch["observed"])
        prior = self.world.dynamics(state) + self.world.control(batch["action"])
        terms = {
            "image": (self.world.decoder(state) - batch["observed"]).pow(2).sum(-1).mean(),
            "reward": (self.world.reward(state).squeeze(-1) - batch["reward"]).pow(2).mean(),
            "kl": distributions.kl_divergence(distributions.Normal(state, 1.0), distributions.Normal(prior, 1.0)).mean(),
        }
        metrics = self._world_opt(sum(terms.values()))
        return metrics, state.detach()

    def _train_policy(self, state):
        action = self.policy(state)
        imagined = self.world.dynamics(state) + self.world.control(action)
        return self._policy_opt(-self.world.reward(imagined).mean())


torch.manual_seed(3)
agent = Agent()
for _ in range(50):
    observed = torch.randn(16, 6)
    action = torch.rand(16, 2)
    batch = {"observed": observed, "action": action, "reward": observed[:, 0]}
    losses.append(agent.train(batch)["world_loss"])
