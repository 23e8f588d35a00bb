"""Methods that nothing in a project calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.semantics.reading.program import Program

_PLAIN_BASES = frozenset({"object", "ABC", "abc.ABC", "nn.Module", "torch.nn.Module"})
"""Bases that call no method by its name, but for those that begin with underscores and `forward`."""


def is_in_unused_method(program: Program, node: cst.CSTNode) -> bool:
    """Whether a place of the linted file is in a method that no file of the project mentions, though its class is used.

    It is one of a class that no library calls by its names. Projects that can be installed offer their methods to
    others, and so may one that only defines a class.
    """
    source = program.main
    if not source.path or not source.owns(node):
        return False
    around = [one for one in (node, *source.ancestors(node)) if isinstance(one, (cst.FunctionDef, cst.ClassDef))]
    method, cls = around[-2:] if len(around) > 1 else (None, None)
    if not isinstance(method, cst.FunctionDef) or not isinstance(cls, cst.ClassDef):
        return False
    bases = {dotted(one.value) for one in cls.bases}
    name = method.name.value
    if method.decorators or cls.decorators or cls.keywords or not bases <= _PLAIN_BASES:
        return False
    if name.startswith("_") or name == "forward" or not program.is_uncalled(name):
        return False
    return not program.is_unused(cls.name.value)
