"""A record of every kind of thing that a run can show, written by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from amplint.trace.compared import Comparison, LineDrift, TensorDrift
from amplint.trace.data import (
    Float8,
    HalfLoss,
    Held,
    Histogram,
    NonFinite,
    Observation,
    Operation,
    ScalerStep,
    Series,
    Update,
)
from amplint.trace.record import Record

SOURCE = '''\
"""A model with <script>alert("source")</script> in it."""

from torch import mm


def forward(model, x, out):
    x = model.stem(x)
    note = "<img src=x onerror=alert(1)> & 'more'"
    mm(x.float(), model.mix, out=out)
    return x


PADDING = [
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
]


def step(scaler, optimizer):
    scaler.step(optimizer)
'''
STEM, NOTE, PRODUCT, STEP = 7, 8, 9, 26
"""Rows of SOURCE."""
EVIL = "model.<script>alert('module')</script>"
HALF, FULL = "float16", "float32"


def record(folder: Path) -> Record:
    """The record of a run of SOURCE, which is written to a file in `folder`."""
    (folder / "train.py").write_text(SOURCE, encoding="utf-8")
    name = str(folder / "train.py")

    def ran(phase: str, op: str, row: int, inputs: str, outputs: str, api: str = "", region: str = HALF) -> Operation:
        return Operation(phase, op, api, name, row, EVIL, (inputs,), (outputs,), region, "cpu")

    addmm = ran("forward", "addmm", STEM, HALF, HALF, "torch.nn.functional.linear")
    product = ran("forward", "mm", PRODUCT, FULL, FULL, "torch.mm")
    backward = ran("backward", "mm", STEM, HALF, HALF, region="")
    counts = {
        addmm: 24,
        ran("forward", "_to_copy", STEM, FULL, HALF, "torch.nn.functional.linear"): 48,
        ran("forward", "view", STEM, HALF, HALF): 24,
        ran("forward", "_to_copy", PRODUCT, HALF, FULL, "torch.Tensor.float"): 24,
        product: 24,
        backward: 48,
        ran("optimizer", "_foreach_add_", STEP, FULL, FULL, region=""): 3,
    }
    return Record(
        torch="2.13.0",
        device="cpu",
        steps=3,
        numerics="full",
        memory=5 * 2**30,
        taken=3,
        command=("train.py", "--note", "<b>bold</b>"),
        began="2026-11-25T15:10:29+01:00",
        operations=Counter(counts),
        seconds={addmm: 0.003, product: 0.006, backward: 0.001},
        scaler_steps=[
            ScalerStep(0, name, STEP, "scaler 1", "AdamW", "READY", 65536.0, False, 65536.0, 1),
            ScalerStep(1, name, STEP, "scaler 1", "AdamW", "READY", 65536.0, False, 65536.0, 2),
            ScalerStep(2, name, STEP, "scaler 1", "AdamW", "UNSCALED", 65536.0, True, 32768.0, 0),
        ],
        held=[Held(f"{EVIL}.weight", "AdamW", name, STEP, FULL, (("exp_avg", FULL), ("exp_avg_sq", FULL)))],
        nonfinite=[
            NonFinite(2, "backward", "mul", "", name, STEM, EVIL, "inf", HALF, 65536.0, True),
        ],
        losses=[HalfLoss("backward", "mm", name, STEM, EVIL, HALF, 1000, 30, 2, -30, 17, 65536.0)],
        histograms=[
            Histogram("activation", EVIL, HALF, 1.0, {-6: 10, -2: 60, 0: 30}, 20, 0),
            Histogram("weight", f"{EVIL}.weight", FULL, 1.0, {-9: 10, -5: 80, -3: 10}, 0, 0),
            Histogram("gradient", f"{EVIL}.weight", FULL, 65536.0, {-16: 100, -12: 100, -2: 600, 3: 199, 16: 1}, 5, 0),
        ],
        updates=[
            Update(f"{EVIL}.weight", "AdamW", name, STEP, 0, FULL, 2e-3, 0.0),
            Update(f"{EVIL}.weight", "AdamW", name, STEP, 1, FULL, 1e-3, 0.25),
        ],
        series=[
            Series("loss", "", name, STEP, (0, 1, 2), (2.5, 2.25, None)),
            Series("scale", "scaler 1", name, STEP, (0, 1, 2), (65536.0, 65536.0, 65536.0)),
            Series("skipped", "scaler 1", name, STEP, (0, 1, 2), (0.0, 0.0, 1.0)),
            Series("gradient", f"{EVIL}.weight", "", 0, (0, 1, 2), (1024.0, 2048.0, None)),
        ],
        float8=[Float8("forward", name, STEM, EVIL, "left", "float8_e4m3fn", (0, 1), (1.5, None), (0.125, 0.25))],
        observations=[Observation("stuck", "add_", name, STEM, EVIL, HALF, 3, 0.1, 1.0)],
        comparison=Comparison(
            half=HALF,
            steps=3,
            tolerance=0.015625,
            first=EVIL,
            lines=[
                LineDrift("forward", "mm", name, PRODUCT, EVIL, HALF, "nan", None, None),
                LineDrift("forward", "addmm", name, STEM, EVIL, HALF, "", 0.25, 0.26),
            ],
            tensors=[
                TensorDrift("output", EVIL, HALF, None),
                TensorDrift("gradient", f"{EVIL}.weight", FULL, 0.0625),
            ],
            refused=("frobnicate",),
        ),
    )
