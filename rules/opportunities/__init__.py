"""What works as it is and could do better; off by default."""
