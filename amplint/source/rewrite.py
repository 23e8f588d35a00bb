"""The builder of text edits for rules' fixes."""

from __future__ import annotations

from amplint.source.rewrite_arguments import ArgumentEdits
from amplint.source.rewrite_casts import CastEdits
from amplint.source.rewrite_regions import RegionEdits
from amplint.source.rewrite_wraps import WrapEdits
from amplint.source.uses import NameUses


class Rewriter(CastEdits, ArgumentEdits, RegionEdits, WrapEdits, NameUses):
    r"""Builds `Edit`s for nodes of one `Source`; a method returns None if the place is not safe to edit.

    Code passed in uses `\n`; the edits use the line breaks of the file.
    """
