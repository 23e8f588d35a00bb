"""Classification with functions for training and evaluation, argparse and a scheduler."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

losses = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.fc1 = nn.Linear(8 * 5 * 5, 32)
        self.fc2 = nn.Linear(32, 4)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(x, 2)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        return F.log_softmax(self.fc2(x), dim=1)


def batches(count, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        target = torch.randint(0, 4, (32,), generator=generator)
        data = torch.randn(32, 1, 12, 12, generator=generator) + target.view(-1, 1, 1, 1)
        yield data, target


def train(args, model, device, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(batches(args.batches, epoch)):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if batch_idx % args.log_interval == 0:
            print(f"Train Epoch: {epoch}\tLoss: {loss.item():.6f}")


def test(model, device):
    model.eval()
    test_loss = 0
    correct = 0
    with torch.no_grad():
        for data, target in batches(2, 99):
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()  # sum up batch loss
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    print(f"Test set: Average loss: {test_loss / 64:.4f}, Accuracy: {correct}/64")


def main():
    parser = argparse.ArgumentParser(description="Small images")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--log-interval", type=int, default=10)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net().to(device)
    optimizer = optim.SGD(model.parameters(), lr=args.lr)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.7)
    for epoch in range(1, args.epochs + 1):
        train(args, model, device, optimizer, epoch)
        test(model, device)
        scheduler.step()


if __name__ == "__main__":
    main()
