"""Binary cross entropy with the usual log(p + 1e-8), whose p comes from a sigmoid in half and is 0 for some."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(16, 64), nn.Tanh(), nn.Dropout(0.1), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
).cuda()
nn.init.normal_(model[5].weight, std=8.0)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cuda", init_scale=16.0)
for step in range(3):
    x = torch.randn(64, 16, device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        logits = model(x).squeeze(1)
        p, q = torch.sigmoid(logits), torch.sigmoid(-logits)
        y = (logits.detach() > 0).float()
        y[:4] = 1.0 - y[:4]
        loss = -(y * torch.log(p + 1e-8) + (1 - y) * torch.log(q + 1e-8)).mean()  # culprit
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
