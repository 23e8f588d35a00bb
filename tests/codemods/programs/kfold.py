"""Cross-validation: each fold has a model and an optimizer of its own, and is judged on what it has not seen."""

import math

import torch
from torch.nn import functional as F

losses = []
FOLDS = 5
STEPS_PER_FOLD = 10


def make_data():
    generator = torch.Generator().manual_seed(91)
    x = torch.rand(100, 3, generator=generator)
    return x, x[:, :1] * 2 - x[:, 1:2] + 0.5 * torch.sin(4 * x[:, 2:])


def folds(count, k):
    order = torch.randperm(count, generator=torch.Generator().manual_seed(92))
    for index in range(k):
        held_out = order[index::k]
        yield order[~torch.isin(order, held_out)], held_out


def fit_fold(x_train, y_train, x_val, y_val):
    net = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    opt = torch.optim.AdamW(net.parameters(), lr=0.02, weight_decay=0.01)
    best = math.inf
    for _ in range(STEPS_PER_FOLD):
        opt.zero_grad()
        loss = F.mse_loss(net(x_train), y_train)
        loss.backward()
        opt.step()
        losses.append(loss.item())
        net.eval()
        with torch.no_grad():
            error = F.l1_loss(net(x_val), y_val)
        net.train()
        best = min(best, error.item())
    return best


torch.manual_seed(90)
inputs, outputs = make_data()
errors = [fit_fold(inputs[i], outputs[i], inputs[j], outputs[j]) for i, j in folds(len(inputs), FOLDS)]
print(f"mean absolute error {sum(errors) / len(errors):.3f}")
