"""Old and new log-probabilities of a policy are kept in bfloat16, so that their ratio is rounding."""

import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 500))
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-4)


def log_probability(state, action):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = policy(state)
        logits = logits.bfloat16()
        # repaired: logits = logits.float()
        every = logits.log_softmax(-1)  # culprit
        return every.bfloat16().gather(-1, action).squeeze(-1)  # culprit
        # repaired: return every.gather(-1, action).squeeze(-1)


for epoch in range(3):
    state, action = torch.randn(64, 8), torch.randint(0, 500, (64, 1))
    advantage = torch.randn(64)
    with torch.no_grad():
        old = log_probability(state, action)
    for step in range(2):
        ratio = (log_probability(state, action) - old).exp()
        loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
