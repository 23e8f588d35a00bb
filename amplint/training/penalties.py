"""Outputs of models that losses of other files differentiate, for a penalty on gradients."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import every
from amplint.training.bindings import given_to, matched
from amplint.training.givers import importers, modules_asked
from amplint.training.surroundings import cached_by_text, modules, whole_program

_SIGN = re.compile(rb"\bcreate_graph\b")
_GRADIENTS = frozenset({"torch.autograd.grad", "autograd.grad", "grad"})


def outputs_of(call: cst.Call) -> list[cst.BaseExpression]:
    """What a call differentiates that computes gradients for a penalty; empty for another call."""
    if dotted(call.func) not in _GRADIENTS:
        return []
    return [one.value for name, one in matched(call, ["outputs"]) if name == "outputs"]


@cached_by_text
def names_differentiated(main: Source) -> frozenset[str]:
    """The names by which functions of other files take what they differentiate: parameters, and keywords of `**` ones.

    Those are the files that `main` reaches, or else that the files which import it reach.
    """
    found = frozenset[str]().union(*map(_names, whole_program(main).chunks))
    if found or not main.path or not modules().mentions.scripts_with(os.path.abspath(main.path), _SIGN):
        return found
    around = [whole_program(one) for one in importers(main)]
    chosen = (chunk for program in around for source in modules_asked(program) for chunk in source.chunks)
    return frozenset[str]().union(*map(_names, (*(chunk for program in around for chunk in program.chunks), *chosen)))


def _names(chunk: Chunk) -> Iterator[str]:
    if "create_graph" not in chunk.words:
        return
    for function in every(chunk.module, cst.FunctionDef):
        given = {dotted(value) for one in every(function, cst.Call) for value in outputs_of(one)}
        yield from (one.name.value for one in every(function.params, cst.Param) if one.name.value in given)
        assigns = list(every(function, cst.Assign))
        for value in (value for name in given for one in assigns for value in given_to(one, name or "")):
            key = value.slice[0].slice if isinstance(value, cst.Subscript) and len(value.slice) == 1 else None
            index = key.value if isinstance(key, cst.Index) else None
            if isinstance(index, cst.SimpleString):
                yield str(index.evaluated_value)
