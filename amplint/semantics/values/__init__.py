"""Abstract values, symbols, and path states."""
