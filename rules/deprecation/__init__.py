"""AMP7xx: old APIs and frameworks."""
