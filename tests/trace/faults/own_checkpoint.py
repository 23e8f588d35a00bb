"""A checkpoint of one's own computes a block again without the region that it ran in."""

import torch
from torch import nn

torch.manual_seed(0)


class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, x):
        ctx.block, ctx.region = block, torch.is_autocast_enabled("cuda")
        ctx.save_for_backward(x)
        with torch.no_grad():
            return block(x)

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            # repaired: with torch.enable_grad(), torch.autocast("cuda", dtype=torch.float16, enabled=ctx.region):
            out = ctx.block(x)  # culprit
        torch.autograd.backward(out, gradient.to(out.dtype))
        return None, x.grad


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)) for _ in range(3))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        for block in self.blocks:
            x = x + Checkpoint.apply(block, x)
        return self.head(x)


model = Model().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
for step in range(5):
    x, y = torch.randn(16, 16, device="cuda", requires_grad=True), torch.randint(0, 4, (16,), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
