"""Comparisons with a dtype that an attribute never has."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

from amplint.engine.reachability.callers import parameter_of
from amplint.engine.reachability.lacking import qualified
from amplint.regex import regex
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import every, keyword_of, target_names

if TYPE_CHECKING:
    from amplint.semantics.reading.program import Program

_OF_TENSORS = frozenset({"dtype"})
_DTYPE = regex(r"torch\.(?:float|bfloat|double|half)\d*")
_SAME = {"torch.half": "torch.float16", "torch.float": "torch.float32", "torch.double": "torch.float64"}
_OTHER_WAYS = (cst.AugAssign, cst.AnnAssign, cst.NamedExpr, cst.For)


def is_never(program: Program, source: Source, test: cst.BaseExpression) -> bool:
    """Whether a test is false because nothing gives an attribute the dtype with which it is compared.

    No file that uses this one mentions the attribute, and each assignment to it chooses between other dtypes.
    """
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1 or not isinstance(test.left, cst.Attribute):
        return False
    other, name = test.comparisons[0], test.left.attr.value
    wanted = _dtype(source, other.comparator)
    if wanted is None or name in _OF_TENSORS or not isinstance(other.operator, (cst.Equal, cst.Is)):
        return False
    if source is not program.main or not source.path or "setattr(" in source.text:
        return False
    found = [_dtypes(source, one) if one is not None else None for one in _given(source, name)]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found) or any(wanted in one for one in known):
        return False
    return not program.is_used_elsewhere(name)


def _given(source: Source, name: str) -> Iterator[cst.BaseExpression | None]:
    """What the file gives to an attribute of any object, None for what is not a plain assignment to it."""
    for chunk in source.chunks if name in source.text else ():
        yield from (None for one in every(chunk.module, cst.Arg) if keyword_of(one) == name)
        for assign in every(chunk.module, cst.Assign):
            for target in (one.target for one in assign.targets):
                whole = isinstance(target, cst.Attribute) and target.attr.value == name
                if whole or (_binds(target, name) and _is_in_class(source, assign)):
                    yield assign.value if whole else None
        yield from (None for one in _other_targets(chunk.module) if _binds(one, name))


def _other_targets(tree: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What statements other than plain assignments bind."""
    for node in every(tree, *_OTHER_WAYS):
        if isinstance(node, _OTHER_WAYS):
            yield node.target


def _binds(target: cst.CSTNode, name: str) -> bool:
    """Whether what is assigned to can be a variable, or an attribute, of this name."""
    attributes = (one.attr.value for one in every(target, cst.Attribute))
    return name in target_names(target) or name in attributes


def _is_in_class(source: Source, statement: cst.CSTNode) -> bool:
    around = (one for one in source.ancestors(statement) if isinstance(one, (cst.FunctionDef, cst.ClassDef)))
    return isinstance(next(around, None), cst.ClassDef)


def _dtypes(source: Source, value: cst.BaseExpression) -> Set[str] | None:
    """The dtypes among which a value is chosen, None if it can be something else."""
    if isinstance(value, cst.IfExp):
        body, other = _dtypes(source, value.body), _dtypes(source, value.orelse)
        return {*body, *other} if body is not None and other is not None else None
    if isinstance(value, cst.Name):
        return _dtypes_of_variable(source, value)
    one = _dtype(source, value)
    return {one} if one is not None else None


def _dtypes_of_variable(source: Source, name: cst.Name) -> Set[str] | None:
    function = source.function_around(name)
    if function is None or parameter_of(function, name.value) is not None:
        return None
    bound = [
        one.value if dotted(target.target) == name.value else None
        for one in every(function, cst.Assign)
        for target in one.targets
        if name.value in target_names(target.target)
    ]
    others = any(name.value in target_names(one) for one in _other_targets(function))
    found = [_dtype(source, one) if one is not None else None for one in bound]
    known = {one for one in found if one is not None}
    return known if known and None not in found and not others else None


def _dtype(source: Source, value: cst.BaseExpression) -> str | None:
    """The dtype that an expression names."""
    name = qualified(source, dotted(value) or "")
    return _SAME.get(name, name) if _DTYPE.fullmatch(name) is not None else None
