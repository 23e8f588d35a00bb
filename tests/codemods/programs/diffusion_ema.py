"""Diffusion: noise is predicted, a moving average of the weights makes the samples. Runs by steps, not by epochs."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

losses = []
T = 32


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for mine, theirs in zip(self.shadow.parameters(), model.parameters()):
            mine.lerp_(theirs, 1 - self.decay)


class Denoiser(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.time = nn.Embedding(T, width)
        self.enter = nn.Linear(2, width)
        self.body = nn.Sequential(nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2))

    def forward(self, x, t):
        return self.body(self.enter(x) + self.time(t))


def cycle(loader):
    while True:
        yield from loader


class Diffusion:
    def __init__(self, device):
        self.device = device
        beta = torch.linspace(1e-3, 0.2, T, device=device)
        self.alpha = 1 - beta
        self.alpha_bar = torch.cumprod(self.alpha, 0)

    def noised(self, x, t, noise):
        kept = self.alpha_bar[t][:, None]
        return kept.sqrt() * x + (1 - kept).sqrt() * noise

    @torch.no_grad()
    def sample(self, model, count):
        x = torch.randn(count, 2, device=self.device)
        for t in reversed(range(T)):
            steps = torch.full((count,), t, device=self.device)
            guess = model(x, steps)
            x = (x - (1 - self.alpha[t]) / (1 - self.alpha_bar[t]).sqrt() * guess) / self.alpha[t].sqrt()
            if t > 0:
                x = x + (1 - self.alpha[t]).sqrt() * torch.randn_like(x)
        return x


def main(total=50, lr=2e-3, decay=0.95):
    torch.manual_seed(33)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    angle = torch.rand(256) * 6.28
    data = TensorDataset(torch.stack([angle.cos(), angle.sin()], 1))
    batches = cycle(DataLoader(data, batch_size=64, shuffle=True, drop_last=True))
    diffusion = Diffusion(device)
    model = Denoiser().to(device)
    ema = EMA(model, decay)
    opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-4)

    step = 0
    while step < total:
        (x,) = next(batches)
        x = x.to(device)
        t = torch.randint(0, T, (len(x),), device=device)
        noise = torch.randn_like(x)
        predicted = model(diffusion.noised(x, t, noise), t)
        loss = nn.functional.mse_loss(predicted, noise)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        ema.update(model)
        losses.append(loss.detach().item())
        step += 1

    points = diffusion.sample(ema.shadow, 16)
    print("radius", points.norm(dim=1).mean().item())


main()
