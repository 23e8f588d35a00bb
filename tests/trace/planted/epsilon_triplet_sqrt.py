"""Triplets of equal images: the forward pass is finite, but the gradient of a root of 0 + 1e-10 in half is not.

Repaired: `guarded = squared.float() + 1e-10`
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.block = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 16)

    def forward(self, images):
        x = F.relu(self.norm(self.stem(images)))
        x = x + F.relu(self.block(x))
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.head(x)


class TripletLoss(nn.Module):
    def __init__(self, margin=0.2):
        super().__init__()
        self.margin = margin

    def distance(self, a, b):
        difference = a - b
        squared = (difference * difference).mean(dim=-1)
        guarded = squared + 1e-10  # culprit
        return guarded.sqrt()

    def forward(self, anchors, positives, negatives):
        near, far = self.distance(anchors, positives), self.distance(anchors, negatives)
        return F.relu(near - far + self.margin).mean()


embedder, criterion = Embedder().to("cuda"), TripletLoss()
optimizer = torch.optim.SGD(embedder.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=1.0)
for step in range(3):
    anchors = torch.randn(6, 3, 12, 12, device="cuda")
    positives = anchors + torch.randn_like(anchors)
    positives[0] = anchors[0]  # the data set holds duplicates
    negatives = torch.randn(6, 3, 12, 12, device="cuda")
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(embedder(anchors), embedder(positives), embedder(negatives))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
