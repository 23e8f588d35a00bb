"""The version of PyTorch that tests run on, for what some versions cannot do."""

from __future__ import annotations

import torch

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
SHARDS_ON_CPUS = hasattr(torch.cpu.Stream, "record_event")
"""Whether `fully_shard` runs on CPUs, which it does not on 2.6."""
FLOAT8_ON_CPUS = torch._C._dispatch_has_kernel_for_dispatch_key("aten::_scaled_mm", "CPU")
"""Whether products of float8 run on CPUs, which they do not on 2.6."""
