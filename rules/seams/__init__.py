"""AMP5xx: seams between dtypes."""
