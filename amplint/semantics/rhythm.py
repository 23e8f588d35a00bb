"""What is remembered of the loops of a file to tell how they accumulate gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import libcst as cst

    from amplint.semantics.boundaries import Boundary


@dataclass(slots=True)
class Rhythm:
    """Notes about conditions, loops and losses, by symbol or node.

    `spelled` holds the expressions of remainders and conditions, `asked` the loops around the places where conditions
    are decided, `boundaries` what they say of windows. Of loops, `sources` is what they go over, `counted` what they
    count up, `starts` from where, `windows` those that accumulate, and `exact` the remainder that alone ends their
    windows, counted from their start.
    `losses` holds what each backward ran on, `opaque` what functions returned that were not followed, `inside` what was
    told to run inside windows. `loaders` and `parallel` are the calls that make data loaders and distributed models;
    `bypassed` tells that a forward pass to differentiate goes around the wrapper, so that no gradients are reduced.
    """

    spelled: dict[int, cst.BaseExpression] = field(default_factory=dict)
    asked: dict[int, set[tuple[cst.CSTNode, ...]]] = field(default_factory=dict)
    boundaries: dict[int, Boundary | None] = field(default_factory=dict)
    sources: dict[cst.CSTNode, int] = field(default_factory=dict)
    counted: dict[cst.CSTNode, frozenset[str]] = field(default_factory=dict)
    starts: dict[tuple[int, str], int] = field(default_factory=dict)
    losses: dict[cst.CSTNode, set[int]] = field(default_factory=dict)
    opaque: set[int] = field(default_factory=set)
    inside: set[cst.CSTNode] = field(default_factory=set)
    loaders: dict[int, cst.Call] = field(default_factory=dict)
    parallel: list[cst.Call] = field(default_factory=list)
    bypassed: bool = False
    windows: set[cst.CSTNode] = field(default_factory=set)
    exact: dict[cst.CSTNode, cst.BinaryOperation] = field(default_factory=dict)
