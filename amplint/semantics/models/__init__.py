"""Models: their parameters, their forward passes, and what these return."""
