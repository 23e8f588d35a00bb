"""Triton kernels: the arguments that a kernel multiplies as they come."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.reading.scopes import dotted, last_name
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.tree import every, walk

_SHAPES = frozenset({"trans", "T", "reshape", "view", "permute", "broadcast_to", "expand_dims"})
"""Functions, methods and attributes of Triton that keep the dtype of a block."""


def is_kernel(function: cst.FunctionDef) -> bool:
    """Whether a decorator compiles a function with Triton."""
    names = (dotted(node) for decorator in function.decorators for node in (decorator.decorator,))
    called = (
        dotted(decorator.decorator.func)
        for decorator in function.decorators
        if isinstance(decorator.decorator, cst.Call)
    )
    return any((name or "").rpartition(".")[2] == "jit" for name in (*names, *called))


@cached_per_file
def multiplied(kernel: cst.FunctionDef) -> tuple[tuple[str, str], ...]:
    """The pairs of parameters whose elements `tl.dot` multiplies without a cast: it refuses two dtypes."""
    if not is_kernel(kernel):
        return ()
    parameters = {parameter.name.value for parameter in kernel.params.params}
    pointers = {name: name for name in parameters}
    blocks: dict[str, str | None] = {}
    for node in _assignments(kernel):
        name, value = node
        pointer = _pointer(value, pointers)
        if name not in parameters and pointer is not None:
            pointers[name] = pointer
        loaded = _block(value, pointers, blocks)
        if loaded is not None or name in blocks:
            blocks[name] = loaded if blocks.get(name, loaded) == loaded else None
    found: dict[tuple[str, str], None] = {}
    for call in every(kernel, cst.Call):
        if last_name(call.func) == "dot" and len(call.args) > 1:
            sides = [_block(argument.value, pointers, blocks) for argument in call.args[:2]]
            if sides[0] is not None and sides[1] is not None and sides[0] != sides[1]:
                found[sides[0], sides[1]] = None
    return tuple(found)


def _assignments(kernel: cst.FunctionDef) -> Iterator[tuple[str, cst.BaseExpression]]:
    for node in walk(kernel.body):
        if isinstance(node, cst.Assign) and isinstance(node.targets[0].target, cst.Name):
            yield node.targets[0].target.value, node.value


def _pointer(node: cst.BaseExpression, pointers: dict[str, str]) -> str | None:
    """The parameter into whose tensor an expression points: the first term of a sum of it and offsets."""
    while isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Add, cst.Subtract)):
        node = node.left
    if isinstance(node, cst.Call) and last_name(node.func) in ("make_block_ptr", "advance"):
        base = next((one for one in node.args if one.keyword is None or one.keyword.value == "base"), None)
        return _pointer(base.value, pointers) if base is not None else None
    return pointers.get(node.value) if isinstance(node, cst.Name) else None


def _block(node: cst.BaseExpression, pointers: dict[str, str], blocks: dict[str, str | None]) -> str | None:
    """The parameter whose dtype a block has."""
    if isinstance(node, cst.Name):
        return blocks.get(node.value)
    if isinstance(node, cst.Attribute):
        return _block(node.value, pointers, blocks) if node.attr.value in _SHAPES else None
    if isinstance(node, cst.Subscript):
        return _block(node.value, pointers, blocks)
    if isinstance(node, cst.Call):
        name = last_name(node.func)
        if name == "load" and node.args:
            return _pointer(node.args[0].value, pointers)
        if name in _SHAPES:
            of = node.args[0].value if _is_of_language(node.func) and node.args else None
            if of is None and isinstance(node.func, cst.Attribute):
                of = node.func.value
            return _block(of, pointers, blocks) if of is not None else None
    return None


def _is_of_language(func: cst.BaseExpression) -> bool:
    return isinstance(func, cst.Attribute) and dotted(func.value) in ("tl", "triton.language")
