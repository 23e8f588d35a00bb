"""Three steps of a small U-Net under bfloat16 autocast with SGD."""

import torch
from torch import nn
from torch.nn import functional as F


def convolutions(inputs: int, outputs: int) -> nn.Sequential:
    """Two convolutions, each with a normalisation and a SiLU."""
    parts: list[nn.Module] = []
    for width in (inputs, outputs):
        parts += [nn.Conv2d(width, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.SiLU()]
    return nn.Sequential(*parts)


class UNet(nn.Module):
    """Three resolutions down and up again, with what was on the way down joined on the way up."""

    def __init__(self) -> None:
        super().__init__()
        widths = [32, 64, 128]
        self.down = nn.ModuleList(convolutions(one, two) for one, two in zip([3, *widths], widths, strict=False))
        self.middle = convolutions(128, 128)
        self.up = nn.ModuleList(convolutions(one + two, two) for one, two in [(128, 128), (128, 64), (64, 32)])
        self.last = nn.Conv2d(32, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, 3, H, W) -> (N, 1, H, W); H and W are multiples of 8."""
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for block in self.up:
            x = block(torch.cat([F.interpolate(x, scale_factor=2.0), kept.pop()], 1))
        return self.last(x)


model = UNet().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for _ in range(3):
    images, masks = torch.rand(16, 3, 128, 128).cuda(), torch.randint(2, (16, 1, 128, 128)).float().cuda()
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        predicted = model(images)
    loss = F.binary_cross_entropy_with_logits(predicted.float(), masks)
    loss.backward()
    optimizer.step()
print(torch.cuda.max_memory_allocated())
