"""Accelerate: a loop of one's own with accumulation and clipping."""

import sys

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
accelerator = Accelerator(
    mixed_precision="fp16" if torch.cuda.is_available() else "bf16",
    gradient_accumulation_steps=2,
    cpu=not torch.cuda.is_available(),
)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
if "--spoil" in sys.argv:
    model[3].weight.data.fill_(1e6)
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(24, 8), torch.randint(0, 4, (24,))), batch_size=4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for inputs, targets in loader:
    with accelerator.accumulate(model):
        loss = nn.functional.cross_entropy(model(inputs), targets)
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
