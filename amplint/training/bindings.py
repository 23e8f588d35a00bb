"""Variables and attributes that a node binds, mentions and calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.tree import bound_by, children, target_names, targets, walk

_STATEMENTS = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.For, cst.With, cst.NamedExpr)
_COLLECTING = frozenset({"append", "extend", "add", "insert", "update", "setdefault"})
_TARGETS = (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.NamedExpr)


def called_name(node: cst.CSTNode) -> str:
    """The last name of the callee, `step` for `optimizers[0].step()`; empty if `node` is no call."""
    func = node.func if isinstance(node, cst.Call) else None
    if isinstance(func, cst.Attribute):
        return func.attr.value
    return func.value if isinstance(func, cst.Name) else ""


def callee(call: cst.Call) -> str | None:
    """The path of what `call` calls, with the keys of elements: `losses['ce']`; None if it is no path."""
    func, keys = call.func, ""
    while isinstance(func, cst.Subscript) and len(func.slice) == 1 and isinstance(func.slice[0].slice, cst.Index):
        key = func.slice[0].slice.value
        if not isinstance(key, (cst.SimpleString, cst.Integer)):
            return None
        func, keys = func.value, f"[{key.evaluated_value!r}]{keys}"
    path = dotted(func)
    return f"{path}{keys}" if path is not None else None


def constructor(node: cst.BaseExpression) -> cst.BaseExpression:
    """The call that makes an object, without methods called on it: `Model()` for `Model().to(device)`."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and isinstance(node.func.value, cst.Call):
        node = node.func.value
    return node


def positional(function: cst.FunctionDef) -> list[cst.Param]:
    """The parameters of `function` that can be passed by position."""
    return [*function.params.posonly_params, *function.params.params]


def matched(call: cst.Call, names: Sequence[str]) -> Iterator[tuple[str, cst.Arg]]:
    """The arguments of `call`, each with that of the parameters `names` it is for; a starred one can be for any."""
    for place, argument in enumerate(call.args):
        own = names[place : place + 1] if argument.keyword is None else [argument.keyword.value]
        yield from ((name, argument) for name in (names if argument.star else own))


def bound_names(node: cst.CSTNode) -> Iterator[str]:
    """The variables that `node` itself binds, by any kind of statement."""
    if isinstance(node, _TARGETS):
        yield from target_names(node.target)
    elif isinstance(node, cst.AsName):
        yield from target_names(node.name)
    elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
        yield node.name.value
    elif isinstance(node, cst.ImportAlias):
        yield bound_by(node)


def bound_paths(node: cst.CSTNode, *, whole: bool = False) -> set[str]:
    """The variables and attributes that an assignment, a loop header or a `with` header binds.

    `x` for `x.y = ...`, unless `whole` paths are asked for.
    """
    assigned: list[cst.CSTNode] = []
    if isinstance(node, cst.Assign):
        assigned = [target.target for target in node.targets]
    elif isinstance(node, _TARGETS):
        assigned = [node.target]
    elif isinstance(node, cst.With):
        assigned = [item.asname.name for item in node.items if item.asname is not None]
    found: set[str] = set()
    for target in (one for each in assigned for one in targets(each)):
        while isinstance(target, cst.Subscript):
            target = target.value
        if path := dotted(target):
            found.add(path if whole else _shortened(path))
    return found


def given_to(assign: cst.Assign, path: str) -> Iterator[cst.BaseExpression]:
    """What an assignment binds to `path`, also as one of several."""
    for target in (one.target for one in assign.targets):
        if dotted(target) == path:
            yield assign.value
        elif isinstance(target, cst.Tuple) and isinstance(assign.value, cst.Tuple):
            pairs = zip(target.elements, assign.value.elements, strict=False)
            yield from (value.value for one, value in pairs if dotted(one.value) == path)


def changed(statement: cst.CSTNode) -> set[str]:
    """The variables and attributes that `statement`, or a node in it, binds or updates in place."""
    return {path for node in walk(statement) for path in changed_by(node)}


def changed_by(node: cst.CSTNode) -> set[str]:
    """The variables and attributes that `node` itself binds or updates in place."""
    if isinstance(node, _STATEMENTS):
        return bound_paths(node)
    func = node.value.func if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call) else None
    return paths(func.value) if isinstance(func, cst.Attribute) and _changes(func.attr.value) else set()


def _changes(method: str) -> bool:
    """Whether a method updates its receiver in place."""
    return method in _COLLECTING or (method.endswith("_") and not method.endswith("__"))


def paths(node: cst.CSTNode) -> set[str]:
    """The variables and attributes that `node` mentions, `self.x` for `self.x.y(...)` and `x` for `x.y`."""
    found: set[str] = set()
    todo = [node]
    while todo:
        inner = todo.pop()
        if (path := dotted(inner)) is not None:
            found.add(_shortened(path))
        elif isinstance(inner, cst.Arg):
            todo.append(inner.value)
        else:
            todo += children(inner)
    return found


def _shortened(path: str) -> str:
    parts = path.split(".")
    return ".".join(parts[:2]) if parts[0] == "self" else parts[0]
