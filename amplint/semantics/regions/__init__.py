"""Autocast regions and gradient modes, and the operations within them."""
