"""Custom autograd functions and the kernels that they call."""
