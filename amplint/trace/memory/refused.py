"""Errors for variants that cannot be run."""

from __future__ import annotations


class Refused(RuntimeError):
    """A variant cannot be run; the message is one line for the user."""


class DependsOnValues(Refused):
    """The size of a result depends on values, which fake tensors do not have."""
