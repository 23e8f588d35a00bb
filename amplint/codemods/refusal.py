"""Giving up a conversion."""

from __future__ import annotations

import libcst as cst


class Refusal(Exception):
    """The file cannot be converted with certainty; `node` is where that shows."""

    def __init__(self, node: cst.CSTNode, why: str) -> None:
        super().__init__(why)
        self.node = node
        self.why = why
