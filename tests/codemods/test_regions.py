"""Which statements go into autocast regions."""

from __future__ import annotations

from amplint.codemods import Wish, convert


def test_a_forward_pass_without_a_loss_follows_what_it_takes() -> None:
    text = """import torch
from torch import nn

generator, critic = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.Adam(generator.parameters())
for z in [torch.ones(2, 4)]:
    optimizer.zero_grad()
    images = generator(z)
    loss = critic(images).mean()
    loss.backward()
    optimizer.step()
    print("stepped")
    score = critic(images.detach())
    print(score.mean().item())
"""
    conversion = convert(text, Wish(to="amp"))
    assert (conversion.refused, conversion.left) == ((), ())
    assert (
        '    with torch.autocast(device_type="cuda", dtype=torch.float16):\n        score = critic(' in conversion.text
    )
