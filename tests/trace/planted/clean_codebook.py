"""A VQ-VAE: the nearest code can be another one in half, which is no error of a line."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Codebook(nn.Module):
    def __init__(self, codes=32, width=8):
        super().__init__()
        self.codes = nn.Embedding(codes, width)

    def forward(self, latent):
        flat = latent.permute(0, 2, 3, 1)
        distances = torch.cdist(flat.flatten(0, 2).float(), self.codes.weight)
        nearest = distances.argmin(dim=1).view(flat.shape[:3])
        chosen = self.codes(nearest).permute(0, 3, 1, 2)
        loss = F.mse_loss(chosen, latent.detach()) + 0.25 * F.mse_loss(latent, chosen.detach())
        return latent + (chosen - latent).detach(), loss


encoder = nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 8, 3, 1, 1)).cuda()
decoder = nn.Sequential(nn.Conv2d(8, 16, 3, 1, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1)).cuda()
codebook = Codebook().cuda()
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *codebook.parameters()], lr=1e-3)
scaler = torch.amp.GradScaler("cuda", init_scale=2048.0)
for step in range(3):
    images = torch.rand(4, 1, 12, 12, device="cuda")
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        latent, commitment = codebook(encoder(images))
        loss = F.mse_loss(decoder(latent), images) + commitment
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
