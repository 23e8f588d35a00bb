"""Guarded imports of apex, and fallbacks for a missing apex, which are dead code after the conversion."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.codemods.apex.uses import AMP, FP16_UTILS, imported, names_in
from amplint.codemods.conditions import conjunction, folded_condition, with_edited_conditions
from amplint.codemods.editing import edited
from amplint.findings import Edit
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.training.bindings import called_name
from amplint.training.refusal import Refusal
from amplint.training.script import Script

_TELLS = ("print", "warn", "warning", "info", "error", "exit", "ImportError", "RuntimeError", "debug")


def unguard(script: Script) -> Script:
    """The script with plain imports of apex, and without flags for its availability."""
    known: dict[str, bool] = {}
    edits = []
    for node in script.of_kind(cst.Try):
        imports = list(_apex_imports(script, node.body))
        names = {name for each in imports for small in each.body for _, name in imported(script, small)}
        if any(name == "apex" or name.startswith((AMP, FP16_UTILS)) for name in names):
            known.update(_flags_for_apex(script, node, imports))
            edits.append(_plain(script, node, imports))
    script = edited(script, edits)
    return _without(script, known) if known else script


def _apex_imports(script: Script, block: cst.BaseSuite) -> Iterator[cst.SimpleStatementLine]:
    for statement in block.body:
        if isinstance(statement, cst.SimpleStatementLine) and any(
            any(True for _ in imported(script, small)) for small in statement.body
        ):
            yield statement


def _flags_for_apex(script: Script, node: cst.Try, imports: list[cst.SimpleStatementLine]) -> dict[str, bool]:
    """The names that are flags for apex; True for those that are true, False for those that are not None."""
    row = script.row(node)
    known: dict[str, bool] = {}
    bound = {name for statement in imports for small in statement.body for name, _ in imported(script, small)}
    after = list(node.orelse.body.body) if node.orelse is not None else []
    for statement in (*_others(node, imports, bound), *after):
        name = _flag(statement, "True")
        if name is None:
            raise Refusal(script.row(statement), "the try block does more than import apex")
        known[name] = True
    if node.finalbody is not None:
        raise Refusal(row, "the try block around the import of apex has a finally")
    for handler in node.handlers:
        for handled in handler.body.body:
            name = _flag(handled, "False") or _flag(handled, "None")
            if name in bound:
                known[name] = False
            elif name is not None:
                known.setdefault(name, True)
            elif not _only_reports(handled):
                raise Refusal(script.row(handled), "without apex the script does something else")
    return known


def _others(node: cst.Try, imports: list[cst.SimpleStatementLine], bound: set[str]) -> list[cst.CSTNode]:
    """The statements of the try block that are independent of its imports."""
    return [each for each in node.body.body if each not in imports and not names_in(each) & bound]


def _flag(statement: cst.CSTNode, value: str) -> str | None:
    """`name` of `name = value`."""
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        statement = statement.body[0]
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return None
    target, given = statement.targets[0].target, statement.value
    return (
        target.value if isinstance(target, cst.Name) and isinstance(given, cst.Name) and given.value == value else None
    )


def _only_reports(statement: cst.CSTNode) -> bool:
    """Whether a statement only raises, returns, passes or prints a message."""
    parts = statement.body if isinstance(statement, cst.SimpleStatementLine) else [statement]
    return all(isinstance(part, (cst.Raise, cst.Pass, cst.Return)) or _is_message(part) for part in parts)


def _is_message(part: cst.CSTNode) -> bool:
    return isinstance(part, cst.Expr) and called_name(part.value) in _TELLS


def _plain(script: Script, node: cst.Try, imports: list[cst.SimpleStatementLine]) -> Edit:
    """The edit that unwraps a try block around imports and uses of apex."""
    first, last = script.rows(node)
    outer = script.lines.indentation(first)
    bound = {name for statement in imports for small in statement.body for name, _ in imported(script, small)}
    others = _others(node, imports, bound)
    parts = []
    for statement in node.body.body:
        if statement not in others:
            rows = script.rows(statement)
            start = rows[0] if statement in imports else script.lines.commented(rows[0])
            inner = script.lines.indentation(rows[0])
            parts.append(
                script.indented(range(start, rows[1] + 1), outer, inner, script.rewrite.string_rows(statement))
            )
    text = "".join(part if part.endswith(("\n", "\r")) else part + script.source.newline for part in parts)
    return Edit(script.lines.rows(first, last), text)


def _without(script: Script, known: dict[str, bool]) -> Script:
    """The script with every condition on the `known` names decided."""
    script = with_edited_conditions(script, lambda script, node: _decided(script, node, known))
    gone = [
        edit
        for node in script.of_kind(cst.SimpleStatementLine, cst.Assert)
        if (edit := _dropped(script, node, known)) is not None
    ]
    script = edited(script, gone)
    for node in script.of_kind(cst.Name):
        if known.get(node.value) and not isinstance(script.source.parent(node), cst.Attribute):
            raise Refusal(
                script.row(node), f"{node.value} tells whether apex is there; this use of it is not understood"
            )
    return script


def _dropped(script: Script, node: cst.CSTNode, known: dict[str, bool]) -> Edit | None:
    if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1:
        return None
    only = node.body[0]
    name = _flag(node, "False") or _flag(node, "None") or _flag(node, "True")
    asserted = isinstance(only, cst.Assert) and _value(only.test, known) is True
    return script.rewrite.remove_statement(node) if (name in known) or asserted else None


def _decided(script: Script, node: cst.If, known: dict[str, bool]) -> Edit | None:
    """The edit that removes the `known` names from the condition of an `if`, and dead branches."""
    if not names_in(node.test) & known.keys():
        return None
    parts = conjunction(node.test)
    values = [_value(part, known) for part in parts]
    kept = [part for part, value in zip(parts, values, strict=True) if value is None]
    if False not in values:
        if kept and any(names_in(part) & known.keys() for part in kept):
            return None
        if kept:
            return Edit(script.rewrite.span(node.test), " and ".join(script.text_of(part) for part in kept))
    return folded_condition(script, node, taken=False not in values)


def _value(test: cst.BaseExpression, known: dict[str, bool]) -> bool | None:
    """The value of a condition on one of the `known` names; None for any other."""
    if isinstance(test, cst.Name) and test.value in known:
        return True
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        value = _value(test.expression, known)
        return None if value is None else not value
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1 and isinstance(test.left, cst.Name):
        operator, other = test.comparisons[0].operator, dotted(test.comparisons[0].comparator)
        negated, flag = isinstance(operator, (cst.IsNot, cst.NotEqual)), known.get(test.left.value)
        if flag is not None and other == "None":
            return None if flag else negated
        if flag and other in ("True", "False"):
            return (other == "True") != negated
    return None
