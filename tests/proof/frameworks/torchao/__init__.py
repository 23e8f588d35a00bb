"""Stands in for torchao: float8 training of linear layers."""
