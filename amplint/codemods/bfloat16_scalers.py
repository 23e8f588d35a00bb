"""Removal of a gradient scaler from a script: its calls on losses, optimizers and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.codemods.editing import without
from amplint.findings import Edit, Span
from amplint.source import syntax as cst
from amplint.training.names import Use
from amplint.training.objects import Known, Objects
from amplint.training.refusal import Refusal, required
from amplint.training.script import Script

KIND = "scaler"
_NOTHING_LEFT = ("unscale_", "update", "load_state_dict")
_LATER = ("is_enabled", "get_scale")
"""Methods whose removal depends on the code around."""


class Scalers:
    """The scalers that `made` constructs, by their names in each function."""

    def __init__(self, script: Script, made: list[Use]) -> None:
        self.script = script
        self.flags: dict[str, str] = {}
        self._statements: list[cst.CSTNode] = []
        self.objects = Objects(script, [self._made(use) for use in made])

    def means(self, node: cst.CSTNode) -> bool:
        """Whether `node` names a scaler."""
        named = isinstance(node, (cst.Name, cst.Attribute))
        return named and self.objects.means(self.script.scope(node), self.script.text_of(node), KIND)

    def comparison(self, test: cst.BaseExpression) -> bool | None:
        """The value of a condition that tests whether the scale has changed; None for any other."""
        if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
            return None
        before, now = self._kept_scale(test.left), self._is_scale(test.left)
        other, operator = test.comparisons[0].comparator, test.comparisons[0].operator
        if (before and self._is_scale(other)) or (now and self._kept_scale(other)):
            return isinstance(operator, (cst.Equal, cst.GreaterThanEqual, cst.LessThanEqual))
        return None

    def _is_scale(self, node: cst.CSTNode) -> bool:
        called = (
            isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "get_scale"
        )
        return called and self.means(node.func.value)  # type: ignore[attr-defined]

    def _kept_scale(self, node: cst.CSTNode) -> bool:
        """Whether a variable only ever holds the scale."""
        if not isinstance(node, cst.Name):
            return False
        given = [
            each.value
            for each in self.script.of_kind(cst.Assign)
            if self.script.text_of(each.targets[0].target) == node.value
        ]
        return bool(given) and all(self._is_scale(value) for value in given)

    def readings(self) -> Iterator[cst.Assign]:
        """The assignments of the scale to a variable that is never read."""
        for node in self.script.of_kind(cst.Assign):
            name = self.script.text_of(node.targets[0].target)
            if self._is_scale(node.value) and len(node.targets) == 1:
                named = list(self.script.of_kind(cst.Name))
                pairs = [(each, self.script.source.parent(each)) for each in named if each.value == name]
                others = [
                    above for each, above in pairs if not isinstance(above, cst.Attribute) or above.attr is not each
                ]
                if all(isinstance(above, cst.AssignTarget) for above in others):
                    yield node

    def conditions(self) -> set[str]:
        """The conditions of the `if` statements in which a scaler is used."""
        found: set[str] = set()
        for node in self.objects.mentions(KIND):
            above = (each for each in self.script.source.ancestors(node) if isinstance(each, cst.If))
            found.update(self.script.text_of(each.test) for each in above)
        return found

    def edits(self) -> list[Edit]:
        """The edits that remove the scalers."""
        found = [self._removed(statement) for statement in self._statements]
        for node in self.objects.mentions(KIND):
            above = self.script.source.parent(node)
            if isinstance(above, cst.Attribute) and above.value is node:
                found += self._method(node, above)
            elif isinstance(above, cst.Arg):
                found += self._argument_removal(node, above)
            elif self._is_alias(node) or self._is_none(node):
                found.append(self._removed(node))
        for scope, function in self.script.functions.items():
            names = {text for home, text, _ in self.objects.known if home == scope}
            found += self._parameters(function, names) if names else ()
        return list(dict.fromkeys(found))

    def _made(self, use: Use) -> Known:
        """The variable to which a new scaler is assigned."""
        row = self.script.row(use.node)
        value: cst.CSTNode | None = use.call
        if use.call is None:
            raise Refusal(row, "the class of scalers is handed on instead of being called")
        above = self.script.source.parent(use.call)
        if isinstance(above, cst.IfExp) and above.body is use.call and self.script.text_of(above.orelse) == "None":
            value, above = above, self.script.source.parent(above)
        if isinstance(above, (cst.Assign, cst.AnnAssign)) and above.value is value:
            targets = [each.target for each in above.targets] if isinstance(above, cst.Assign) else [above.target]
            if len(targets) == 1 and isinstance(targets[0], (cst.Name, cst.Attribute)):
                text = self.script.text_of(targets[0])
                self.flags[text] = self._flag(value, use.call)
                self._statements.append(above)
                return self.script.scope(use.node), text, KIND
        raise Refusal(row, "the scaler is not assigned to one variable")

    def _flag(self, value: cst.CSTNode | None, call: cst.Call) -> str:
        """The expression of the flag that enables a scaler."""
        enabled = self.script.rewrite.find_argument(call, "enabled")
        if isinstance(value, cst.IfExp):
            return self.script.text_of(value.test)
        return self.script.text_of(enabled.value) if enabled is not None else "True"

    def _is_alias(self, node: cst.CSTNode) -> bool:
        above = self.script.source.parent(node)
        if not isinstance(above, cst.Assign) or above.value is not node or len(above.targets) != 1:
            return False
        return isinstance(above.targets[0].target, (cst.Name, cst.Attribute))

    def _is_none(self, node: cst.CSTNode) -> bool:
        """Whether a statement only assigns None in place of a scaler."""
        target = self.script.source.parent(node)
        above = self.script.source.parent(target) if isinstance(target, cst.AssignTarget) else None
        return isinstance(above, cst.Assign) and len(above.targets) == 1 and self.script.text_of(above.value) == "None"

    def _method(self, node: cst.CSTNode, method: cst.Attribute) -> Iterator[Edit]:
        call, name = self.script.source.parent(method), method.attr.value
        row = self.script.row(node)
        if not isinstance(call, cst.Call) or call.func is not method:
            raise Refusal(row, f"{name} of the scaler is used without a call")
        statement = self.script.source.parent(call)
        alone = isinstance(statement, cst.Expr)
        if name == "scale" and len(call.args) == 1:
            yield self.script.rewrite.replace(call, self.script.rewrite.operand(call.args[0].value))
        elif name == "step" and len(call.args) == 1:
            yield self.script.rewrite.replace(call, f"{self.script.rewrite.operand(call.args[0].value)}.step()")
        elif name in _NOTHING_LEFT and alone:
            yield self._removed(call)
        elif name == "state_dict":
            yield from self._state(call)
        elif name == "is_enabled":
            yield self.script.rewrite.replace(call, self.flags.get(self.script.text_of(node), "True"))
        elif name not in _LATER:
            raise Refusal(row, f"what {name} of the scaler is used for is not understood")

    def _state(self, call: cst.Call) -> Iterator[Edit]:
        """The edits that remove the scaler's state from a checkpoint."""
        above = self.script.source.parent(call)
        if isinstance(above, cst.DictElement):
            display = self.script.source.parent(above)
            assert isinstance(display, cst.Dict)
            yield from self._without(display.elements, above)
        elif isinstance(above, cst.Assign):
            yield self._removed(call)
        elif isinstance(above, cst.Arg) and above.keyword is not None and self._makes_dict(above):
            display = self.script.source.parent(above)
            assert isinstance(display, cst.Call)
            yield from self._without(display.args, above)
        else:
            raise Refusal(self.script.row(call), "the state of the scaler is handed on")

    def _makes_dict(self, argument: cst.Arg) -> bool:
        call = self.script.source.parent(argument)
        return isinstance(call, cst.Call) and self.script.text_of(call.func) == "dict"

    def _argument_removal(self, node: cst.CSTNode, argument: cst.Arg) -> Iterator[Edit]:
        call = self.script.source.parent(argument)
        if self.script.target(call) is None or not isinstance(call, cst.Call):
            raise Refusal(self.script.row(node), "the scaler is handed to something that is not in this file")
        yield from self._without(call.args, argument)

    def _without(self, items: Sequence[cst.CSTNode], item: cst.CSTNode) -> Iterator[Edit]:
        """The edits that remove `item` from a list in brackets."""
        yield from without(self.script, [self.script.source.span(each) for each in items], [list(items).index(item)])

    def _parameters(self, function: cst.FunctionDef, names: set[str]) -> Iterator[Edit]:
        """The edits that remove the parameters that took a scaler."""
        params = function.params
        positional, named = [*params.posonly_params, *params.params], list(params.kwonly_params)
        whole = bool(named and positional) and all(param.name.value in names for param in named)
        if whole and isinstance(params.star_arg, cst.ParamStar):
            yield Edit(Span(self._extent(positional[-1]).end, self._extent(named[-1]).end), "")
            named = []
        for group in (positional, named):
            gone = [index for index, param in enumerate(group) if param.name.value in names]
            yield from without(self.script, [self._extent(param) for param in group], gone)

    def _extent(self, param: cst.Param) -> Span:
        """The span of a parameter with its annotation and its default."""
        last = param.default or param.annotation or param.name
        return Span(self.script.source.span(param).start, self.script.rewrite.span(last).end)

    def _removed(self, node: cst.CSTNode) -> Edit:
        return required(self.script.rewrite.remove_statement(node), node)
