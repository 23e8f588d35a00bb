"""Segmentation in a trainer class that clips gradients, validates, saves and resumes."""

import os
import sys
import tempfile

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

losses = []


class UNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))
        self.up = nn.Conv2d(width, 2, 1)

    def forward(self, images):
        return self.up(torch.relu(self.down(images)))


class Trainer:
    def __init__(self, steps, path):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = UNet().to(self.device)
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=steps)
        self.steps = steps
        self.path = path
        self.step = 0

    def batch(self, seed):
        generator = torch.Generator().manual_seed(seed)
        masks = torch.randint(0, 2, (4, 16, 16), generator=generator)
        images = masks[:, None] + 0.3 * torch.randn(4, 1, 16, 16, generator=generator)
        return images.to(self.device), masks.to(self.device)

    def compute_loss(self, images, masks):
        logits = self.model(images)
        return self.criterion(logits, masks)

    def train_step(self):
        images, masks = self.batch(self.step)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.compute_loss(images, masks)
        loss.backward()
        clip_grad_norm_(self.model.parameters(), max_norm=1.0)
        self.optimizer.step()
        self.scheduler.step()
        self.step += 1
        return loss.item()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        images, masks = self.batch(1000)
        logits = self.model(images)
        accuracy = (logits.argmax(1) == masks).float().mean().item()
        self.model.train()
        return accuracy

    def save(self):
        torch.save(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scheduler": self.scheduler.state_dict(),
                "step": self.step,
            },
            self.path,
        )

    def load(self):
        checkpoint = torch.load(self.path, map_location=self.device)
        self.model.load_state_dict(checkpoint["model"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        self.scheduler.load_state_dict(checkpoint["scheduler"])
        self.step = checkpoint["step"]

    def run(self):
        while self.step < self.steps:
            losses.append(self.train_step())
            if self.step % 20 == 0:
                print(f"step {self.step}: accuracy {self.validate():.3f}")
                self.save()
                if "--interrupt" in sys.argv:
                    return


if __name__ == "__main__":
    torch.manual_seed(0)
    folder = tempfile.mkdtemp()
    trainer = Trainer(50, os.path.join(folder, "last.pt"))
    trainer.run()
    if "--interrupt" in sys.argv:
        sys.argv.remove("--interrupt")
        trainer = Trainer(50, trainer.path)
        trainer.load()
        trainer.run()
