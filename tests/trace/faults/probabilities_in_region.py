"""binary_cross_entropy is called in a region, which CUDA's autocast refuses."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(16, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
for step in range(5):
    x, y = torch.randn(16, 16, device="cuda"), torch.randint(0, 2, (16, 1), device="cuda").float()
    with torch.autocast("cuda", dtype=torch.float16):
        likely = model(x)
        loss = nn.functional.binary_cross_entropy(likely.sigmoid(), y)  # culprit
        # repaired: loss = nn.functional.binary_cross_entropy_with_logits(likely, y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
