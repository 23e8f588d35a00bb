"""The autocast policy of PyTorch's versions, one file each, as `python -m tools.autocast_policy` derives it."""
