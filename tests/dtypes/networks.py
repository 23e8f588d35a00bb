"""The modules of random programs: how each is made, and how it is called.

The columns of a row are what a call makes, the constructor, and the arguments, in the language of `operations`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.dtypes.operations import Line


@dataclass(frozen=True)
class Layer:
    """A class of `torch.nn`."""

    made_by: str
    call: Line


def _layers(table: str) -> list[Layer]:
    found = []
    for row in table.strip().splitlines():
        makes, made_by, given = (column.strip() for column in row.split("|"))
        call = Line(f"LAYER({given})", tuple(makes.replace("=", "").split()), "=" in makes)
        found.append(Layer(made_by, call))
    return found


LAYERS = _layers("""
= x | nn.Linear(4, 4) | {X}
= x | nn.Linear(4, 4) | {M}
= x | nn.Linear(4, 4, bias=False) | {M}
= x | nn.Conv1d(4, 4, 1) | {t}
= x | nn.Conv2d(4, 4, 3, padding=1) | {c}
= x | nn.ConvTranspose2d(4, 4, 1) | {c}
= x | nn.LayerNorm(4) | {X}
= x | nn.LayerNorm(4, elementwise_affine=False) | {X}
= x | nn.BatchNorm1d(4) | {m}
= x | nn.BatchNorm2d(4) | {c}
= x | nn.GroupNorm(2, 4) | {c}
= x | nn.RMSNorm(4) | {X}
x | nn.InstanceNorm1d(4) | {t}
x | nn.ReLU() | {x}
x | nn.GELU() | {x}
x | nn.SiLU() | {x}
x | nn.Sigmoid() | {x}
x | nn.Tanh() | {x}
x | nn.Softmax(dim=-1) | {X}
x | nn.LogSoftmax(dim=-1) | {X}
x | nn.Softplus() | {x}
x | nn.LeakyReLU(0.1) | {x}
x | nn.Hardswish() | {x}
x | nn.Dropout(0.1) | {x}
x | nn.Identity() | {x}
= x | nn.PReLU() | {X}
- | nn.Flatten() | {M}
x | nn.MaxPool2d(3, stride=1, padding=1) | {c}
x | nn.AvgPool2d(3, stride=1, padding=1) | {c}
x | nn.AdaptiveAvgPool2d(4) | {c}
- | nn.Upsample(scale_factor=2) | {c}
m | nn.Embedding(4, 4) | {i}
t | nn.Embedding(4, 4) | {k}
m | nn.Embedding(4, 4, dtype=torch.float16) | {i}
= x | nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)) | {M}
= x | nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU()) | {M}
= x | nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU()) | {c}
x | nn.Sequential(nn.Softmax(dim=-1), nn.Dropout(0.1)) | {X}
= x | nn.Linear(4, 4, dtype=torch.float16) | {M}
= x | nn.Linear(4, 4).bfloat16() | {M}
z | nn.MSELoss() | {x}, {h}
z | nn.L1Loss() | {x}, {h}
z | nn.SmoothL1Loss() | {x}, {h}
z | nn.CrossEntropyLoss() | {m}, {i}
z | nn.NLLLoss() | {m}, {i}
z | nn.BCEWithLogitsLoss() | {x}, {h}
z | nn.BCELoss() | {x}.sigmoid().nan_to_num(), {h}.sigmoid().nan_to_num()
z | nn.KLDivLoss(reduction="batchmean") | {m}, {m}
x- | nn.CosineSimilarity(dim=-1) | {M}, {h}
= m | nn.Bilinear(4, 4, 4) | {m}, {m}
= m | nn.GRUCell(4, 4) | {m}
= m m | nn.LSTMCell(4, 4) | {m}
= t t | nn.MultiheadAttention(4, 2) | {t}, {t}, {t}
= t - | nn.MultiheadAttention(4, 2, batch_first=True) | {t}, {t}, {t}, need_weights=False
= t | nn.TransformerEncoderLayer(4, 2, 8) | {t}
""")

RECURRENT = _layers("""
= t (- -) | nn.LSTM(4, 4) | {t}
= t - | nn.GRU(4, 4) | {t}
= t - | nn.RNN(4, 4) | {t}
""")
"""What runs another kernel on CUDA than on the CPU."""
