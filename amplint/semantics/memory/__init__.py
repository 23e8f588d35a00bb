"""State shared by several trackers."""
