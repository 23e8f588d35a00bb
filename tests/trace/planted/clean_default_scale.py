"""A transformer with a fresh gradient scaler, whose first scale overflows as it should."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
embed = nn.Embedding(64, 32).cuda()
layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2).cuda()
head = nn.Linear(32, 64).cuda()
model = nn.ModuleList([embed, layers, head])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda", init_scale=2.0**24)
mask = nn.Transformer.generate_square_subsequent_mask(10, device="cuda")
for step in range(3):
    tokens = torch.randint(0, 64, (4, 11), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        hidden = layers(embed(tokens[:, :-1]), mask=mask, is_causal=True)
        loss = F.cross_entropy(head(hidden).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
