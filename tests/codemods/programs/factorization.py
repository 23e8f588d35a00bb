"""Ratings are explained by factors of users and items: sparse tables, biases, a penalty, a loop that ends by itself."""

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, Dataset

losses = []
USERS, ITEMS = 20, 15


class Ratings(Dataset):
    def __init__(self, seed):
        rng = torch.Generator().manual_seed(seed)
        taste, kind = torch.randn(USERS, 2, generator=rng), torch.randn(ITEMS, 2, generator=rng)
        self.rows = [(u, i, (taste[u] @ kind[i]).item()) for u in range(USERS) for i in range(ITEMS) if (u + i) % 2]

    def __getitem__(self, index):
        user, item, rating = self.rows[index]
        return user, item, torch.tensor(rating)

    def __len__(self):
        return len(self.rows)


class Factors(nn.Module):
    def __init__(self, rank=6):
        super().__init__()
        self.users = nn.Embedding(USERS, rank)
        self.items = nn.Embedding(ITEMS, rank)
        self.user_bias = nn.Embedding(USERS, 1)
        self.mix = nn.Linear(rank, rank, bias=False)
        for table in (self.users, self.items, self.user_bias):
            nn.init.normal_(table.weight, std=0.3)

    def forward(self, user, item):
        return (self.mix(self.users(user)) * self.items(item)).sum(1) + self.user_bias(user).squeeze(1)

    def penalty(self):
        return sum(p.pow(2).sum() for p in self.parameters())


class Model:
    """What a notebook would call fit() and predict() of."""

    def __init__(self, max_steps=50, weight=1e-4):
        self.net = Factors()
        self.opt = optim.Adamax(self.net.parameters(), lr=0.02)
        self.max_steps = max_steps
        self.weight = weight

    def fit(self, dataset):
        loader = DataLoader(dataset, batch_size=30, shuffle=True)
        done = 0
        while True:
            for user, item, rating in loader:
                if done == self.max_steps:
                    return self
                self.opt.zero_grad()
                predicted = self.net(user, item)
                mse = nn.functional.mse_loss(predicted, rating)
                loss = mse + self.weight * self.net.penalty()
                loss.backward()
                self.opt.step()
                losses.append(loss.item())
                done += 1

    def predict(self, user, item):
        self.net.eval()
        with torch.no_grad():
            return self.net(torch.tensor([user]), torch.tensor([item])).item()


torch.manual_seed(59)
model = Model().fit(Ratings(60))
print(model.predict(3, 4))
