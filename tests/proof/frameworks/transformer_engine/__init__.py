"""Stands in for NVIDIA's Transformer Engine: layers that compute in float8 inside of its regions."""
