"""Losses that carry a scale or are divided, and what is read from them."""
