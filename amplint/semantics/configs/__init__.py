"""Configuration files: their contents, and the values that scripts read from them."""
