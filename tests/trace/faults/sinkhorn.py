"""Targets of a clustering are balanced exponentials of float16 scores over a small temperature, as in SwAV."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16)).cuda()
prototypes = nn.Linear(16, 12, bias=False).cuda()
optimizer = torch.optim.SGD([*model.parameters(), *prototypes.parameters()], lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)


@torch.no_grad()
def balanced(scores, temperature=0.05):
    scores = scores.detach()
    # repaired: scores = scores.detach().float()
    share = torch.exp(scores / temperature).T  # culprit
    share = share / share.sum()
    for _ in range(3):
        share = share / share.sum(1, keepdim=True) / len(share)
        share = share / share.sum(0, keepdim=True) / share.shape[1]
    return (share * share.shape[1]).T


for step in range(5):
    x = torch.randn(32, 16, device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        out = nn.functional.normalize(model(x), dim=-1)
        scores = prototypes(2 * out)
    wanted = balanced(scores)
    loss = -(wanted.float() * (scores.float() / 0.1).log_softmax(-1)).sum(-1).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
