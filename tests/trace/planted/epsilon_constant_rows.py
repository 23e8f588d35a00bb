"""Time series are standardised inside of the model: a channel that does not move has variance 0 and no epsilon.

Repaired: `stable = variance.float() + 1e-12`
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def standardise(series):
    centre = series.mean(dim=-1, keepdim=True)
    variance = series.var(dim=-1, keepdim=True)
    stable = variance + 1e-12  # culprit
    return (series - centre) * torch.rsqrt(stable)


class Forecaster(nn.Module):
    def __init__(self, channels=6, width=32):
        super().__init__()
        self.smooth = nn.Conv1d(channels, channels, 3, padding=1, groups=channels, bias=False)
        nn.init.constant_(self.smooth.weight, 0.25).requires_grad_(False)
        self.mix = nn.Conv1d(channels, width, 5, padding=2)
        self.gate = nn.Conv1d(channels, width, 5, padding=2)
        self.norm = nn.BatchNorm1d(width)
        self.recurrent = nn.LSTM(width, width, batch_first=True)
        self.out = nn.Linear(width, channels)

    def forward(self, series):
        levels = standardise(self.smooth(series)[..., 1:-1])
        hidden = torch.tanh(self.mix(levels)) * torch.sigmoid(self.gate(levels))
        hidden, _ = self.recurrent(self.norm(hidden).transpose(1, 2))
        return self.out(hidden[:, -1])


model = Forecaster().cuda()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
for step in range(3):
    series = torch.randn(4, 6, 22, device="cuda").cumsum(-1)
    series[1, 2] = 3.0  # a sensor that is stuck
    future = torch.randn(4, 6, device="cuda")
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = F.smooth_l1_loss(model(series), future)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
