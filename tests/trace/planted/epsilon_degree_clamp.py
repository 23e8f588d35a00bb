"""A graph network: nodes without neighbours have degree 0, and clamping it to 1e-8 in half leaves it 0.

Repaired: `degree = degree.float().clamp(min=1e-8)`
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
NODES, WIDTH = 24, 16


class GraphConvolution(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm = nn.LayerNorm(inputs)
        self.own, self.neighbours = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

    def forward(self, features, adjacency):
        features = self.norm(features)
        degree = adjacency @ torch.ones_like(features[:, :1])
        degree = degree.clamp(min=1e-8)  # culprit
        inverse = torch.rsqrt(degree)
        sent = self.neighbours(features) * inverse
        received = inverse * (adjacency @ sent)
        return F.relu(self.own(features) + received)


class GraphNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(5, WIDTH)
        self.layers = nn.ModuleList(GraphConvolution(WIDTH, WIDTH) for _ in range(3))
        self.dropout = nn.Dropout(0.2)
        self.classify = nn.Linear(WIDTH, 4)

    def forward(self, features, adjacency):
        hidden = self.embed(features)
        for layer in self.layers:
            hidden = hidden + self.dropout(layer(hidden, adjacency))
        return self.classify(hidden)


adjacency = (torch.rand(NODES, NODES) < 0.15).float().triu(1)
adjacency = adjacency + adjacency.t()
adjacency[-2:], adjacency[:, -2:] = 0.0, 0.0
adjacency, features = adjacency.cuda(), torch.randn(NODES, 5).cuda()
labels = torch.randint(0, 4, (NODES,)).cuda()
model = GraphNetwork().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler(init_scale=1.0)
for epoch in range(3):
    model.train()
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        logits = model(features, adjacency)
        loss = F.cross_entropy(logits, labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
