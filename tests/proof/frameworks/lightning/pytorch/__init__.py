"""The same names under their longer path."""

from lightning import LightningModule, Trainer

__all__ = ["LightningModule", "Trainer"]
