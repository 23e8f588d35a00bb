"""AMP2xx: the GradScaler protocol."""
