"""Running fixture programs on real PyTorch and judging what they show."""
