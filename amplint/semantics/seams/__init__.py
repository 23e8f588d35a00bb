"""Boundaries at which half tensors reach code that does not accept them."""
