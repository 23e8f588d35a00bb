"""Scaled and divided losses, and reads of their values."""
