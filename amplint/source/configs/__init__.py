"""Configuration files, JSON and YAML, read as Python displays of their content."""
