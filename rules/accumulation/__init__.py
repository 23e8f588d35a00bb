"""AMP3xx: gradient accumulation."""
