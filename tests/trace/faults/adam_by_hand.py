"""An Adam of one's own keeps second moments in float16, where squares of small gradients are 0."""

import torch
from torch import nn

torch.manual_seed(0)


class Adam(torch.optim.Optimizer):
    def __init__(self, parameters, lr=1e-4):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for one in group["params"]:
                if not self.state[one]:
                    self.state[one]["square"] = torch.zeros_like(one, dtype=torch.float16)
                    # repaired: self.state[one]["square"] = torch.zeros_like(one)
                square = self.state[one]["square"]
                square.mul_(0.99).addcmul_(one.grad.to(square.dtype), one.grad.to(square.dtype), value=0.01)  # culprit
                one.addcdiv_(one.grad, square.float().sqrt() + 1e-8, value=-group["lr"])


model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16))
optimizer = Adam(model.parameters())
for step in range(5):
    x = torch.randn(32, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    loss = 0.01 * nn.functional.mse_loss(out.float(), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
