"""NaN and inf that float32 has as well: a metric divides 0 by 0, and losses are masked with -inf."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 32), nn.LayerNorm(32), nn.SiLU(), nn.Linear(32, 6)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda", init_scale=4096.0)
for step in range(3):
    x, labels = torch.randn(8, 12, device="cuda"), torch.randint(0, 5, (8,), device="cuda")
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        logits = model(x)
        banned = torch.zeros(6, device="cuda").index_fill(0, torch.tensor([5], device="cuda"), float("-inf"))
        loss = F.cross_entropy(logits + banned, labels)
    with torch.no_grad():
        predicted = (logits + banned).argmax(dim=1)
        hits = torch.stack([((predicted == c) & (labels == c)).sum() for c in range(6)]).half()
        total = torch.stack([(labels == c).sum() for c in range(6)]).half()
        recall = hits / total
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(recall.nanmean().item())
