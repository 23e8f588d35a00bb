"""Several labels for each example: the model ends in a sigmoid, BCELoss trains it, a threshold tells the labels."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

losses = []
THRESHOLD = 0.5


class Tags(Dataset):
    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.x = torch.randn(count, 8, generator=generator)
        self.y = torch.stack([self.x[:, :4].sum(1) > 0, self.x[:, 2] > 0.3, self.x[:, 5:].prod(1) > 0], 1).float()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {"features": self.x[index], "tags": self.y[index]}


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(8, 24)
        self.out = nn.Linear(24, 3)

    def forward(self, features):
        x = torch.relu(self.hidden(features))
        return torch.sigmoid(self.out(x))


def train_epoch(model, loader, criterion, optimizer):
    model.train()
    for batch in loader:
        optimizer.zero_grad()
        predicted = model(batch["features"])
        loss = criterion(predicted, batch["tags"])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


def f1_score(model, loader):
    model.eval()
    true_positives = predicted_positives = positives = 0
    with torch.no_grad():
        for batch in loader:
            predicted = model(batch["features"]) > THRESHOLD
            tags = batch["tags"] > 0
            true_positives += (predicted & tags).sum().item()
            predicted_positives += predicted.sum().item()
            positives += tags.sum().item()
    return 2 * true_positives / max(predicted_positives + positives, 1)


torch.manual_seed(23)
model = Tagger()
criterion = nn.BCELoss()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
train_loader = DataLoader(Tags(320, 1), batch_size=32, shuffle=True)
test_loader = DataLoader(Tags(64, 2), batch_size=32)
for epoch in range(5):
    train_epoch(model, train_loader, criterion, optimizer)
    print(f"epoch {epoch}: F1 {f1_score(model, test_loader):.3f}")
