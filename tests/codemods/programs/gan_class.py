"""A GAN as a class whose methods compute, differentiate and step apart from each other."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

losses = []


class PairModel:
    def __init__(self):
        self.netG = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4))
        self.netD = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
        self.criterionGAN = nn.BCEWithLogitsLoss()
        self.criterionL1 = nn.L1Loss()
        self.optimizer_G = torch.optim.Adam(self.netG.parameters(), lr=2e-3)
        self.optimizer_D = torch.optim.Adam(self.netD.parameters(), lr=2e-3)
        self.optimizers = [self.optimizer_G, self.optimizer_D]

    def set_input(self, real_A):
        self.real_A = real_A
        self.real_B = real_A.flip(1)

    def forward(self):
        self.fake_B = self.netG(self.real_A)

    def backward_D(self):
        pred_fake = self.netD(torch.cat((self.real_A, self.fake_B), 1).detach())
        self.loss_D_fake = self.criterionGAN(pred_fake, torch.zeros_like(pred_fake))
        pred_real = self.netD(torch.cat((self.real_A, self.real_B), 1))
        self.loss_D_real = self.criterionGAN(pred_real, torch.ones_like(pred_real))
        self.loss_D = (self.loss_D_fake + self.loss_D_real) * 0.5
        self.loss_D.backward()

    def backward_G(self):
        pred_fake = self.netD(torch.cat((self.real_A, self.fake_B), 1))
        self.loss_G_GAN = self.criterionGAN(pred_fake, torch.ones_like(pred_fake))
        self.loss_G_L1 = self.criterionL1(self.fake_B, self.real_B) * 10
        self.loss_G = self.loss_G_GAN + self.loss_G_L1
        self.loss_G.backward()

    def optimize_parameters(self):
        self.forward()
        self.optimizer_D.zero_grad()
        self.backward_D()
        self.optimizer_D.step()
        self.optimizer_G.zero_grad()
        self.backward_G()
        self.optimizer_G.step()


def main():
    torch.manual_seed(10)
    model = PairModel()
    images = TensorDataset(torch.randn(1600, 4))
    for (real,) in DataLoader(images, batch_size=32):
        model.set_input(real)
        model.optimize_parameters()
        losses.append(model.loss_D.item() + model.loss_G.item())


if __name__ == "__main__":
    main()
