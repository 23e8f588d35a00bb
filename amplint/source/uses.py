"""Bindings of names: the uses of an import, and whether code has the same meaning elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.source import syntax as cst
from amplint.source.rewrite_base import RewriterBase
from amplint.source.tree import walk

_BINDS_NAME = (
    cst.AsName, cst.ClassDef, cst.FunctionDef, cst.MatchAs, cst.MatchStar, cst.NameItem, cst.Param, cst.TypeVar,
)  # fmt: skip
_BINDS_TARGET = (
    cst.AnnAssign, cst.AssignTarget, cst.AugAssign, cst.CompFor, cst.Del, cst.For, cst.NamedExpr,
)  # fmt: skip
_UNPACKING = (cst.Element, cst.List, cst.StarredElement, cst.Tuple)


class NameUses(RewriterBase):
    """Finds the uses of imported names."""

    def import_uses(
        self, alias: cst.ImportAlias
    ) -> tuple[cst.BaseExpression, dict[str, list[cst.BaseExpression]]] | None:
        """The module of the `from` import that contains `alias`, and each name imported from it with its uses.

        Strings that spell the name (`__all__`) count as uses. None for other imports, and if one of the names is bound
        more than once, so that its meaning is ambiguous.
        """
        statement = self.source.parent(alias)
        if not isinstance(statement, cst.ImportFrom) or statement.module is None or statement.relative:
            return None
        found: dict[str, list[cst.BaseExpression]] = {}
        for each in statement.names if not isinstance(statement.names, cst.ImportStar) else ():
            uses = self._uses(each)
            if uses is None:
                return None
            found[self.text(each.name)] = uses
        return statement.module, found

    def _uses(self, alias: cst.ImportAlias) -> list[cst.BaseExpression] | None:
        bound = alias.asname.name if alias.asname is not None else alias.name
        if not isinstance(bound, cst.Name):
            return None
        found: list[cst.BaseExpression] = []
        for root in self._scope(alias, bound.value):
            for node in walk(root):
                if isinstance(node, cst.SimpleString) and node.evaluated_value == bound.value:
                    found.append(node)
                elif isinstance(node, cst.Name) and node.value == bound.value and node is not bound:
                    if self._binds(node):
                        return None
                    if not self.is_word(node):
                        found.append(node)
        return found

    def is_only_called(self, name: str) -> bool:
        """Whether a variable is only set, passed as the keyword `name`, and called without positional arguments."""
        for chunk in self.source.chunks:
            for node in walk(chunk.module) if name in chunk.words else ():
                if not isinstance(node, cst.Name) or node.value != name or self.is_word(node):
                    continue
                above = self.source.parent(node)
                keyword = above.keyword if isinstance(above, cst.Arg) else None
                called = isinstance(above, cst.Call) and above.func is node
                plain = called and all(one.keyword is not None for one in above.args)  # type: ignore[union-attr]
                set_or_declared = isinstance(above, (cst.AssignTarget, cst.Param)) and not self._is_default(node, above)
                if not plain and not set_or_declared and (keyword is None or keyword.value != name):
                    return False
        return True

    @staticmethod
    def _is_default(node: cst.CSTNode, above: cst.CSTNode) -> bool:
        return isinstance(above, cst.Param) and above.default is node

    def bound_for(self, places: Sequence[cst.CSTNode], allowed: cst.CSTNode) -> bool:
        """Whether a variable bound in `places` is mentioned elsewhere in its function, except in `allowed`."""
        bound = {n.value for place in places for n in walk(place) if isinstance(n, cst.Name) and self._binds(n)}
        inside = {node for place in (*places, allowed) for node in walk(place)}
        above = (node for node in self.source.ancestors(allowed) if isinstance(node, (cst.FunctionDef, cst.Module)))
        return any(
            isinstance(node, cst.Name) and node.value in bound and node not in inside
            for node in walk(next(above, allowed))
        )

    def means_the_same(self, node: cst.CSTNode, there: cst.CSTNode) -> bool:
        """Whether the names in `node` are bound by the same scopes in the place of `there`.

        Parameters of the same name, such as `self` or `args`, are assumed to be the same object in both functions.
        """
        for inner in walk(node):
            if not isinstance(inner, cst.Name) or self.is_word(inner):
                continue
            here, other = self._binder(inner.value, node), self._binder(inner.value, there)
            if here is not other and not (
                self._is_parameter(inner.value, here) and self._is_parameter(inner.value, other)
            ):
                return False
        return True

    def _binder(self, name: str, node: cst.CSTNode) -> cst.CSTNode | None:
        """The function around `node` that binds `name`, None for the module."""
        functions = (above for above in self.source.ancestors(node) if isinstance(above, cst.FunctionDef))
        return next((function for function in functions if self._bound_in(function, name)), None)

    def _bound_in(self, function: cst.FunctionDef, name: str) -> bool:
        inside = (n for part in (function.params, function.body) for n in walk(part))
        return any(isinstance(n, cst.Name) and n.value == name and self._binds(n) for n in inside)

    @staticmethod
    def _is_parameter(name: str, function: cst.CSTNode | None) -> bool:
        params = walk(function.params) if isinstance(function, cst.FunctionDef) else ()
        return any(isinstance(param, cst.Param) and param.name.value == name for param in params)

    def names_type(self, node: cst.CSTNode) -> bool:
        """Whether `node` is in an annotation or an `isinstance` test, where only the name of the class matters."""
        above: cst.CSTNode | None = node
        while isinstance(above, (cst.BaseExpression, cst.Arg, *_UNPACKING, cst.SubscriptElement, cst.Index)):
            above, inner = self.source.parent(above), above
            if isinstance(above, cst.Call) and isinstance(above.func, cst.Name) and inner is not above.func:
                return above.func.value == "isinstance"
        return isinstance(above, cst.Annotation)

    def _scope(self, alias: cst.ImportAlias, name: str) -> list[cst.CSTNode]:
        inside = (above for above in self.source.ancestors(alias) if isinstance(above, (cst.FunctionDef, cst.ClassDef)))
        function = next(inside, None)
        return [function] if function else [chunk.module for chunk in self.source.chunks if name in chunk.text]

    def is_word(self, node: cst.CSTNode) -> bool:
        """Whether `node` is the word of an attribute, a keyword or an import, and no variable."""
        above = self.source.parent(node)
        if isinstance(above, cst.ImportAlias):
            return True
        return (isinstance(above, cst.Attribute) and above.attr is node) or (
            isinstance(above, cst.Arg) and above.keyword is node
        )

    def _binds(self, node: cst.Name) -> bool:
        """Whether `node` is a binding occurrence, not merely part of an expression in one."""
        inner: cst.CSTNode = node
        above = self.source.parent(node)
        if isinstance(above, cst.ImportAlias):
            return above.asname is None
        if isinstance(above, _BINDS_NAME):
            return node is getattr(above, "name", None) or node is getattr(above, "item", None)
        while isinstance(above, _UNPACKING):
            inner, above = above, self.source.parent(above)
        return isinstance(above, _BINDS_TARGET) and above.target is inner
