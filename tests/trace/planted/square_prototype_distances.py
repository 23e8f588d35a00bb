"""A prototypical network: squared distances overflow, and the nearest prototypes are inf away like all others.

Repaired: `distances = (differences.float() * differences.float()).mean(dim=-1)`
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
WAYS, SHOTS, QUERIES = 4, 3, 5


def convolutions(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
    )


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(convolutions(1, 8), convolutions(8, 16))
        self.embed = nn.Linear(16 * 4 * 4, 48)

    def forward(self, images):
        features = self.layers(images).flatten(1)
        return self.embed(features) * 400.0


def episode_loss(backbone, support, query, labels):
    prototypes = backbone(support).view(WAYS, SHOTS, -1).mean(dim=1)
    embedded = backbone(query)
    differences = embedded[:, None, :] - prototypes[None, :, :]
    distances = (differences * differences).mean(dim=-1)  # culprit
    return F.cross_entropy(-distances / 1e4, labels)


backbone = Backbone().cuda()
optimizer = torch.optim.SGD(backbone.parameters(), lr=1e-4)
scaler = torch.cuda.amp.GradScaler(init_scale=32.0)
patterns = torch.randn(WAYS, 1, 16, 16, device="cuda")
for step in range(3):
    support = patterns.repeat_interleave(SHOTS, 0) + 0.3 * torch.randn(WAYS * SHOTS, 1, 16, 16, device="cuda")
    query = patterns.repeat_interleave(QUERIES, 0) + 0.3 * torch.randn(WAYS * QUERIES, 1, 16, 16, device="cuda")
    labels = torch.arange(WAYS, device="cuda").repeat_interleave(QUERIES)
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda"):
        loss = episode_loss(backbone, support, query, labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
