"""Training and validation in one loop over phases, with gradients switched on by the phase."""

import copy

import torch
import torch.nn as nn
import torch.optim as optim

losses = []


def loader(phase):
    generator = torch.Generator().manual_seed(0 if phase == "train" else 1)
    for _ in range(10 if phase == "train" else 2):
        labels = torch.randint(0, 3, (16,), generator=generator)
        yield torch.randn(16, 5, generator=generator) + labels[:, None], labels


def train_model(model, criterion, optimizer, scheduler, num_epochs=25):
    best_model_wts = copy.deepcopy(model.state_dict())
    best_acc = 0.0
    for epoch in range(num_epochs):
        for phase in ["train", "val"]:
            if phase == "train":
                model.train()
            else:
                model.eval()
            running_loss = 0.0
            running_corrects = 0
            for inputs, labels in loader(phase):
                # zero the parameter gradients
                optimizer.zero_grad()

                # forward
                with torch.set_grad_enabled(phase == "train"):
                    outputs = model(inputs)
                    _, preds = torch.max(outputs, 1)
                    loss = criterion(outputs, labels)

                    # backward + optimize only if in training phase
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                        losses.append(loss.item())
                running_loss += loss.item() * inputs.size(0)
                running_corrects += torch.sum(preds == labels.data).item()
            if phase == "train":
                scheduler.step()
            if phase == "val" and running_corrects > best_acc:
                best_acc = running_corrects
                best_model_wts = copy.deepcopy(model.state_dict())
    model.load_state_dict(best_model_wts)
    return model


torch.manual_seed(8)
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer_ft = optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
exp_lr_scheduler = optim.lr_scheduler.StepLR(optimizer_ft, step_size=3, gamma=0.5)
net = train_model(net, nn.CrossEntropyLoss(), optimizer_ft, exp_lr_scheduler, num_epochs=5)
