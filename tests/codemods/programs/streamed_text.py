"""A generator that trains and yields what each step comes to, and one that evaluates."""

import torch
from torch import nn

losses = []


class TextCNN(nn.Module):
    def __init__(self, words=50, size=16, classes=4):
        super().__init__()
        self.embedding = nn.Embedding(words, size)
        self.convolutions = nn.ModuleList(nn.Conv1d(size, 8, width, padding=width // 2) for width in (3, 5))
        self.head = nn.Linear(16, classes)

    def forward(self, ids):
        x = self.embedding(ids).transpose(1, 2)
        return self.head(torch.cat([layer(x).relu().amax(-1) for layer in self.convolutions], 1))


def stream(count, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        ids = torch.randint(0, 50, (8, 12), generator=generator)
        yield ids, ids.sum(1) % 4


def training(model, optimizer, criterion, batches):
    """Yield loss and accuracy of each step."""
    model.train()
    for ids, labels in batches:
        logits = model(ids)
        # how many are right
        predictions = logits.detach().argmax(-1)
        accuracy = (predictions == labels).float().mean().item()

        loss = criterion(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item(), accuracy


def evaluation(model, criterion, batches):
    model.eval()
    for ids, labels in batches:
        with torch.no_grad():
            logits = model(ids)
        yield criterion(logits, labels).item()


def main():
    torch.manual_seed(0)
    model = TextCNN()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for epoch in range(5):
        for step, (loss, accuracy) in enumerate(training(model, optimizer, criterion, stream(10, epoch))):
            losses.append(loss)
            if step % 4 == 0:
                print(f"{epoch}:{step} loss={loss:.4f} accuracy={accuracy:.2f}")
        valid = list(evaluation(model, criterion, stream(3, 100)))
        print("valid", sum(valid) / len(valid))


main()
