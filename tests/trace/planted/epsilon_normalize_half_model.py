"""A half encoder whose features are normalised by F.normalize: its 1e-12 is 0 in half, and empty images are NaN.

Repaired: `directions = F.normalize(features.float(), dim=-1).to(features.dtype)`
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class FrozenEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(1, 16, 4, stride=4, bias=False)
        self.mix = nn.Linear(16, 32, bias=False)

    @torch.no_grad()
    def forward(self, images):
        patches = self.patches(images.half()).flatten(2).transpose(1, 2)
        return F.relu(self.mix(patches)).mean(dim=1)


class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(32, 48), nn.Linear(48, 5)
        self.norm, self.drop = nn.BatchNorm1d(48), nn.Dropout(0.1)

    def forward(self, features):
        return self.outer(self.drop(F.relu(self.norm(self.inner(features)))))


encoder, probe = FrozenEncoder().cuda().half().eval(), Probe().cuda()
optimizer = torch.optim.Adam(probe.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
for step in range(3):
    images = torch.rand(8, 1, 16, 16, device="cuda")
    images[5] = 0.0  # a blank scan
    labels = torch.randint(0, 5, (8,), device="cuda")
    features = encoder(images)
    directions = F.normalize(features, dim=-1)  # culprit
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = F.cross_entropy(probe(directions), labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
