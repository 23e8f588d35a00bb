"""A GAN: two optimizers, one scaler, discriminator and generator in turn, gradient penalty in float32."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16), nn.Tanh()).cuda()
critic = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2)).cuda()
score = nn.Linear(32, 1).cuda()
of_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
of_critic = torch.optim.Adam([*critic.parameters(), *score.parameters()], lr=2e-4, betas=(0.5, 0.999))
scaler = torch.amp.GradScaler("cuda", init_scale=512.0)


def penalty(real, fake):
    with torch.autocast("cuda", enabled=False):
        share = torch.rand(real.shape[0], 1, device="cuda")
        between = (share * real + (1 - share) * fake.float()).requires_grad_()
        judged = score(critic(between))
        (gradient,) = torch.autograd.grad(judged.sum(), between, create_graph=True)
        return (gradient.norm(dim=1) - 1).square().mean()


for step in range(3):
    real, noise = torch.randn(8, 16, device="cuda").tanh(), torch.randn(8, 8, device="cuda")
    of_critic.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        fake = generator(noise)
        on_real, on_fake = score(critic(real)), score(critic(fake.detach()))
        loss = F.relu(1.0 - on_real).mean() + F.relu(1.0 + on_fake).mean()
        loss = loss + 10.0 * penalty(real, fake.detach())
    scaler.scale(loss).backward()
    scaler.step(of_critic)
    of_generator.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = -score(critic(generator(noise))).mean()
    scaler.scale(loss).backward()
    scaler.step(of_generator)
    scaler.update()
