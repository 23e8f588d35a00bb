"""A focal loss under bfloat16: a confident probability rounds to 1, and the focus on what is missing to 0.

Repaired: `probability = torch.sigmoid(logits.float())`
"""

import torch
from torch import nn

torch.manual_seed(0)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1),
            nn.BatchNorm2d(16),
            nn.SiLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.SiLU(),
        )
        self.lateral = nn.Conv2d(32, 16, 1)
        self.norm = nn.GroupNorm(4, 16)
        self.score = nn.Conv2d(16, 2, 3, padding=1)
        nn.init.constant_(self.score.bias, 6.5)

    def forward(self, images):
        features = self.backbone(images)
        features = torch.relu(self.norm(self.lateral(features)))
        return self.score(features)


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, alpha=0.25):
        super().__init__()
        self.gamma, self.alpha = gamma, alpha

    def forward(self, logits, targets):
        probability = torch.sigmoid(logits)  # culprit
        missing = torch.where(targets > 0, 1.0 - probability, probability)
        likelihood = torch.where(targets > 0, probability, 1.0 - probability).float()
        weight = torch.where(targets > 0, self.alpha, 1.0 - self.alpha)
        loss = -weight * missing.float().pow(self.gamma) * likelihood.clamp(min=1e-4).log()
        return loss.sum() / targets.sum()


model, criterion = Detector().cuda(), FocalLoss().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for step in range(3):
    images = torch.randn(2, 3, 24, 24, device="cuda")
    targets = torch.ones(2, 2, 6, 6, device="cuda")  # a crowd: all cells hold an object
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(images), targets)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
