"""Improvements of correct code; off by default."""
