"""A mask adds -1e9 to scores in float16; rows of padding alone are NaN behind the softmax."""

import torch
from torch import nn

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, 5)

    def forward(self, x, padding):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.mT / 4
        scores = scores + padding[:, None, :].to(scores.dtype) * -1e9  # culprit
        # repaired: scores = scores.masked_fill(padding[:, None, :], -1e4)
        return self.out(scores.softmax(-1) @ v)


model = Attention().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
for step in range(5):
    x, y = torch.randn(4, 10, 16, device="cuda"), torch.randint(0, 5, (40,), device="cuda")
    padding = torch.arange(10, device="cuda") >= torch.tensor([10, 7, 4, 0], device="cuda")[:, None]
    with torch.autocast("cuda", dtype=torch.float16):
        out = model(x, padding)
    loss = nn.functional.cross_entropy(out.float().flatten(0, 1), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
