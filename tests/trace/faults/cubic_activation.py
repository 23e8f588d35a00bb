"""An activation of one's own works in float16, and its derivative is beyond that."""

import torch
from torch import nn

torch.manual_seed(0)


class Cubic(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * (x * x / 1e5)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (3 * x * x) / 1e5  # culprit


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 16), nn.Linear(16, 2)

    def forward(self, x):
        hidden = 170 * torch.tanh(self.inner(x))
        cubed = Cubic.apply(hidden)
        # repaired: cubed = Cubic.apply(hidden.float())
        return self.outer(cubed)


model = Model().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=64.0)
for step in range(5):
    x, y = 4 * torch.randn(16, 8, device="cuda"), torch.randint(0, 2, (16,), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
