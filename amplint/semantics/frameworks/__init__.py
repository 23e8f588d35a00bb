"""Frameworks that scale and step themselves, and what other libraries bring."""
