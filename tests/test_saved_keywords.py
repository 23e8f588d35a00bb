"""Checkpoints of a function in another file, which takes the state of each of its keyword arguments."""

from __future__ import annotations

from pathlib import Path

import amplint

SAVING = """
import os
import torch
from torch.nn.parallel import DistributedDataParallel


def checkpoint(settings, path="last.pth", model=None, optimizer=None, **kwargs):
    if model is not None:
        raw_model = model.module if isinstance(model, DistributedDataParallel) else model
        weights = raw_model.state_dict()
        state = {"model": weights, "optimizer": optimizer.state_dict()}
        for key, value in kwargs.items():
            if value is not None:
                if hasattr(value, "state_dict"):
                    raw_value = value.module if isinstance(value, DistributedDataParallel) else value
                    raw_value = getattr(raw_value, "_orig_mod", raw_value)
                    state[key] = raw_value.state_dict()
                else:
                    state[key] = value
        torch.save(state, path)
        return None
    return torch.load(path) if os.path.exists(path) else None
"""
TRAINING = """
import argparse
import torch
from torch import nn
from saving import checkpoint


def train(loader):
    for step, (x, y) in enumerate(loader):
        with autocast_ctx:
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        if step % 100 == 0:
            checkpoint(args, model=model, optimizer=optimizer, scaler=scaler)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--resume", type=int, default=0)
    args = parser.parse_args()
    dtype = torch.bfloat16 if args.dtype == "bfloat16" else torch.float16
    autocast_ctx = torch.autocast("cuda", dtype=dtype)
    model = nn.Linear(3, 3).cuda()
    scaler = torch.amp.GradScaler("cuda", enabled=(args.dtype == "float16"))
    optimizer = torch.optim.AdamW(model.parameters())
    saved = checkpoint(args) if args.resume else None
    if saved:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scaler.load_state_dict(saved["scaler"])
    train(torch.utils.data.DataLoader([]))
"""


def test_keywords_are_saved(tmp_path: Path) -> None:
    (tmp_path / "saving.py").write_text(SAVING)
    (tmp_path / "train.py").write_text(TRAINING)
    assert "AMP211" not in {one.code for one in amplint.check(tmp_path / "train.py")}
