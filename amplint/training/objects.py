"""Aliases of certain objects of a script, such as scalers, in each of its functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.training.scopes import Scope
from amplint.training.script import Script

Known = tuple[Scope, str, str]
"""A function, an expression in it that names an object, and the kind of the object."""
ROUNDS = 10


class Objects:
    """The aliases of the objects `known`, by arguments of calls within the file and by assignments.

    Attributes of `self` are known in the whole class.
    """

    def __init__(self, script: Script, known: Iterable[Known]) -> None:
        self._script = script
        self._names: dict[Scope, dict[str, set[str]]] = {}
        for scope, text, kind in known:
            self._learn(scope, text, kind)
        for _ in range(ROUNDS):
            before = list(self.known)
            self._follow()
            if len(before) == len(list(self.known)):
                break

    @property
    def known(self) -> Iterator[Known]:
        """Every alias with the function, or class, in which it is known."""
        for scope, names in self._names.items():
            for text, kinds in names.items():
                yield from ((scope, text, kind) for kind in kinds)

    def named(self, scope: Scope, kind: str) -> list[str]:
        """The expressions that name an object of this kind in the function `scope`, those of outer functions first."""
        found: list[str] = []
        for length in range(len(scope) + 1):
            for text, kinds in self._names.get(scope[:length], {}).items():
                if kind in kinds and not self._is_shadowed(text, scope, length):
                    found.append(text)
        return list(dict.fromkeys(found))

    def means(self, scope: Scope, text: str, kind: str) -> bool:
        """Whether `text` names an object of this kind in the function `scope`."""
        return kind in self._kinds(scope, text)

    def mentions(self, kind: str) -> Iterator[cst.BaseExpression]:
        """The nodes that name an object of this kind."""
        lasts = {text.rpartition(".")[2] for _, text, one in self.known if one == kind}
        for node in self._script.of_kind(cst.Name, cst.Attribute):
            last = node.attr.value if isinstance(node, cst.Attribute) else getattr(node, "value", "")
            if last not in lasts or isinstance(self._script.source.parent(node), cst.Param):
                continue
            if not self._script.rewrite.is_word(node) and self.means(
                self._script.scope(node), self._script.text_of(node), kind
            ):
                yield node

    def _learn(self, scope: Scope, text: str, kind: str) -> None:
        owner = self._script.class_of(scope)
        home = owner if owner is not None and text.startswith("self.") else scope
        self._names.setdefault(home, {}).setdefault(text, set()).add(kind)

    def _kinds(self, scope: Scope, text: str) -> set[str]:
        """The kinds of the object that `text` names in the function `scope`."""
        for length in range(len(scope), -1, -1):
            kinds = self._names.get(scope[:length], {}).get(text)
            if kinds is not None:
                return set() if self._is_shadowed(text, scope, length) else kinds
        return set()

    def _is_shadowed(self, text: str, scope: Scope, length: int) -> bool:
        """Whether a function between that of `length` names and `scope` shadows the root of `text`."""
        root = text.partition(".")[0]
        return root != "self" and self._script.is_shadowed(scope, scope[:length], root)

    def _follow(self) -> None:
        """Propagate aliases through arguments and assignments."""
        texts, script = {text for _, text, _ in self.known}, self._script
        for call in script.calls:
            for argument in call.args:
                given = dotted(argument.value)
                if given is not None and given in texts:
                    target, name = script.target(call), script.bound_parameter(call, argument)
                    if target is not None and name is not None:
                        self._propagate_kinds(script.scope(call), given, target, name)
        for node in script.of_kind(cst.Assign):
            given = dotted(node.value)
            name = dotted(node.targets[0].target) if len(node.targets) == 1 else None
            if given is not None and given in texts and name is not None:
                self._propagate_kinds(script.scope(node), given, script.scope(node), name)

    def _propagate_kinds(self, scope: Scope, given: str, there: Scope, name: str) -> None:
        for kind in set(self._kinds(scope, given)):
            self._learn(there, name, kind)
