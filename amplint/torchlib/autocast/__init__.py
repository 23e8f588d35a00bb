"""The autocast policy of PyTorch's versions, one file each, as `python -m tests.autocast_policy` derives it."""
