"""An abstract interpreter of Python without knowledge of any topic: trackers register for its hooks."""
