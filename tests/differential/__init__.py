"""Random training programs, what real PyTorch does with them, and what the linter says."""
