"""A trainer that calls back: OneCycleLR after each batch, gradient norms and accuracies are logged."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

losses = []


class Callback:
    def on_batch_end(self, trainer, loss):
        pass

    def on_epoch_end(self, trainer):
        pass


class Recorder(Callback):
    def on_batch_end(self, trainer, loss):
        losses.append(loss)


class Evaluate(Callback):
    def __init__(self, loader):
        self.loader = loader
        self.history = []

    def on_epoch_end(self, trainer):
        self.history.append(trainer.evaluate(self.loader))


class Trainer:
    def __init__(self, model, train_loader, max_lr, epochs, callbacks=()):
        self.model = model
        self.train_loader = train_loader
        self.epochs = epochs
        self.callbacks = list(callbacks)
        self.loss_fn = nn.CrossEntropyLoss(label_smoothing=0.05)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=max_lr / 10, momentum=0.9, nesterov=True)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer,
            max_lr=max_lr,
            epochs=epochs,
            steps_per_epoch=len(train_loader),
        )
        self.grad_norm = None

    def _notify(self, event, *args):
        for callback in self.callbacks:
            getattr(callback, event)(self, *args)

    def _train_batch(self, batch):
        inputs, targets = batch
        logits = self.model(inputs)
        loss = self.loss_fn(logits, targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.grad_norm = nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=2.0).item()
        self.optimizer.step()
        self.scheduler.step()
        return loss.item()

    def fit(self):
        for _ in range(self.epochs):
            self.model.train()
            for batch in self.train_loader:
                loss = self._train_batch(batch)
                self._notify("on_batch_end", loss)
            self._notify("on_epoch_end")

    @torch.no_grad()
    def evaluate(self, loader):
        self.model.eval()
        right = total = 0
        for inputs, targets in loader:
            right += (self.model(inputs).argmax(dim=-1) == targets).sum().item()
            total += targets.numel()
        return right / total


def spirals(count):
    labels = torch.arange(count) % 3
    radius = torch.rand(count)
    angle = radius * 4 + labels * 2.1
    return TensorDataset(torch.stack([radius * angle.sin(), radius * angle.cos()], 1), labels)


torch.manual_seed(41)
train_set, test_set = spirals(320), spirals(96)
network = nn.Sequential(nn.Linear(2, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3))
evaluation = Evaluate(DataLoader(test_set, batch_size=32))
Trainer(network, DataLoader(train_set, batch_size=32, shuffle=True), 0.1, 5, [Recorder(), evaluation]).fit()
