"""Binary cross entropy by hand: autocast leaves the sigmoid in half, where 1 - p is 0 for confident logits.

Repaired: `p = torch.sigmoid(logits.float())`
"""

import torch
from torch import nn

torch.manual_seed(0)


class Matcher(nn.Module):
    def __init__(self, users=40, items=50, width=24):
        super().__init__()
        self.users, self.items = nn.Embedding(users, width), nn.Embedding(items, width)
        self.mlp = nn.Sequential(
            nn.Linear(2 * width, 64),
            nn.LayerNorm(64),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(64, 32),
            nn.ReLU(),
        )
        self.rate = nn.Linear(32, 1)
        self.scale = nn.Parameter(torch.tensor(40.0))

    def forward(self, users, items):
        user, item = self.users(users), self.items(items)
        hidden = self.mlp(torch.cat([user, item], dim=-1))
        return self.rate(hidden).squeeze(-1) * self.scale


def bce(logits, clicked):
    p = torch.sigmoid(logits)  # culprit
    positive = clicked * torch.log(p)
    negative = (1.0 - clicked) * torch.log(1.0 - p)
    return -(positive + negative).mean()


model = Matcher().to("cuda")
nn.init.normal_(model.rate.weight, std=0.12)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
scaler = torch.cuda.amp.GradScaler(init_scale=1024.0)
for step in range(3):
    users, items = torch.randint(0, 40, (64,), device="cuda"), torch.randint(0, 50, (64,), device="cuda")
    clicked = (torch.rand(64, device="cuda") < 0.5).float()
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = bce(model(users, items), clicked)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
