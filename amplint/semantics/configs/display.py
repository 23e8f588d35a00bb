"""Values of the dictionary displays that represent configuration files, and the positions of their entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from amplint.regex import regex
from amplint.semantics.values.values import FALSE, NONE, TRUE, Const, Items, Unknown, Value
from amplint.source import syntax as cst

_WORDS = {"True": TRUE, "False": FALSE, "None": NONE}
_REFERENCE = regex(r"\$\{([\w.]+)\}")
_REAL = regex(r"[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+")
MISSING = "???"
"""OmegaConf's placeholder for a mandatory value."""
_INDIRECT = 8
"""The limit of chained references; more are a cycle."""


class Reader:
    """Evaluates displays; `fresh` makes the symbol of an unknown value.

    With `omega` values are OmegaConf's: `1e-5` is a number, `???` is unknown, and `${a.b}` is a reference, which stays
    a string until the whole is `resolved`.
    """

    def __init__(self, fresh: Callable[[], int], *, omega: bool = False) -> None:
        self._fresh = fresh
        self._omega = omega

    def value(self, node: cst.BaseExpression) -> Value:
        """The value of `node`, including nested ones."""
        if isinstance(node, cst.Dict):
            pairs = [element for element in node.elements if isinstance(element, cst.DictElement)]
            keys = tuple(self.value(pair.key) for pair in pairs)
            return Items(tuple(self.value(pair.value) for pair in pairs), keys)
        if isinstance(node, cst.List):
            return Items(tuple(self.value(element.value) for element in node.elements))
        if isinstance(node, cst.BaseNumber):
            return Const(node.evaluated_value)
        if isinstance(node, cst.SimpleString):
            return self._text(str(node.evaluated_value))
        return _WORDS.get(node.value, self._unknown()) if isinstance(node, cst.Name) else self._unknown()

    def _text(self, text: str) -> Value:
        if self._omega and _REAL.fullmatch(text):
            return Const(float(text))
        return self._unknown() if self._omega and text == MISSING else Const(text)

    def resolved(self, root: Value) -> Value:
        """`root` with references replaced by the values they refer to; unknown unless those are constants."""
        return self._resolved(root, root, 0)

    def _resolved(self, value: Value, root: Value, depth: int) -> Value:
        if isinstance(value, Items):
            return Items(tuple(self._resolved(one, root, depth) for one in value.values), value.keys)
        if not isinstance(value, Const) or not isinstance(value.value, str) or "${" not in value.value:
            return value
        reference = _REFERENCE.fullmatch(value.value)
        named = get(root, *reference[1].split(".")) if reference is not None and depth < _INDIRECT else None
        return self._resolved(named, root, depth + 1) if isinstance(named, Const) else self._unknown()

    def _unknown(self) -> Unknown:
        return Unknown(self._fresh())


def refers(value: Value) -> bool:
    """Whether a value contains a reference."""
    if isinstance(value, Items):
        return any(map(refers, value.values))
    return isinstance(value, Const) and isinstance(value.value, str) and "${" in value.value


def find(tree: cst.CSTNode, *keys: str) -> cst.DictElement | None:
    """The entry at the nested `keys`; None if there is none."""
    found = None
    for key in keys:
        entries = tree.elements if isinstance(tree, cst.Dict) else ()
        found = next((one for one in entries if isinstance(one, cst.DictElement) and name_of(one) == key), None)
        if found is None:
            return None
        tree = found.value
    return found


def name_of(entry: cst.DictElement) -> str | None:
    """The key of an entry, if it is a string."""
    key = entry.key
    return str(key.evaluated_value) if isinstance(key, cst.SimpleString) else None


def dictionaries(tree: cst.CSTNode) -> Iterator[cst.Dict]:
    """The dictionaries in a display, the outer ones first."""
    todo, seen = [tree], set()
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, cst.Dict):
            yield node
            todo += [entry.value for entry in reversed(node.elements) if isinstance(entry, cst.DictElement)]
        elif isinstance(node, cst.List):
            todo += [element.value for element in reversed(node.elements)]


def get(settings: Value | None, *keys: str) -> Value | None:
    """The value at the nested `keys` of a dictionary; None if there is none."""
    found: Value | None = settings
    for key in keys:
        if not isinstance(found, Items) or found.keys is None or Const(key) not in found.keys:
            return None
        found = found.values[found.keys.index(Const(key))]
    return found


def names(settings: Items | None) -> set[str]:
    """The string keys of a dictionary."""
    keys = (settings.keys or ()) if settings is not None else ()
    return {key.value for key in keys if isinstance(key, Const) and isinstance(key.value, str)}
