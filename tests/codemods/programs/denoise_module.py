"""A model that brings its own training_step and configure_optimizers; a small loop runs it, saves and resumes."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

losses = []


class DenoisingAutoencoder(nn.Module):
    def __init__(self, size=12, code=6, noise=0.3, lr=4e-3):
        super().__init__()
        self.noise = noise
        self.lr = lr
        self.encoder = nn.Sequential(nn.Linear(size, 24), nn.SELU(), nn.Linear(24, code))
        self.decoder = nn.Sequential(nn.Linear(code, 24), nn.SELU(), nn.Linear(24, size))

    def forward(self, x):
        return self.decoder(self.encoder(x))

    def corrupt(self, x, step):
        generator = torch.Generator().manual_seed(step)
        return x + self.noise * torch.randn(x.shape, generator=generator)

    def training_step(self, batch, step):
        restored = self(self.corrupt(batch, step))
        return F.mse_loss(restored, batch)

    def validation_step(self, batch):
        return F.mse_loss(self(batch), batch)

    def configure_optimizers(self):
        return torch.optim.NAdam(self.parameters(), lr=self.lr)


def data(step):
    generator = torch.Generator().manual_seed(1000 + step)
    phase = torch.rand(32, 1, generator=generator) * 6.28
    return torch.sin(phase + torch.linspace(0, 3.14, 12))


def save_checkpoint(filename, model, optimizer, step):
    torch.save({"step": step, "model_state": model.state_dict(), "optimizer_state": optimizer.state_dict()}, filename)


def load_checkpoint(filename, model, optimizer):
    checkpoint = torch.load(filename, weights_only=True)
    model.load_state_dict(checkpoint["model_state"])
    optimizer.load_state_dict(checkpoint["optimizer_state"])
    return checkpoint["step"]


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--val-every", type=int, default=10)
    parser.add_argument("--stop-after", type=int, help="rounds of --val-every steps in this run")
    parser.add_argument("--resume", default="")
    return parser.parse_args()


def main(args):
    torch.manual_seed(81)
    model = DenoisingAutoencoder()
    optimizer = model.configure_optimizers()
    first = load_checkpoint(args.resume, model, optimizer) if args.resume else 0
    last = args.steps if args.stop_after is None else first + args.stop_after * args.val_every
    for step in range(first, last):
        optimizer.zero_grad()
        loss = model.training_step(data(step), step)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % args.val_every == 0:
            model.eval()
            with torch.no_grad():
                val_loss = model.validation_step(data(5000))
            model.train()
            print(f"{step + 1}: {val_loss.item():.4f}")
            save_checkpoint("checkpoint.pt", model, optimizer, step + 1)


if __name__ == "__main__":
    main(get_args())
