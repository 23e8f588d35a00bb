"""A variational autoencoder whose loss is a function of its own, with the loss summed over the batch."""

import torch
from torch import nn, optim
from torch.nn import functional as F

losses = []


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(32, 24)
        self.mu = nn.Linear(24, 4)
        self.logvar = nn.Linear(24, 4)
        self.fc3 = nn.Linear(4, 24)
        self.fc4 = nn.Linear(24, 32)

    def forward(self, x):
        h = F.relu(self.fc1(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.exp(0.5 * logvar)
        return self.fc4(F.relu(self.fc3(z))), mu, logvar


def loss_function(recon, x, mu, logvar):
    mse = F.mse_loss(recon, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return (mse + kld) / x.size(0)


def train(epoch):
    model.train()
    for batch_idx in range(10):
        data = torch.rand(32, 32, generator=generator)
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


def test(epoch):
    model.eval()
    test_loss = 0
    with torch.no_grad():
        for i in range(2):
            data = torch.rand(32, 32, generator=torch.Generator().manual_seed(i))
            recon_batch, mu, logvar = model(data)
            test_loss += loss_function(recon_batch, data, mu, logvar).item()
    print(f"====> Test set loss: {test_loss:.4f}")


if __name__ == "__main__":
    torch.manual_seed(2)
    generator = torch.Generator().manual_seed(3)
    model = VAE()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(1, 6):
        train(epoch)
        test(epoch)
