"""New parameters of functions."""

from __future__ import annotations

from amplint.codemods.script import Script
from amplint.findings import Edit, Span
from amplint.source import syntax as cst


def behind(script: Script, param: cst.Param, text: str) -> Edit:
    """The edit that declares `text` behind `param`, in a row of its own where that has one."""
    last = param.default or (param.annotation.annotation if param.annotation is not None else param.name)
    end = script.rewrite.span(last).end
    before = script.rewrite.row_before(script.rewrite.span(param.name).start)
    gap = " " if before.strip() else script.source.newline + before
    return Edit(Span(end, end), f",{gap}{text}")


def declared_behind(script: Script, param: cst.Param, name: str, kind: str, default: str) -> Edit:
    """The edit that declares `name`, of the type `kind` with this default, behind `param`, as that is declared."""
    annotation = f": {kind}" if param.annotation is not None else ""
    given = "" if param.default is None else f" = {default}" if annotation else f"={default}"
    return behind(script, param, f"{name}{annotation}{given}")
