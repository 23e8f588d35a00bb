"""Two steps of a residual network under float16 autocast, with a scaler, momentum and a DataLoader with workers."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + x)


def main() -> None:
    blocks = [Block(128) for _ in range(4)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)]
    model = nn.Sequential(nn.Conv2d(3, 128, 3, padding=1), nn.Sequential(*blocks), *head)
    model.to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    images = TensorDataset(torch.randn(128, 3, 64, 64), torch.randint(0, 10, (128,)))
    for data, target in DataLoader(images, batch_size=64, num_workers=1, pin_memory=True):
        data, target = data.to("cuda", non_blocking=True), target.to("cuda", non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(data), target)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    print(torch.cuda.max_memory_allocated())


if __name__ == "__main__":
    main()
