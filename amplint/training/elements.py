"""Elements of the tuples that the models in sight return."""

from __future__ import annotations

from collections.abc import Callable

from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import every, target_names
from amplint.training.bindings import bound_paths
from amplint.training.surroundings import whole_program


def optional_outputs(source: Source) -> set[tuple[int, int]]:
    """The lengths of tuples that models return, each with the index of an element that can be None there."""
    return _elements(source, _is_none, always=False)


def listed_outputs(source: Source) -> set[str]:
    """The variables of a file that are unpacked from a model's tuple where it has a list."""
    listed, found = _elements(source, _is_list, always=True), set[str]()
    for chunk in source.chunks if listed else ():
        for one in every(chunk.module, cst.Assign):
            targets = one.targets[0].target
            parts = targets.elements if isinstance(targets, cst.Tuple) and isinstance(one.value, cst.Call) else ()
            for index, part in enumerate(parts):
                found.update(target_names(part.value) if (len(parts), index) in listed else ())
    return found


def _elements(source: Source, matches: Callable[[cst.CSTNode], bool], *, always: bool) -> set[tuple[int, int]]:
    """The lengths of tuples that models return, each with the index of an element that `matches`, or `always` does."""
    found = set[tuple[int, int]]()
    for chunk in whole_program(source).chunks:
        for function in every(chunk.module, cst.FunctionDef) if chunk.is_class else ():
            if function.name.value != "forward":
                continue
            bound, others = set[str](), set[str]()
            for one in every(function, cst.Assign):
                (bound if matches(one.value) else others).update(bound_paths(one))
            bound -= others if always else set()
            for returned in every(function, cst.Return):
                parts = returned.value.elements if isinstance(returned.value, cst.Tuple) else ()
                found |= {
                    (len(parts), index)
                    for index, part in enumerate(parts)
                    if matches(part.value) or dotted(part.value) in bound
                }
    return found


def _is_none(value: cst.CSTNode) -> bool:
    """Whether `value` is None, or so under a condition."""
    if isinstance(value, cst.IfExp):
        return _is_none(value.body) or _is_none(value.orelse)
    return dotted(value) == "None"


def _is_list(value: cst.CSTNode) -> bool:
    """Whether `value` is a new list, or several."""
    if isinstance(value, cst.Tuple):
        return all(_is_list(part.value) for part in value.elements)
    return isinstance(value, (cst.List, cst.ListComp)) or (isinstance(value, cst.Call) and dotted(value.func) == "list")
