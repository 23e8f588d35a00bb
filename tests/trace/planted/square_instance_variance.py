"""A style-transfer CNN fed with raw pixels, whose own instance norm asks for a variance that half cannot hold.

Repaired: `variance = features.float().var(dim=(2, 3), unbiased=False, keepdim=True)`
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def instance_norm(features, weight, bias, eps=1e-3):
    mean = features.mean(dim=(2, 3), keepdim=True)
    variance = features.var(dim=(2, 3), unbiased=False, keepdim=True)  # culprit
    normalised = (features - mean) / (variance + eps).sqrt()
    return normalised * weight[:, None, None] + bias[:, None, None]


class Stage(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, 3, stride, padding=1)
        self.weight, self.bias = nn.Parameter(torch.ones(outputs)), nn.Parameter(torch.zeros(outputs))

    def forward(self, images):
        return F.relu(instance_norm(self.convolution(images), self.weight, self.bias))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Stage(3, 8)
        self.down = nn.Sequential(nn.Conv2d(8, 16, 3, 2, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.middle = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.out = nn.Conv2d(16, 3, 1)

    def forward(self, images):
        stem = self.stem(images)
        low = self.down(stem)
        low = low + self.middle(low)
        return torch.sigmoid(self.out(torch.cat([stem, F.relu(self.up(low))], dim=1)))


network = Network().to("cuda")
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
scaler = torch.cuda.amp.GradScaler(init_scale=128.0)
for step in range(3):
    images = torch.randint(0, 2, (2, 3, 16, 16), device="cuda").float() * 2047.0  # 12-bit sensor values
    targets = images / 2047.0
    optimizer.zero_grad()
    with torch.cuda.amp.autocast():
        outputs = network(images)
        loss = F.l1_loss(outputs, targets)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
