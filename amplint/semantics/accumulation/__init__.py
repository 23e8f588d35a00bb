"""Gradient accumulation: loops, window boundaries, and the work within a window."""
