"""Two views of each example attract and all others repel each other: normalised projections, a temperature, a mask."""

import argparse
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

losses = []


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--temperature", type=float, default=0.5)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--stop-after", type=int)
    p.add_argument("--resume", default=None)
    return p.parse_args()


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 16))
        self.projection = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, x):
        return F.normalize(self.projection(self.backbone(x)), dim=-1)


class NTXent(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, a, b):
        z = torch.cat([a, b])
        similarity = z @ z.t() / self.temperature
        own = torch.eye(len(z), dtype=torch.bool, device=z.device)
        similarity = similarity.masked_fill(own, -9e15)
        partner = torch.arange(len(z), device=z.device).roll(len(a))
        return F.cross_entropy(similarity, partner)


def views(seed, size):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 10, generator=rng)
    return tuple(x + 0.1 * torch.randn(x.shape, generator=rng) for _ in range(2))


def main():
    args = parse()
    torch.manual_seed(3)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Encoder().to(device)
    criterion = NTXent(args.temperature).to(device)
    optimizer = torch.optim.Adam(model.parameters(), args.lr, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs, eta_min=1e-4)
    start_epoch = 0
    if args.resume and os.path.isfile(args.resume):
        ckpt = torch.load(args.resume, map_location="cpu")
        start_epoch = ckpt["epoch"]
        model.load_state_dict(ckpt["state_dict"])
        optimizer.load_state_dict(ckpt["optimizer"])
        scheduler.load_state_dict(ckpt["scheduler"])

    for epoch in range(start_epoch, args.epochs):
        if epoch == args.stop_after:
            return
        for index in range(10):
            first, second = views(epoch * 10 + index, args.batch_size)
            loss = criterion(model(first.to(device)), model(second.to(device)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
        torch.save(
            {
                "epoch": epoch + 1,
                "state_dict": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
            },
            "checkpoint.pt",
        )


if __name__ == "__main__":
    main()
