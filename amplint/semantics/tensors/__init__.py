"""Tensors: their dtypes, ranks and devices, and what operations make of them."""
