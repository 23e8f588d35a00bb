"""The version of PyTorch that tests run on, for what some versions cannot do."""

from __future__ import annotations

import torch

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
