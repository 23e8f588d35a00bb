"""Settings that a config inherits from the files in `_base_`, in mmengine's form."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from amplint.codemods.mmcv.settings import DELETE
from amplint.engine.config import MAX_FILE_SIZE
from amplint.fixes.names import parse
from amplint.records import dataclass
from amplint.source.encoding import SourceError, decode
from amplint.source.files import read
from amplint.training.refusal import Refusal

UNKNOWN = object()
"""The value of an expression that is no literal."""
BASES = "_base_"
WRAPPER = "optim_wrapper"

Convert = Callable[[str, str, tuple[str, ...]], str]
"""Converts the text of the file at a path, reached through the files at the other paths, to mmengine's settings."""


@dataclass(frozen=True, slots=True)
class Inherited:
    """The `optim_wrapper` that a config inherits; None if a base cannot be read, which is `missing`."""

    wrapper: dict[str, Any] | None
    missing: str = ""
    row: int = 1


def inherited(text: str, path: str, convert: Convert, seen: tuple[str, ...] = ()) -> Inherited:
    """The settings of the bases of `text`, the content of the file at `path`, after their conversion.

    Raises Refusal if one of them cannot be converted, or if two of them set the same key.
    """
    tree = parse(text)
    values = evaluated(tree)
    if BASES not in values:
        return Inherited({})
    named = values[BASES]
    row = next((node.lineno for node in tree.body if _binds(node, BASES)), 1) if tree else 1
    bases = named if isinstance(named, list) else [named]
    wrapper: dict[str, Any] = {}
    for base in bases:
        if not isinstance(base, str):
            return Inherited(None, BASES, row)
        found = _wrapper_of(base, row, path, convert, seen)
        if found is None:
            return Inherited(None, base, row)
        if found and wrapper:
            raise Refusal(row, f"several bases say something about the optimizer, {base} among them: mmengine refuses")
        wrapper = found or wrapper
    return Inherited(wrapper, row=row)


def evaluated(tree: ast.Module | None) -> dict[str, Any]:
    """The literal values that the top level of a file binds to names."""
    values: dict[str, Any] = {}
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            values[node.targets[0].id] = value_of(node.value, values)
        else:
            values.update(dict.fromkeys(_touched(node), UNKNOWN))
    return values


def value_of(node: ast.expr, names: dict[str, Any]) -> Any:
    """The value of a literal expression; tuples count as lists."""
    if isinstance(node, ast.Name):
        return names.get(node.id, UNKNOWN)
    if isinstance(node, (ast.List, ast.Tuple)):
        return [value_of(element, names) for element in node.elts]
    if isinstance(node, ast.Dict):
        keys = [each.value if isinstance(each, ast.Constant) else None for each in node.keys]
        if all(isinstance(each, str) for each in keys):
            return dict(zip(keys, (value_of(each, names) for each in node.values), strict=True))
        return UNKNOWN
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
        if all(each.arg is not None for each in node.keywords):
            return {each.arg: value_of(each.value, names) for each in node.keywords}
        return UNKNOWN
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return UNKNOWN


def merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """`own` merged into `base`, by the rules of configs."""
    result = dict(base)
    for name, value in own.items():
        if isinstance(value, dict):
            rest = {each: given for each, given in value.items() if each != DELETE}
            inner = result.get(name)
            keeps = isinstance(inner, dict) and not value.get(DELETE)
            result[name] = merged(inner, rest) if keeps and isinstance(inner, dict) else rest
        else:
            result[name] = value
    return result


def _wrapper_of(base: str, row: int, path: str, convert: Convert, seen: tuple[str, ...]) -> dict[str, Any] | None:
    where = Path(os.path.normpath(Path(path).parent / base))
    if not path or where.suffix != ".py" or str(where) in seen or len(seen) > 20:
        return None
    try:
        text, _ = decode(read(where, MAX_FILE_SIZE))
        above = inherited(text, str(where), convert, (*seen, str(where)))
        if above.wrapper is None:
            return None
        new = convert(text, str(where), (*seen, str(where)))
    except (OSError, ValueError, SourceError):
        return None
    except Refusal as refusal:
        raise Refusal(row, f"{base} cannot be converted: {refusal.why}") from None
    own = evaluated(parse(new)).get(WRAPPER, {})
    return merged(above.wrapper, own) if isinstance(own, dict) else None


def _binds(node: ast.stmt, name: str) -> bool:
    return name in _touched(node)


def _touched(node: ast.stmt) -> Iterator[str]:
    """The names that a statement may bind or change."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
            yield inner.id
        elif isinstance(inner, (ast.Subscript, ast.Attribute)) and isinstance(inner.value, ast.Name):
            yield inner.value.id
