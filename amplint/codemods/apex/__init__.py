"""`--from apex`: `apex.amp` becomes autocast and GradScaler of PyTorch."""

from __future__ import annotations

from amplint.codemods.apex.convert import plan

__all__ = ["plan"]
