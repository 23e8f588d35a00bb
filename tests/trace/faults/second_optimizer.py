"""Of two optimizers only the first is unscaled, and the gradients of both are clipped."""

import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(16, 32).cuda(), nn.Linear(32, 4).cuda()
slow = torch.optim.SGD(body.parameters(), lr=1e-3)
fast = torch.optim.SGD(head.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
for step in range(5):
    x, y = torch.randn(16, 16, device="cuda"), torch.randint(0, 4, (16,), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(head(torch.relu(body(x))), y)
    slow.zero_grad()
    fast.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(slow)
    pass
    # repaired: scaler.unscale_(fast)
    nn.utils.clip_grad_norm_([*body.parameters(), *head.parameters()], 1.0)  # culprit
    scaler.step(slow)
    scaler.step(fast)
    scaler.update()
