"""A custom function that casts to float32 for itself, and a contrastive loss in float32 throughout."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class StableLog(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.log(x + 1e-8)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient / (x + 1e-8)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.GELU(), nn.Linear(64, 16))

    def forward(self, x):
        return F.normalize(self.net(x).float(), dim=-1)


encoder = Encoder().cuda()
temperature = nn.Parameter(torch.tensor(0.5, device="cuda"))
optimizer = torch.optim.Adam([*encoder.parameters(), temperature], lr=1e-4)
scaler = torch.amp.GradScaler("cuda", init_scale=128.0)
for step in range(3):
    x = torch.randn(10, 20, device="cuda")
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        first, second = encoder(x), encoder(x + 0.1 * torch.randn_like(x))
        with torch.autocast("cuda", enabled=False):
            similarity = first @ second.t() / temperature
        chances = similarity.softmax(dim=-1)
        loss = -StableLog.apply(chances.diagonal().half().clamp(max=0.9)).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
