"""An experiment whose optimizer is made when it is first asked for, and whose model gives its losses in a dict."""

import functools
import threading

import torch
from torch import nn
from torch.nn import functional as F

losses = []


class VAE(nn.Module):
    def __init__(self, size=12, latent=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(size, 32), nn.ReLU())
        self.mu = nn.Linear(32, latent)
        self.logvar = nn.Linear(32, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, 32), nn.ReLU(), nn.Linear(32, size))

    def forward(self, x):
        hidden = self.encoder(x)
        mu, logvar = self.mu(hidden), self.logvar(hidden)
        z = mu + 0.5 * torch.exp(0.5 * logvar)
        return self.decoder(z), mu, logvar

    def training_losses(self, x):
        recon, mu, logvar = self(x)
        recon_loss = F.mse_loss(recon, x)
        kl = -0.5 * torch.mean(1 + logvar - mu.pow(2) - logvar.exp())
        return {"loss": recon_loss + 0.01 * kl, "recon": recon_loss.detach(), "kl": kl.detach()}


class Experiment:
    def __init__(self, model, lr):
        self.model = model
        self.lr = lr
        self.model.train()
        self._lock = threading.RLock()

    @functools.cached_property
    def optimizer(self):
        return torch.optim.Adam(self.model.parameters(), lr=self.lr)

    def log(self, values):
        self.last = {key: value.item() for key, value in values.items()}

    def fit(self, batches, epochs):
        for _ in range(epochs):
            for batch in batches:
                with self._lock:
                    terms = self.model.training_losses(batch)
                    self.log(terms)
                    self.optimizer.zero_grad()
                    terms["loss"].backward()
                    self.optimizer.step()
                losses.append(self.last["loss"])


torch.manual_seed(5)
Experiment(VAE(), lr=2e-3).fit([torch.rand(16, 12) for _ in range(10)], epochs=5)
