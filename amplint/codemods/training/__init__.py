"""Analysis of training scripts: forward passes, losses and gradients, and the regions for these."""
