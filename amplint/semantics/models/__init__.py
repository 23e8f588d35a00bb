"""Models: their parameters, their forward passes, and the results of these."""
