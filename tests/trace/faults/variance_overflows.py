"""The KL term of a VAE takes the exponential of a log-variance that float16 cannot hold."""

import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(32, 16), nn.Linear(8, 32)
with torch.no_grad():
    encoder.bias[8:] = 11.5
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=1e-6)
for step in range(5):
    x = torch.randn(64, 32)
    with torch.autocast("cpu", dtype=torch.float16):
        mean, log_variance = encoder(x).chunk(2, -1)
        # repaired: mean, log_variance = encoder(x).float().chunk(2, -1)
        divergence = mean.square() + log_variance.exp() - 1 - log_variance  # culprit
        noise = torch.randn(64, 8) * 0.01
        restored = decoder(mean + noise)
    loss = (restored.float() - x).square().sum() + 0.1 * divergence.float().sum(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
