"""An autograd function with the decorators of torch.cuda.amp, and a region of the CPU of old."""

import torch
from torch import nn
from torch.cuda import amp
from torch.cuda.amp import custom_bwd, custom_fwd

losses = []


class Scale(torch.autograd.Function):
    @staticmethod
    @custom_fwd
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    @custom_bwd
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad * weight, (grad * x).sum(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 16)
        self.weight = nn.Parameter(torch.ones(16))
        self.last = nn.Linear(16, 1)

    def forward(self, x):
        return self.last(torch.tanh(Scale.apply(self.first(x), self.weight)))


def main():
    torch.manual_seed(8)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    scaler = amp.GradScaler()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 20)
    for _ in range(50):
        x = torch.randn(24, 5)
        with amp.autocast(True):
            loss = nn.functional.mse_loss(net(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scale = scaler.get_scale()
        scaler.update()
        if scaler.get_scale() >= scale:
            scheduler.step()
        losses.append(loss.item())


if __name__ == "__main__":
    main()
