"""Static analysis of PyTorch mixed-precision training code."""

__version__ = "0.1.0"
