"""What files of settings say, and what scripts read of them."""
