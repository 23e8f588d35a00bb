"""Metric learning: embeddings are normalised by hand, and large ones become 0 because their squares are inf.

Repaired: `squares = embeddings.float() * embeddings.float()`
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
CLASSES, WIDTH = 10, 32


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(20, 64),
            nn.BatchNorm1d(64),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(64, 64),
            nn.BatchNorm1d(64),
            nn.ReLU(),
        )
        self.project = nn.Linear(64, WIDTH, bias=False)
        nn.init.normal_(self.project.weight, std=60.0)

    def forward(self, inputs):
        return self.project(self.body(inputs))


class NormalisedSoftmaxLoss(nn.Module):
    def __init__(self, temperature=0.1):
        super().__init__()
        self.proxies = nn.Parameter(torch.randn(CLASSES, WIDTH))
        self.temperature = temperature

    def forward(self, embeddings, labels):
        proxies = F.normalize(self.proxies)
        squares = embeddings * embeddings  # culprit
        lengths = squares.sum(dim=1, keepdim=True).sqrt()
        directions = embeddings / lengths
        similarities = directions @ proxies.t()
        return F.cross_entropy(similarities / self.temperature, labels)


encoder, criterion = Encoder().cuda(), NormalisedSoftmaxLoss().cuda()
parameters = [*encoder.parameters(), *criterion.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.01, momentum=0.9)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
for step in range(3):
    labels = torch.randint(0, CLASSES, (16,), device="cuda")
    inputs = torch.randn(16, 20, device="cuda") + labels[:, None]
    optimizer.zero_grad()
    with torch.autocast(device_type="cuda", dtype=torch.float16):
        embeddings = encoder(inputs)
        loss = criterion(embeddings, labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(step, loss.item())
