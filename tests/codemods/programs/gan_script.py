"""A GAN with two optimizers and several losses, as a script."""

import torch
from torch import nn

torch.manual_seed(0)
losses = []
device = "cuda" if torch.cuda.is_available() else "cpu"
nz = 8

netG = nn.Sequential(nn.Linear(nz, 32), nn.ReLU(), nn.Linear(32, 16)).to(device)
netD = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)).to(device)

criterion = nn.BCEWithLogitsLoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))

for step in range(50):
    # (1) Update the discriminator
    netD.zero_grad()
    real = torch.randn(32, 16, device=device) * 0.5 + 1
    label = torch.ones(32, device=device)
    output = netD(real).view(-1)
    errD_real = criterion(output, label)
    errD_real.backward()

    noise = torch.randn(32, nz, device=device)
    fake = netG(noise)
    label.fill_(0)
    output = netD(fake.detach()).view(-1)
    errD_fake = criterion(output, label)
    errD_fake.backward()
    errD = errD_real + errD_fake
    optimizerD.step()

    # (2) Update the generator
    netG.zero_grad()
    label.fill_(1)
    output = netD(fake).view(-1)
    errG = criterion(output, label)
    errG.backward()
    optimizerG.step()

    losses.append(errD.item() + errG.item())
