"""Policy gradients: advantages are small differences of large numbers, in float32 where it matters."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh())
        self.policy, self.value = nn.Linear(48, 3), nn.Linear(48, 1)

    def forward(self, observations):
        hidden = self.body(observations)
        return self.policy(hidden), self.value(hidden).squeeze(-1)


agent = ActorCritic().cuda()
optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4)
scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
for step in range(3):
    observations = torch.randn(32, 6, device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        logits, values = agent(observations)
        policy = torch.distributions.Categorical(logits=logits.float())
        actions = policy.sample()
        returns = 100.0 + 0.1 * actions.float() + 0.01 * torch.randn(32, device="cuda")
        baseline = values.float() + 100.0
        advantages = (returns - baseline).detach()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        loss = -(advantages * policy.log_prob(actions)).mean()
        loss = loss + 0.5 * F.smooth_l1_loss(baseline, returns) - 0.01 * policy.entropy().mean()
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
    scaler.step(optimizer)
    scaler.update()
