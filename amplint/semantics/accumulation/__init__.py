"""Gradient accumulation: loops, window boundaries, and the work inside of a window."""
