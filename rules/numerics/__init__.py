"""AMP4xx: half-precision numerics."""
