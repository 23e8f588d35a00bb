"""Two generators translate back and forth: chained parameters, a history of fakes, decaying rates, resumable."""

import itertools
import random
import sys

import torch
import torch.nn as nn

losses = []


class History:
    def __init__(self, size=20):
        self.size = size
        self.items = []

    def query(self, batch):
        picked = []
        for item in batch.detach():
            if len(self.items) < self.size:
                self.items.append(item)
            picked.append(item)
        return torch.stack(picked)


def mlp(out):
    return nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, out))


def decay(epoch, start=2, total=6):
    return 1.0 - max(0, epoch - start) / (total - start)


def pair(seed):
    rng = torch.Generator().manual_seed(seed)
    a = torch.rand(16, 3, generator=rng)
    b = 1 - torch.rand(16, 3, generator=rng) ** 2
    return a, b


class CycleTrainer:
    def __init__(self, checkpoint):
        self.checkpoint = checkpoint
        self.netG_A2B, self.netG_B2A = mlp(3), mlp(3)
        self.netD_A, self.netD_B = mlp(1), mlp(1)
        self.criterion_gan = nn.MSELoss()
        self.criterion_cycle = nn.L1Loss()
        self.optimizer_G = torch.optim.Adam(
            itertools.chain(self.netG_A2B.parameters(), self.netG_B2A.parameters()), lr=2e-3, betas=(0.5, 0.999)
        )
        self.optimizer_D = torch.optim.Adam(
            itertools.chain(self.netD_A.parameters(), self.netD_B.parameters()), lr=1e-3, betas=(0.5, 0.999)
        )
        self.schedulers = [
            torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=decay)
            for optimizer in (self.optimizer_G, self.optimizer_D)
        ]
        self.epoch = 0

    def generators(self, real_A, real_B):
        fake_B = self.netG_A2B(real_A)
        fake_A = self.netG_B2A(real_B)
        pred_B, pred_A = self.netD_B(fake_B), self.netD_A(fake_A)
        loss_gan = self.criterion_gan(pred_B, torch.ones_like(pred_B))
        loss_gan = loss_gan + self.criterion_gan(pred_A, torch.ones_like(pred_A))
        loss_cycle = self.criterion_cycle(self.netG_B2A(fake_B), real_A)
        loss_cycle = loss_cycle + self.criterion_cycle(self.netG_A2B(fake_A), real_B)
        loss_G = loss_gan + 5.0 * loss_cycle
        self.optimizer_G.zero_grad()
        loss_G.backward()
        self.optimizer_G.step()
        return fake_A.detach(), fake_B.detach(), loss_G.item()

    def discriminator(self, net, real, fake):
        pred_real, pred_fake = net(real), net(fake)
        loss_real = self.criterion_gan(pred_real, torch.ones_like(pred_real))
        loss_fake = self.criterion_gan(pred_fake, torch.zeros_like(pred_fake))
        loss = 0.5 * (loss_real + loss_fake)
        loss.backward()
        return loss.item()

    def train_epoch(self):
        history_A, history_B = History(), History()
        for index in range(10):
            real_A, real_B = pair(self.epoch * 10 + index)
            fake_A, fake_B, loss_G = self.generators(real_A, real_B)
            self.optimizer_D.zero_grad()
            loss_D = self.discriminator(self.netD_A, real_A, history_A.query(fake_A))
            loss_D += self.discriminator(self.netD_B, real_B, history_B.query(fake_B))
            self.optimizer_D.step()
            losses.append(loss_G + loss_D)
        for scheduler in self.schedulers:
            scheduler.step()
        self.epoch += 1

    def save(self):
        state = {name: getattr(self, name).state_dict() for name in ("netG_A2B", "netG_B2A", "netD_A", "netD_B")}
        state["optimizer_G"] = self.optimizer_G.state_dict()
        state["optimizer_D"] = self.optimizer_D.state_dict()
        state["schedulers"] = [scheduler.state_dict() for scheduler in self.schedulers]
        state["epoch"] = self.epoch
        torch.save(state, self.checkpoint)

    def load(self):
        state = torch.load(self.checkpoint)
        for name in ("netG_A2B", "netG_B2A", "netD_A", "netD_B"):
            getattr(self, name).load_state_dict(state[name])
        self.optimizer_G.load_state_dict(state["optimizer_G"])
        self.optimizer_D.load_state_dict(state["optimizer_D"])
        for scheduler, saved in zip(self.schedulers, state["schedulers"]):
            scheduler.load_state_dict(saved)
        self.epoch = state["epoch"]


if __name__ == "__main__":
    random.seed(7)
    torch.manual_seed(7)
    trainer = CycleTrainer("cycle.pt")
    stop = 3 if "--interrupt" in sys.argv else 5
    while trainer.epoch < stop:
        trainer.train_epoch()
    if "--interrupt" in sys.argv:
        trainer.save()
        trainer = CycleTrainer("cycle.pt")
        trainer.load()
        while trainer.epoch < 5:
            trainer.train_epoch()
