"""Conditions decided by a conversion, and `if` statements emptied by it."""

from __future__ import annotations

from collections.abc import Callable

from amplint.codemods.editing import edited
from amplint.findings import Edit
from amplint.source import syntax as cst
from amplint.training.refusal import SHARED, Refusal
from amplint.training.script import Script


def conjunction(test: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The operands of the conjunction `test`."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return [*conjunction(test.left), *conjunction(test.right)]
    return [test]


def folded_condition(script: Script, node: cst.If, *, taken: bool) -> Edit:
    """The edit that replaces an `if` by its body or its `else`."""
    first, last = script.rows(node)
    rest = node.orelse
    if script.is_elif(node) or isinstance(rest, cst.If):
        raise Refusal(first, "a chain of elif depends on whether apex is there")
    block = node.body if taken else rest.body if isinstance(rest, cst.Else) else None
    if block is not None and not isinstance(block, cst.IndentedBlock):
        raise Refusal(first, SHARED)
    if block is None:
        removal = script.rewrite.remove_statement(node)
        assert removal is not None
        return removal
    start = script.lines.commented(script.row(block.body[0]), first)
    end = script.rows(block.body[-1])[1]
    outer, inner = script.lines.indentation(first), script.lines.indentation(script.rows(block.body[0])[0])
    text = script.indented(range(start, end + 1), outer, inner, script.rewrite.string_rows(block))
    return Edit(script.lines.rows(first, last), text)


def with_edited_conditions(script: Script, edit_of: Callable[[Script, cst.If], Edit | None]) -> Script:
    """The script after the edit of each `if` that has one, the innermost first: each changes the rows of others."""
    while True:
        edits = (edit_of(script, node) for node in reversed(list(script.of_kind(cst.If))))
        edit = next((edit for edit in edits if edit is not None), None)
        if edit is None:
            return script
        script = edited(script, [edit])


def drop_empty(script: Script, before: frozenset[str]) -> Script:
    """The script without the `if` statements in which the conversion left only `pass`.

    `before` has the conditions of those that were empty already.
    """
    return with_edited_conditions(script, lambda script, node: _edit_of_emptied(script, node, before))


def empty_conditions(script: Script) -> frozenset[str]:
    """The conditions of the `if` statements whose body is only `pass`."""
    found = script.of_kind(cst.If)
    return frozenset(script.text_of(node.test) for node in found if _only_passes(node.body))


def _edit_of_emptied(script: Script, node: cst.If, before: frozenset[str]) -> Edit | None:
    if not _only_passes(node.body) or script.text_of(node.test) in before:
        return None
    if script.is_elif(node) or isinstance(node.orelse, cst.If):
        return None
    if node.orelse is None:
        return script.rewrite.remove_statement(node)
    first = script.row(node)
    enclosed = script.rewrite.parentheses(node.test)
    plain = enclosed or isinstance(node.test, (cst.Name, cst.Attribute, cst.Subscript, cst.Call))
    text = script.text_of(node.test)
    negated = f"not {text}" if plain else f"not ({text})"
    header = f"{script.lines.indentation(first)}if {negated}:{script.source.newline}"
    return Edit(script.lines.rows(first, script.row(node.orelse)), header)


def _only_passes(block: cst.BaseSuite) -> bool:
    only = block.body[0] if len(block.body) == 1 else None
    if isinstance(only, cst.SimpleStatementLine) and len(only.body) == 1:
        return isinstance(only.body[0], cst.Pass)
    return False
