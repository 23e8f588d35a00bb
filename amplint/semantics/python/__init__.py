"""The interpreter of Python, which knows no topic: it calls the hooks of trackers."""
