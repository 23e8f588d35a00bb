"""Values, the symbols that stand for them, and the state of a path."""
