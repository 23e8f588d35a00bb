"""diffusers: a UNet that learns to take noise away, with an average of its weights."""

import sys

import torch
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel

gpu = torch.cuda.is_available()
device, dtype = ("cuda", torch.float16) if gpu else ("cpu", torch.bfloat16)
torch.manual_seed(0)
model = UNet2DModel(
    sample_size=8,
    block_out_channels=(8, 16),
    layers_per_block=1,
    norm_num_groups=4,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
).to(device)
if "--spoil" in sys.argv:
    model.mid_block.resnets[0].conv2.weight.data.fill_(1e6)
noises, average = DDPMScheduler(), EMAModel(model.parameters())
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler(device, enabled=gpu)
for _ in range(3):
    images, noise = torch.randn(2, 3, 8, 8, device=device), torch.randn(2, 3, 8, 8, device=device)
    times = torch.randint(0, 1000, (2,), device=device)
    with torch.autocast(device, dtype=dtype):
        predicted = model(noises.add_noise(images, noise, times), times).sample
    loss = torch.nn.functional.mse_loss(predicted.float(), noise)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    average.step(model.parameters())
