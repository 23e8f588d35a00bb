"""Why a variant cannot be run."""

from __future__ import annotations


class Refused(RuntimeError):
    """The message is one line for the user."""


class DependsOnValues(Refused):
    """A line of the script makes something that is as large as numbers say which are not there."""
