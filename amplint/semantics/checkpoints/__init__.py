"""What checkpoints hold of optimizers and scalers."""
