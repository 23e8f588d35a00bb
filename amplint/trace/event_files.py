"""The series of a record as scalars in TensorBoard's event files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from torch.utils.tensorboard import SummaryWriter

if TYPE_CHECKING:
    from amplint.trace.data import RunData


def write(record: RunData, folder: Path) -> None:
    """Write an event file to `folder`, with tags such as `amplint/loss` and `amplint/gradient/model.weight`.

    Values that are inf or NaN in the run are NaN there. Raises OSError.
    """
    with SummaryWriter(str(folder)) as writer:
        for series in record.series:
            tag = "/".join(part for part in ("amplint", series.what, series.name) if part)
            for step, value in zip(series.steps, series.values, strict=True):
                writer.add_scalar(tag, math.nan if value is None else value, step)
