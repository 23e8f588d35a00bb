"""Classes of what methods of objects in sight return, such as the distributions of a policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.source.tree import every
from amplint.training.bindings import bound_paths, called_name, constructor


def classes_returned(
    program: Program, assigns: Iterable[cst.Assign], classes: Mapping[str, Set[str]]
) -> Iterator[tuple[str, set[str]]]:
    """The paths that `assigns` of the file bind to what methods return, each with the names of its classes.

    `classes` are those of the objects at paths.
    """
    for one in assigns:
        path = dotted(one.value.func) if isinstance(one.value, cst.Call) else None
        owner, _, method = (path or "").rpartition(".")
        makers = [(name, "forward") for name in classes.get(path or "", ())]
        makers += [(name, method) for name in classes.get(owner, ())]
        parts = [made for name, method in makers for made in _parts_of(program, name, method)]
        for target in one.targets if parts else ():
            into = target.target
            names = [each.value for each in into.elements] if isinstance(into, cst.Tuple) else [into]
            for place, name in enumerate(names):
                bound, shape = dotted(name), len(names) if isinstance(into, cst.Tuple) else 0
                made = {cls for length, index, cls in parts if (length, index) == (shape, place)}
                if bound is not None and made:
                    yield bound, made


def _parts_of(program: Program, name: str, method: str) -> Iterator[tuple[int, int, str]]:
    """The length of each tuple that a method returns, 0 for none, with the place and the class of an element."""
    target = program.resolve(program.main, name)
    nodes = every(target.module, cst.FunctionDef) if isinstance(target, Chunk) and target.is_class else ()
    for function in (one for one in nodes if one.name.value == method):
        made: dict[str, set[str]] = {}
        for one in every(function, cst.Assign):
            for path in bound_paths(one, whole=True):
                made.setdefault(path, set()).add(called_name(constructor(one.value)))
        for value in (one.value for one in every(function, cst.Return)):
            several = isinstance(value, cst.Tuple)
            parts = [one.value for one in value.elements] if isinstance(value, cst.Tuple) else [value]
            for place, part in enumerate(one for one in parts if one is not None):
                for cls in {called_name(part), *made.get(dotted(part) or "", ())}:
                    yield len(parts) if several else 0, place, cls
