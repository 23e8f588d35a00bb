"""A style loss: the Gram matrix sums squares over all pixels before it is divided by their number.

Repaired: `gram = torch.bmm(flat / (height * width), flat.transpose(1, 2)).float() * (height * width)`
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 12, 5, padding=2)
        self.second = nn.Conv2d(12, 24, 3, padding=1)
        for parameter in self.parameters():
            parameter.requires_grad_(False)

    def forward(self, images):
        first = F.relu(self.first(images))
        second = F.relu(self.second(F.avg_pool2d(first, 2)))
        return [first, second]


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 16, 4, 2, 1)
        self.norm = nn.GroupNorm(4, 16)
        self.body = nn.Conv2d(16, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 3, 4, 2, 1)

    def forward(self, images):
        hidden = F.relu(self.norm(self.down(images)))
        hidden = hidden + F.relu(self.body(hidden))
        return torch.tanh(self.up(hidden)) * 127.5 + 127.5


def gram_matrix(features):
    batch, channels, height, width = features.shape
    flat = features.reshape(batch, channels, height * width)
    gram = torch.bmm(flat, flat.transpose(1, 2))  # culprit
    return gram / (channels * height * width)


features, generator = Features().cuda(), Generator().cuda()
optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda", init_scale=64.0)
style = torch.rand(1, 3, 24, 24, device="cuda") * 255.0
with torch.no_grad():
    targets = [gram_matrix(layer) for layer in features(style)]
for step in range(3):
    content = torch.rand(2, 3, 24, 24, device="cuda")
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        image = generator(content)
        loss = 1e-3 * F.l1_loss(image / 255.0, content)
        for layer, target in zip(features(image), targets, strict=True):
            loss = loss + 1e-2 * F.mse_loss(gram_matrix(layer), target.expand(2, -1, -1))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
