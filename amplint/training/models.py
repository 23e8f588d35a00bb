"""Modules that a script constructs: the module that a call runs, and all calls of a module."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import LOOKS_AT_MODEL
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.training.calls import Calls
from amplint.training.names import Use
from amplint.training.script import Script
from amplint.training.variables import Variable, Variables

_SEQUENTIAL = "torch.nn.Sequential"
_ITSELF = frozenset({"to", "cuda", "cpu", "float", "train", "eval", "requires_grad_", "share_memory", "apply"})
"""Methods that return their receiver, a module."""
_WRAPPERS = frozenset({"DataParallel", "DistributedDataParallel", "compile", "convert_sync_batchnorm"})
_RUNS = "data_parallel"
_HIDDEN = frozenset({"forward", "module", "__call__"})


class Unclear(Exception):
    """The origin or a use of a value is not certain."""


class Models:
    """Resolves modules by assignments and calls in one file. Raises Unclear."""

    def __init__(
        self, script: Script, calls: Calls, variables: Variables, names: Mapping[cst.BaseExpression, Use]
    ) -> None:
        self._script = script
        self._calls = calls
        self._variables = variables
        self._names = names

    def is_layer(self, func: cst.BaseExpression, name: str) -> bool:
        """Whether `func` names a module that is always constructed by `name()`."""
        made = self._made(func)
        return bool(made) and all(self._name(one) == name and not one.args for one in made)

    def last_layers(self, call: cst.Call) -> list[cst.Call] | None:
        """The last layers of the `Sequential` that `call` runs, if its construction is visible."""
        made = self._made(self._run_by(call))
        if not made or any(self._name(one) != _SEQUENTIAL or not one.args or one.args[-1].star for one in made):
            return None
        layers = [one.args[-1].value for one in made]
        return [layer for layer in layers if isinstance(layer, cst.Call)] if len(layers) == len(made) else None

    def forward_of(self, call: cst.Call) -> cst.FunctionDef | None:
        """The `forward` method, of a class of the file, that `call` runs."""
        made = self._made(self._run_by(call))
        owners = {dotted(one.func) for one in made}
        found = [one for one in self._calls.functions if one.name.value == "forward" and self._owner(one) in owners]
        return found[0] if len(found) == len(owners) == 1 else None

    def calls_of_function(self, function: cst.FunctionDef) -> Iterator[cst.Call]:
        """Every call of `function`; for a forward pass, every call of an instance of its class."""
        owner = self._script.method_owner(function)
        if owner is None or function.name.value != "forward":
            callers = self._calls.callers(function)
            if callers is None:
                raise Unclear
            yield from callers
            return
        if any(isinstance(node, cst.Attribute) and node.attr.value == "forward" for node in self._script.nodes):
            raise Unclear
        yield from (node for node in walk(owner) if isinstance(node, cst.Call) and dotted(node.func) == "self")
        made = []
        for node in self._variables.reads(Variable(None, owner.name.value)):
            call = self._script.source.parent(node)
            if isinstance(call, cst.Call) and call.func is node:
                made.append(call)
            elif not self._is_harmless(node):
                raise Unclear
        for call in made:
            yield from self._calls_of(call, made)

    def calls_of_last(self, layer: cst.Call) -> Iterator[cst.Call]:
        """Every call that runs the `Sequential` that ends with `layer`."""
        container = self._script.source.parent(self._script.source.parent(layer) or layer)
        assert isinstance(container, cst.Call)
        yield from self._calls_of(container, [container])

    def calls_of_loss(self, made: cst.Call, alike: Collection[cst.Call]) -> Iterator[cst.Call]:
        """Every call of the loss module `made`, none of which may run one that is not `alike`."""
        return self._calls_of(made, alike)

    def idle(self, gone: Collection[cst.Call]) -> Iterator[cst.CSTNode]:
        """The statements that construct modules which are unused without the calls `gone`."""
        names = {variable for call in gone if (variable := self.variable(call.func)) is not None}
        for variable in names:
            reads = [self._script.source.parent(node) for node in self._variables.reads(variable)]
            if all(call in gone for call in reads):
                yield from (
                    above
                    for given in self._variables.given(variable) or ()
                    if isinstance(above := self._script.source.parent(given.value), cst.Assign)
                )

    def variable(self, node: cst.CSTNode) -> Variable | None:
        """The variable that `node` names; None if it is no name."""
        return self._variables.of(node) if isinstance(node, (cst.Name, cst.Attribute)) else None

    def _owner(self, function: cst.FunctionDef) -> str | None:
        owner = self._script.method_owner(function)
        return owner.name.value if owner is not None else None

    def _name(self, call: cst.Call) -> str:
        return self._names[call.func].name if call.func in self._names else ""

    def _run_by(self, call: cst.Call) -> cst.BaseExpression:
        """The module that `call` runs: its callee, or the argument of a function that runs it on several devices."""
        last = (dotted(call.func) or "").rpartition(".")[2]
        return call.args[0].value if last == _RUNS and call.args else call.func

    def _made(self, node: cst.BaseExpression) -> list[cst.Call]:
        """The constructor calls of the module that `node` names; empty if they are unknown."""
        variable = self.variable(node)
        try:
            return list(self._makers(variable, frozenset())) if variable is not None else []
        except Unclear:
            return []

    def _makers(self, variable: Variable, seen: frozenset[Variable]) -> Iterator[cst.Call]:
        values = self._variables.given(variable) if variable not in seen else None
        if values is None:
            raise Unclear
        for given in values:
            value: cst.BaseExpression = given.value
            while isinstance(value, cst.Call) and given.index is None:
                inner = self._unwrapped(value)
                if inner is None:
                    break
                value = inner
            named = self.variable(value)
            if given.index is None and isinstance(value, cst.Call):
                yield value
            elif given.index is None and named == variable:
                continue
            elif given.index is None and named is not None:
                yield from self._makers(named, seen | {variable})
            else:
                raise Unclear

    def _unwrapped(self, call: cst.Call) -> cst.BaseExpression | None:
        """The module that `call` returns unchanged, or wraps."""
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _ITSELF:
            return call.func.value
        last = (dotted(call.func) or "").rpartition(".")[2]
        return call.args[0].value if last in _WRAPPERS and call.args else None

    def _calls_of(self, made: cst.Call, alike: Collection[cst.Call]) -> Iterator[cst.Call]:
        """Every call that runs the module `made`, none of which may run one that is not `alike`."""
        variables: set[Variable] = set()
        todo: list[cst.BaseExpression] = [made]
        while todo:
            node = todo.pop()
            above = self._script.source.parent(node)
            call = self._script.source.parent(above) if above is not None else None
            if isinstance(above, cst.Call) and above.func is node:
                yield above
            elif isinstance(above, cst.Arg) and isinstance(call, cst.Call) and self._run_by(call) is node:
                yield call
            elif isinstance(call, cst.Call) and self._unwrapped(call) is node:
                todo.append(call)
            elif isinstance(above, cst.Attribute):
                if above.attr.value in _HIDDEN:
                    raise Unclear
            elif not isinstance(above, cst.Expr) and not self._is_harmless(node):
                for variable in self._receivers(node):
                    if variable not in variables:
                        variables.add(variable)
                        if not all(one in alike for one in self._makers(variable, frozenset())):
                            raise Unclear
                        todo += self._variables.reads(variable)

    def _receivers(self, node: cst.BaseExpression) -> list[Variable]:
        """The variables to which the value of `node` is assigned."""
        above = self._script.source.parent(node)
        if isinstance(above, cst.Element):
            display = self._script.source.parent(above)
            assign = self._script.source.parent(display) if isinstance(display, cst.Tuple) else None
            targets = assign.targets[0].target if isinstance(assign, cst.Assign) and len(assign.targets) == 1 else None
            if not isinstance(targets, cst.Tuple) or not isinstance(display, cst.Tuple):
                raise Unclear
            named = [targets.elements[display.elements.index(above)].value]
        elif isinstance(above, cst.Assign):
            named = [one.target for one in above.targets]
        elif isinstance(above, cst.Arg):
            return self._parameters(above)
        else:
            raise Unclear
        found = [self.variable(one) for one in named]
        if None in found:
            raise Unclear
        return [one for one in found if one is not None]

    def _parameters(self, argument: cst.Arg) -> list[Variable]:
        """The parameters that take an argument of a call of a function of the file."""
        call = self._script.source.parent(argument)
        targets = self._calls.targets(call) if isinstance(call, cst.Call) else frozenset()
        found = []
        for function in targets:
            params = function.params.params if isinstance(function, cst.FunctionDef) else ()
            for name in (param.name.value for param in params):
                variable = Variable(function, name)  # type: ignore[arg-type]
                if any(given.value is argument.value for given in self._variables.given(variable) or ()):
                    found.append(variable)
        if not found:
            raise Unclear
        return found

    def _is_harmless(self, node: cst.CSTNode) -> bool:
        """Whether a use of a module only inspects it."""
        above = self._script.source.parent(node)
        if isinstance(above, cst.Arg):
            call = self._script.source.parent(above)
            name = dotted(call.func) if isinstance(call, cst.Call) else None
            return LOOKS_AT_MODEL.search((name or "").rpartition(".")[2]) is not None
        return isinstance(above, (cst.Comparison, cst.ComparisonTarget, cst.FormattedStringExpression))
