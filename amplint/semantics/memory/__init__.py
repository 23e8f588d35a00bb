"""What several trackers remember together."""
