"""A trainer whose method trains on one batch, called from the loop of another method."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = 4


class Trainer:
    def __init__(self, model, data):
        self.model = model
        self.loader = DataLoader(data, batch_size=BATCH)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=52)
        self.running = 0.0

    def train_step(self, x, y):
        self.model.train()
        logits = self.model(x)
        loss = self.criterion(logits, y)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=0.5)
        self.optimizer.step()
        return loss.item()

    def fit(self, epochs):
        for epoch in range(epochs):
            for step, (x, y) in enumerate(self.loader):
                self.running += self.train_step(x, y)
                self.scheduler.step()
                if step % 10 == 0:
                    print(epoch, step, self.running)


torch.manual_seed(0)
inputs = torch.randn(52, 5)
Trainer(nn.Linear(5, 4), TensorDataset(inputs, inputs[:, :4].argmax(1))).fit(13)
