"""Two towers compared by a cosine that is written by hand: dot products overflow before lengths divide them.

Repaired: `dots = (image.float()[:, None] * text.float()[None]).sum(dim=-1)`
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
WIDTH = 256


def tower(inputs):
    return nn.Sequential(nn.Linear(inputs, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, WIDTH))


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = tower(48), tower(32)
        self.gain = nn.Parameter(torch.full((WIDTH,), 30.0))

    def forward(self, images, texts):
        return self.image(images) * self.gain, self.text(texts) * self.gain


def cosine_matrix(image, text):
    dots = torch.einsum("id,jd->ij", image, text)  # culprit
    image_lengths = torch.linalg.vector_norm(image, dim=-1)
    text_lengths = torch.linalg.vector_norm(text, dim=-1)
    return dots / (image_lengths[:, None] * text_lengths[None, :])


model = TwoTowers().cuda()
with torch.no_grad():
    model.text[3].weight[:, :64] = model.image[3].weight[:, :64]  # both towers have learned much the same
    model.image[3].bias.fill_(0.8)
    model.text[3].bias.fill_(0.8)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cuda", init_scale=64.0)
for step in range(3):
    images, texts = torch.randn(8, 48, device="cuda"), torch.randn(8, 32, device="cuda")
    labels = torch.arange(8, device="cuda")
    with torch.autocast("cuda"):
        image, text = model(images, texts)
        similarity = cosine_matrix(image, text) / 0.07
        loss = 0.5 * F.cross_entropy(similarity, labels)
        loss = loss + 0.5 * F.cross_entropy(similarity.t(), labels)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
