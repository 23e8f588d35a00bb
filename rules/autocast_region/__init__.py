"""AMP1xx: the autocast region."""
