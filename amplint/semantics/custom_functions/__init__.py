"""Custom autograd functions and the kernels they call."""
