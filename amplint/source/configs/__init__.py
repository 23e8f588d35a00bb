"""Files of settings, JSON and YAML, read as the display that Python would write for what is in them."""
