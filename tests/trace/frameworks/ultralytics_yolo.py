"""ultralytics: YOLO on a few random images."""

import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from ultralytics import YOLO

rng = np.random.default_rng(0)
folder = Path("data").absolute()
for split in ("train", "val"):
    for part in ("images", "labels"):
        (folder / part / split).mkdir(parents=True, exist_ok=True)
    for number in range(12 if split == "train" else 2):
        pixels = rng.integers(0, 255, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "images" / split / f"{number}.png")
        (folder / "labels" / split / f"{number}.txt").write_text("0 0.5 0.5 0.4 0.4\n")
(folder / "data.yaml").write_text(f"path: {folder}\ntrain: images/train\nval: images/val\nnames: {{0: thing}}\n")


def spoil(trainer):
    trainer.model.model[4].cv2.conv.weight.data.fill_(1e6)


gpu = torch.cuda.is_available()
model = YOLO("yolov8n.yaml", verbose=False)
if "--spoil" in sys.argv:
    model.add_callback("on_train_start", spoil)
model.train(
    data=str(folder / "data.yaml"),
    epochs=1,
    imgsz=64,
    batch=4,
    nbs=4,
    workers=0,
    device=0 if gpu else "cpu",
    amp=gpu,
    plots=False,
    val=False,
    save=False,
    verbose=False,
    warmup_epochs=0,
    project=str(folder),
)
