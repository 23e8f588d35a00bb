"""Frameworks that scale losses and step optimizers themselves, and APIs of other libraries."""
