"""Qualified names of the names in a script, by its imports."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.records import dataclass
from amplint.source import syntax as cst
from amplint.source.tree import bound_by
from amplint.training.script import Script


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a library object by its qualified `name`; `node` is the expression, `call` its call, if it is called."""

    name: str
    node: cst.BaseExpression
    call: cst.Call | None


def imported(script: Script, statement: cst.CSTNode, *libraries: str) -> Iterator[tuple[str, str]]:
    """Each name of `libraries`, by default of all, that an import statement binds, with its qualified name.

    Empty for relative imports and `import *`.
    """
    for bound, name in _imported(script, statement):
        if not libraries or name.partition(".")[0] in libraries:
            yield bound, name


def _imported(script: Script, statement: cst.CSTNode) -> Iterator[tuple[str, str]]:
    if isinstance(statement, cst.Import):
        for alias in statement.names:
            name = script.text_of(alias.name)
            yield bound_by(alias), name if alias.asname is not None else name.partition(".")[0]
    elif isinstance(statement, cst.ImportFrom) and statement.module is not None and not statement.relative:
        module = script.text_of(statement.module)
        for alias in statement.names if not isinstance(statement.names, cst.ImportStar) else ():
            yield bound_by(alias), f"{module}.{script.text_of(alias.name)}"


def library_uses(script: Script, *libraries: str) -> list[Use]:
    """Every use of a name of these `libraries`, by any name that the imports of the file bind."""
    statements = script.of_kind(cst.Import, cst.ImportFrom)
    known = {bound: name for one in statements for bound, name in imported(script, one, *libraries)}
    return uses(script, known)


def uses(script: Script, known: dict[str, str]) -> list[Use]:
    """Every use of the `known` names, which imports bind, outside of import statements."""
    found = []
    for node in script.of_kind(cst.Name):
        if node.value in known and _reads(script, node):
            found.append(_outermost(script, node, known[node.value]))
    return found


def _reads(script: Script, node: cst.Name) -> bool:
    """Whether a name is read, and refers to what the imports bind."""
    above = script.source.parent(node)
    if isinstance(above, (cst.ImportAlias, cst.AsName, cst.NameItem, cst.Param, cst.AssignTarget, cst.FunctionDef)):
        return isinstance(above, cst.Param) and above.default is node
    if script.rewrite.is_word(node) or any(
        isinstance(each, (cst.Import, cst.ImportFrom)) for each in script.source.ancestors(node)
    ):
        return False
    return not script.is_shadowed(script.scope(node), (), node.value, by_import=False)


def _outermost(script: Script, node: cst.Name, name: str) -> Use:
    inner: cst.BaseExpression = node
    while isinstance(above := script.source.parent(inner), cst.Attribute) and above.value is inner:
        name, inner = f"{name}.{above.attr.value}", above
    call = above if isinstance(above, cst.Call) and above.func is inner else None
    return Use(name, inner, call)
