"""Images are enlarged; argparse, PSNR on held-out images, the best weights and the last state are saved, --resume."""

import argparse
import math
import os

import torch
import torch.nn as nn
import torch.optim as optim

losses = []


class Enlarger(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 5, padding=2)
        self.conv2 = nn.Conv2d(16, 8, 3, padding=1)
        self.conv3 = nn.Conv2d(8, factor**2, 3, padding=1)
        self.shuffle = nn.PixelShuffle(factor)

    def forward(self, x):
        x = torch.tanh(self.conv1(x))
        x = torch.tanh(self.conv2(x))
        return self.shuffle(self.conv3(x))


def images(seed, factor, count=8):
    rng = torch.Generator().manual_seed(seed)
    waves = torch.rand(count, 2, 1, 1, generator=rng) * 0.6
    rows, columns = torch.arange(16.0)[:, None], torch.arange(16.0)[None]
    large = torch.sin(rows * waves[:, :1] + columns * waves[:, 1:])
    return nn.functional.avg_pool2d(large, factor), large


def train(args, net, device, optimizer, criterion, epoch):
    total = 0
    for iteration in range(args.iterations):
        small, large = images(epoch * 100 + iteration, args.factor)
        small, large = small.to(device), large.to(device)
        optimizer.zero_grad()
        loss = criterion(net(small), large)
        total += loss.item()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"===> epoch {epoch}: average loss {total / args.iterations:.4f}")


def psnr(args, net, device, criterion):
    total = 0
    with torch.no_grad():
        for seed in range(2):
            small, large = images(9000 + seed, args.factor)
            prediction = net(small.to(device))
            mse = criterion(prediction, large.to(device))
            total += 10 * math.log10(1 / mse.item())
    return total / 2


def save(path, net, optimizer, epoch, best):
    state = {"epoch": epoch, "best": best, "net": net.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, path)


def main():
    parser = argparse.ArgumentParser(description="Super resolution")
    parser.add_argument("--factor", type=int, default=2, help="how much larger")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--folder", default=".")
    parser.add_argument("--stop-after", type=int, default=None, help="epochs in this run")
    parser.add_argument("--resume", metavar="PATH", help="a checkpoint to go on from")
    opt = parser.parse_args()

    torch.manual_seed(61)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = Enlarger(opt.factor).to(device)
    criterion = nn.MSELoss()
    optimizer = optim.Adam(net.parameters(), lr=opt.lr)
    start, best = 0, 0.0
    if opt.resume:
        checkpoint = torch.load(opt.resume, map_location=device)
        start, best = checkpoint["epoch"], checkpoint["best"]
        net.load_state_dict(checkpoint["net"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    for epoch in range(start, opt.epochs):
        if opt.stop_after is not None and epoch == opt.stop_after:
            break
        train(opt, net, device, optimizer, criterion, epoch)
        quality = psnr(opt, net, device, criterion)
        if quality > best:
            best = quality
            torch.save(net.state_dict(), os.path.join(opt.folder, "best.pt"))
        save(os.path.join(opt.folder, "checkpoint.pt"), net, optimizer, epoch + 1, best)


if __name__ == "__main__":
    main()
