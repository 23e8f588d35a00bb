"""timm: a vision transformer, with timm's optimizer, scaler and average of weights."""

import sys

import timm
import torch
from timm.optim import create_optimizer_v2
from timm.utils import ModelEmaV3, NativeScaler

gpu = torch.cuda.is_available()
device, dtype = ("cuda", torch.float16) if gpu else ("cpu", torch.bfloat16)
torch.manual_seed(0)
sizes = {"img_size": 16, "patch_size": 4, "embed_dim": 16, "depth": 3, "num_heads": 2}
model = timm.create_model("vit_tiny_patch16_224", num_classes=4, **sizes).to(device)
if "--spoil" in sys.argv:
    model.blocks[1].mlp.fc2.weight.data.fill_(1e6)
optimizer = create_optimizer_v2(model, "adamw", lr=1e-3)
scaler, average = NativeScaler(device), ModelEmaV3(model)
for _ in range(3):
    images, labels = torch.randn(4, 3, 16, 16, device=device), torch.randint(0, 4, (4,), device=device)
    with torch.autocast(device, dtype=dtype):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    if gpu:
        scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
    else:
        loss.backward()
        optimizer.step()
    average.update(model)
