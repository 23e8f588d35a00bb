"""The state of optimizers and scalers in checkpoints."""
