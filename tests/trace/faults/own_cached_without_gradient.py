"""A forward pass without gradients leaves cast weights in the region's cache, and the next one learns nothing.

pytorch/pytorch issue 112583.
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 4)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
for step in range(5):
    x, y = torch.randn(16, 16, device="cuda"), torch.randint(0, 4, (16,), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        # repaired: with torch.autocast("cuda", dtype=torch.float16, cache_enabled=False):
        with torch.no_grad():
            wanted = model(x).softmax(-1)  # culprit
        out = model(x + 0.1 * torch.randn_like(x))  # culprit
        loss = nn.functional.cross_entropy(out, y) + nn.functional.kl_div(out.log_softmax(-1), wanted)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
