"""AMP7xx: old APIs."""
