"""MONAI: a UNet in three dimensions, with Dice and cross entropy."""

import sys

import torch
from monai.losses import DiceCELoss
from monai.networks.nets import UNet

gpu = torch.cuda.is_available()
device, dtype = ("cuda", torch.float16) if gpu else ("cpu", torch.bfloat16)
torch.manual_seed(0)
model = UNet(3, 1, 2, channels=(4, 8, 16), strides=(2, 2), num_res_units=1).to(device)
if "--spoil" in sys.argv:
    next(one for one in model.modules() if isinstance(one, torch.nn.Conv3d)).weight.data.fill_(1e6)
criterion = DiceCELoss(to_onehot_y=True, softmax=True)
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler(device, enabled=gpu)
for _ in range(3):
    volumes = torch.randn(2, 1, 16, 16, 16, device=device)
    labels = torch.randint(0, 2, (2, 1, 16, 16, 16), device=device)
    optimizer.zero_grad()
    with torch.autocast(device, dtype=dtype):
        loss = criterion(model(volumes), labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
