"""Strategies, of which one replicates the module on each device."""

from __future__ import annotations


class DDPStrategy:
    """Leaves the precision to the Trainer."""

    def __init__(self, find_unused_parameters: bool = False) -> None:
        self.find_unused_parameters = find_unused_parameters
