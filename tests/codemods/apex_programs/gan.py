"""Two models, two optimizers and three losses."""

import torch
from apex import amp
from torch import nn

torch.manual_seed(0)
netG = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
netD = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
optimizerD = torch.optim.Adam(netD.parameters(), lr=1e-3)
optimizerG = torch.optim.Adam(netG.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()
[netD, netG], [optimizerD, optimizerG] = amp.initialize(
    [netD, netG], [optimizerD, optimizerG], opt_level="O1", num_losses=3
)
real = torch.randn(32, 8)
losses = []
for _ in range(50):
    netD.zero_grad()
    output = netD(real)
    errD_real = criterion(output, torch.ones(32, 1))
    with amp.scale_loss(errD_real, optimizerD, loss_id=0) as errD_real_scaled:
        errD_real_scaled.backward()
    fake = netG(torch.randn(32, 4))
    output = netD(fake.detach())
    errD_fake = criterion(output, torch.zeros(32, 1))
    with amp.scale_loss(errD_fake, optimizerD, loss_id=1) as errD_fake_scaled:
        errD_fake_scaled.backward()
    optimizerD.step()

    netG.zero_grad()
    output = netD(fake)
    errG = criterion(output, torch.ones(32, 1))
    with amp.scale_loss(errG, optimizerG, loss_id=2) as errG_scaled:
        errG_scaled.backward()
    optimizerG.step()
    losses.append(errG.item())
