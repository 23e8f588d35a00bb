"""Where half tensors meet what does not take them."""
