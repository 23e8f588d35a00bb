"""A Wasserstein GAN with a gradient penalty; the critic steps more often than the generator."""

import torch
import torch.nn as nn
from torch import autograd

losses = []


class Generator(nn.Module):
    def __init__(self, latent=4):
        super().__init__()
        self.latent = latent
        self.main = nn.Sequential(nn.Linear(latent, 32), nn.ReLU(True), nn.Linear(32, 2))

    def forward(self, z):
        return self.main(z)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(2, 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.main(x).view(-1)


class WGAN:
    def __init__(self, generator, critic, g_optimizer, d_optimizer, weight=5.0, critic_steps=4):
        self.G, self.G_opt = generator, g_optimizer
        self.D, self.D_opt = critic, d_optimizer
        self.weight = weight
        self.critic_steps = critic_steps
        self.num_steps = 0
        self.log = {"D": [], "GP": [], "G": []}

    def sample(self, count):
        return self.G(torch.randn(count, self.G.latent))

    def _gradient_penalty(self, real, fake):
        alpha = real.new_empty(real.size(0), 1).uniform_()
        mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
        scores = self.D(mixed)
        gradients = autograd.grad(
            outputs=scores,
            inputs=mixed,
            grad_outputs=torch.ones_like(scores),
            create_graph=True,
            retain_graph=True,
        )[0]
        norm = torch.sqrt(torch.sum(gradients**2, dim=1) + 1e-12)
        return self.weight * ((norm - 1) ** 2).mean()

    def _critic_iteration(self, real):
        fake = self.sample(len(real)).detach()
        d_real = self.D(real)
        d_fake = self.D(fake)
        penalty = self._gradient_penalty(real, fake)
        self.D_opt.zero_grad()
        d_loss = d_fake.mean() - d_real.mean() + penalty
        d_loss.backward()
        self.D_opt.step()
        self.log["GP"].append(penalty.item())
        self.log["D"].append(d_loss.item())
        return d_loss.item()

    def _generator_iteration(self, count):
        self.G_opt.zero_grad()
        g_loss = -self.D(self.sample(count)).mean()
        g_loss.backward()
        self.G_opt.step()
        self.log["G"].append(g_loss.item())

    def train(self, batches):
        for real in batches:
            self.num_steps += 1
            losses.append(self._critic_iteration(real))
            if self.num_steps % self.critic_steps == 0:
                self._generator_iteration(len(real))


if __name__ == "__main__":
    torch.manual_seed(12)
    G, D = Generator(), Critic()
    opt_g = torch.optim.Adam(G.parameters(), lr=5e-4, betas=(0.5, 0.9))
    opt_d = torch.optim.Adam(D.parameters(), lr=5e-4, betas=(0.5, 0.9))
    data = torch.randn(50, 32, 2) * torch.tensor([1.0, 0.3]) + torch.tensor([0.5, -0.5])
    WGAN(G, D, opt_g, opt_d).train(data)
