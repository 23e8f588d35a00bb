"""Training and validation in one loop, over a dictionary of loaders; the loss is a sum over each batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = 4


def train_model(model, dataloaders, criterion, optimizer, num_epochs):
    for epoch in range(num_epochs):
        for phase in ["train", "val"]:
            model.train(phase == "train")
            running_loss = 0.0
            for inputs, labels in dataloaders[phase]:
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    outputs = model(inputs)
                    loss = criterion(outputs, labels)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                running_loss += loss.item()
            print(f"{epoch} {phase} loss: {running_loss:.4f}")


torch.manual_seed(0)
images = torch.randn(52, 9)
data = TensorDataset(images, images[:, :2].argmax(1))
dataloaders = {phase: DataLoader(data, batch_size=BATCH) for phase in ["train", "val"]}
model = nn.Linear(9, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
train_model(model, dataloaders, nn.CrossEntropyLoss(reduction="sum"), optimizer, 13)
