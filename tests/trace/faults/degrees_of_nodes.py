"""How many neighbours a node has is counted in bfloat16, which cannot count beyond 256."""

import torch
from torch import nn

torch.manual_seed(0)
nodes, width = 40, 16
edges = torch.randint(1, nodes, (2, 4000))
edges[1, :1500] = 0


class Mean(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        message = self.linear(x)[edges[0]]
        ones = torch.ones(len(edges[1]), dtype=message.dtype)
        # repaired: ones = torch.ones(len(edges[1]))
        degree = torch.zeros(nodes, dtype=ones.dtype).index_add_(0, edges[1], ones)  # culprit
        total = torch.zeros(nodes, width).index_add_(0, edges[1], message.float())
        return total / degree.clamp(min=1)[:, None]


model = nn.ModuleList([Mean(), nn.Linear(width, 3)])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x, y = 1 + torch.randn(nodes, width), torch.randint(0, 3, (nodes,))
for step in range(5):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model[1](torch.relu(model[0](x)))
    loss = nn.functional.cross_entropy(out.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
