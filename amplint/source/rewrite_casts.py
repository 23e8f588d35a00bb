"""Edits of dtype casts: `.half()`, `.to(torch.float16)`, `.float()`."""

from __future__ import annotations

from amplint.findings import Edit, Span
from amplint.source import syntax as cst
from amplint.source.rewrite_statements import StatementEdits
from amplint.source.tree import every, walk

_METHODS = ("half", "bfloat16")
_TRANSPOSED = ("T", "mT")
_DTYPES = ("half", "float16", "bfloat16")


class CastEdits(StatementEdits):
    """Edits of dtype casts."""

    def add_float(self, node: cst.BaseExpression) -> Edit:
        """Cast the tensor `node` to float32 where it is used, or each tensor of a tuple or list of them.

        Of a sigmoid it casts the input: in half it is exactly 1 where float32 has digits left. The rows of what spans
        several are left for other edits, which may indent them.
        """
        if isinstance(node, cst.Tuple) and len(node.elements) > 1:
            return self.replace(node, f"({', '.join(f'{self.operand(one.value)}.float()' for one in node.elements)})")
        if isinstance(node, cst.List):
            return self.replace(node, f"[{', '.join(f'{self.operand(one.value)}.float()' for one in node.elements)}]")
        if isinstance(node, cst.Call) and (given := _of_sigmoid(node)) is not None:
            return self.add_float(given)
        span, operand = self.span(node), self.operand(node)
        if span.start.row != span.end.row and operand == self.text(node):
            return Edit(Span(span.end, span.end), ".float()")
        return self.replace(node, f"{operand}.float()")

    def float_instead(self, call: cst.Call) -> Edit | None:
        """Let `call` cast to float32 instead of half: `.half()`, `.bfloat16()` or an explicit dtype."""
        if not isinstance(call.func, cst.Attribute):
            return None
        if call.func.attr.value in _METHODS:
            return self.replace(call.func.attr, "float")
        inside = (node for argument in call.args for node in walk(argument.value))
        named = [node.attr for node in inside if isinstance(node, cst.Attribute) and node.attr.value in _DTYPES]
        return self.replace(named[0], "float32") if len(named) == 1 else None

    def drop_conversion(self, call: cst.Call) -> Edit | None:
        """Remove `.half()` or `.to(dtype)`, with its statement if that does nothing else."""
        if not isinstance(call.func, cst.Attribute) or (call.args and len(call.args) != 1):
            return None
        owner, statement = call.func.value, self.source.parent(call)
        if (isinstance(statement, cst.Expr) and not any(every(owner, cst.Call))) or _rebinds(statement, owner):
            return self.remove_statement(call)
        return Edit(Span(self.span(owner).end, self.source.span(call).end), "") if not self.parentheses(call) else None

    def convert_in(self, region: cst.With, place: cst.BaseExpression) -> Edit | None:
        """Cast to float32 the tensor at the root of the method chain `place`, for the rest of `region`.

        None if it is no plain variable, or if the region assigns it.
        """
        while (method := _applied(place)) is not None:
            place = method.value
        if not isinstance(place, cst.Name) or not isinstance(region.body, cst.IndentedBlock):
            return None
        mentions = [node for node in walk(region.body) if isinstance(node, cst.Name) and node.value == place.value]
        if len(mentions) == 1:
            return self.add_float(mentions[0])
        if not mentions or not self._reads(mentions[0]):
            return None
        return self.insert_before(region.body.body[0], f"{place.value} = {place.value}.float()")

    def _reads(self, name: cst.Name) -> bool:
        """Whether the statement that contains `name` reads that variable, before any assignment of its own."""
        if not isinstance(self.source.parent(name), cst.AssignTarget):
            return True
        assignment = next(above for above in self.source.ancestors(name) if isinstance(above, cst.Assign))
        return name.value in self.names(assignment.value)


def _rebinds(statement: cst.CSTNode | None, value: cst.BaseExpression) -> bool:
    """Whether a statement assigns to the one name or attribute that `value` is."""
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return False
    return isinstance(value, (cst.Name, cst.Attribute)) and statement.targets[0].target.deep_equals(value)


def _applied(node: cst.BaseExpression) -> cst.Attribute | None:
    """`x.method` of `x.method(...)`, and `x.T`."""
    if isinstance(node, cst.Call):
        return node.func if isinstance(node.func, cst.Attribute) else None
    return node if isinstance(node, cst.Attribute) and node.attr.value in _TRANSPOSED else None


def _of_sigmoid(call: cst.Call) -> cst.BaseExpression | None:
    """The tensor of which a call computes the sigmoid, by a function of PyTorch or as a method."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "sigmoid":
        return None
    if not call.args:
        return call.func.value
    only = call.args[0] if len(call.args) == 1 else None
    return only.value if only is not None and only.keyword is None and not only.star else None
