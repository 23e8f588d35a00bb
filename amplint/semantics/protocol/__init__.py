"""The protocol of scalers and optimizers, and the gradients between them."""
