"""Why a variant cannot be run."""

from __future__ import annotations


class Refused(RuntimeError):
    """The message is one line for the user."""
