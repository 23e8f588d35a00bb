"""Two optimizers and one scaler, by the full names of torch.cuda.amp; the generator is evaluated in half, too."""

import torch
from torch import nn

losses = []


class Pair:
    def __init__(self):
        self.generator = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
        self.critic = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
        self.opt_g = torch.optim.Adam(self.generator.parameters(), lr=1e-3)
        self.opt_d = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.loss = nn.BCEWithLogitsLoss()
        self.scaler = torch.cuda.amp.GradScaler(init_scale=256.0)

    def step(self, real):
        with torch.cuda.amp.autocast():
            fake = self.generator(torch.randn(len(real), 4))
            on_real, on_fake = self.critic(real), self.critic(fake.detach())
            loss_d = self.loss(on_real, torch.ones_like(on_real)) + self.loss(on_fake, torch.zeros_like(on_fake))
        self.opt_d.zero_grad()
        self.scaler.scale(loss_d).backward()
        self.scaler.step(self.opt_d)

        with torch.cuda.amp.autocast():
            judged = self.critic(fake)
            loss_g = self.loss(judged, torch.ones_like(judged))
        self.opt_g.zero_grad()
        self.scaler.scale(loss_g).backward()
        self.scaler.step(self.opt_g)
        self.scaler.update()
        return loss_d.item() + loss_g.item()

    @torch.no_grad()
    @torch.cuda.amp.autocast()
    def sample(self, count):
        return self.generator(torch.randn(count, 4)).float()


torch.manual_seed(6)
pair = Pair()
for _ in range(50):
    losses.append(pair.step(torch.randn(32, 2) * 0.2 + 1))
print(pair.sample(8).mean().item())
