"""Scripts that train: their forward passes, losses and gradients, and the regions these need."""
