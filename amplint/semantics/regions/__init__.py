"""Autocast regions and gradient modes, and what runs in them."""
