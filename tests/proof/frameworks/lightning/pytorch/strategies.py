"""Strategies, of which one replicates the module on each device, and one shards it."""

from __future__ import annotations


class DDPStrategy:
    """Leaves the precision to the Trainer."""

    def __init__(self, find_unused_parameters: bool = False) -> None:
        self.find_unused_parameters = find_unused_parameters


class FSDPStrategy:
    """Shards the module, which its precision converts as that of one device does."""

    def __init__(self, sharding_strategy: str = "FULL_SHARD") -> None:
        self.sharding_strategy = sharding_strategy
