"""What configuration files say, and what scripts read of them."""
