"""The protocol of scalers and optimizers, and of the gradients between them."""
