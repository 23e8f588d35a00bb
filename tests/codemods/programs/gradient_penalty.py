"""A critic with a gradient penalty that takes several steps for each step of the generator."""

import torch
from torch import autograd, nn, optim

losses = []
LAMBDA = 10
CRITIC_ITERS = 2


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(2, 32), nn.ReLU(True), nn.Linear(32, 2))

    def forward(self, noise):
        return self.main(noise)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, inputs):
        return self.main(inputs).view(-1)


def calc_gradient_penalty(critic, real, fake):
    alpha = torch.rand(real.size(0), 1, dtype=real.dtype).expand(real.size())
    interpolates = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    scores = critic(interpolates)
    gradients = autograd.grad(
        outputs=scores,
        inputs=interpolates,
        grad_outputs=torch.ones(scores.size()),
        create_graph=True,
        retain_graph=True,
    )[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean() * LAMBDA


def main():
    torch.manual_seed(5)
    netG, netD = Generator(), Critic()
    optimizerD = optim.Adam(netD.parameters(), lr=1e-3, betas=(0.5, 0.9))
    optimizerG = optim.Adam(netG.parameters(), lr=1e-3, betas=(0.5, 0.9))
    for iteration in range(50):
        for _ in range(CRITIC_ITERS):
            real = torch.randn(32, 2) * 0.1 + 1
            optimizerD.zero_grad()
            fake = netG(torch.randn(32, 2)).detach()
            penalty = calc_gradient_penalty(netD, real, fake)
            D_cost = netD(fake).mean() - netD(real).mean() + penalty
            D_cost.backward()
            optimizerD.step()
        optimizerG.zero_grad()
        fake = netG(torch.randn(32, 2))
        G_cost = -netD(fake).mean()
        G_cost.backward()
        optimizerG.step()
        losses.append(D_cost.item())


if __name__ == "__main__":
    main()
