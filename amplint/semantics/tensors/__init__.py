"""Dtypes, ranks and devices of tensors, and the results of operations on them."""
