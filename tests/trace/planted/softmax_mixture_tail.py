"""A mixture of softmaxes that is made in half: words that are rare in all components get a third too much or nothing.

Repaired: `components = F.softmax(logits.float(), dim=-1)`
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
VOCABULARY, WIDTH, EXPERTS = 400, 32, 3


class MixtureOfSoftmaxes(nn.Module):
    def __init__(self):
        super().__init__()
        self.prior = nn.Linear(WIDTH, EXPERTS)
        self.latent = nn.Linear(WIDTH, EXPERTS * WIDTH)
        self.decoder = nn.Linear(WIDTH, VOCABULARY)
        with torch.no_grad():
            self.decoder.bias[: VOCABULARY // 2] = 15.5

    @torch.autocast("cuda", enabled=False)
    def distribution(self, logits, prior):
        components = F.softmax(logits, dim=-1)  # culprit
        mixed = (prior.float().unsqueeze(-1) * components.float()).sum(dim=-2)
        return mixed

    def forward(self, hidden):
        latent = torch.tanh(self.latent(hidden)).unflatten(-1, (EXPERTS, WIDTH))
        prior = F.softmax(self.prior(hidden), dim=-1)
        return self.distribution(self.decoder(latent), prior)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layer = nn.TransformerEncoderLayer(WIDTH, 2, 64, dropout=0.0, batch_first=True)
        self.output = MixtureOfSoftmaxes()

    def forward(self, words):
        return self.output(self.layer(self.embed(words)))


model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
for step in range(3):
    words = torch.randint(0, VOCABULARY, (3, 9), device="cuda")
    with torch.autocast("cuda"):
        likelihood = model(words).clamp(min=1e-12)
        loss = F.nll_loss(likelihood.log().flatten(0, 1), words.flatten())
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    scaler.step(optimizer)
    scaler.update()
