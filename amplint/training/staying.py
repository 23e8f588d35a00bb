"""Outputs of models that may stay half: autocast computes each use of them in float32, or it is a choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from amplint.edits.casting import is_of_tensor, used_as_tensor
from amplint.semantics.models.half_outputs import is_loss
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import INDICES, SEARCHES, WHOLE_NUMBERS
from amplint.source import syntax as cst
from amplint.source.tree import every, targets, walk
from amplint.torchlib.catalogue import OPERATIONS
from amplint.torchlib.policy import BANNED, FLOAT32, LOSSES, MODULE_OPS
from amplint.training.bindings import called_name, matched, paths, positional
from amplint.training.flow import Flow
from amplint.training.observed import Observed
from amplint.training.operands import constructors
from amplint.training.script import Script

_SAME = frozenset({"data", "detach", "view", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "contiguous"})
_READS = frozenset({"size", "shape", "dim", "ndim", "numel", "device", "dtype", "argmax", "backward", "item"})
_CASTS = frozenset({"float", "double"})
_CHOICES = frozenset({"topk", "max"})
"""Operations that return values and, second, their indices."""
_JOINING = frozenset({"cat", "concat", "stack"})
_MOVES = frozenset({"to", "cuda"})
_FUNCTIONAL = frozenset({"F", "torch.nn.functional", "nn.functional", "functional"})


class Staying:
    """Tells the calls of a file that run models, and which of their outputs may stay half in a region."""

    def __init__(self, script: Script, observed: Observed, flow: Flow) -> None:
        self._script = script
        self._calls = observed.calls
        self._forwards = observed.forwards
        self._models = observed.models | observed.modules
        self._flow = flow
        self._evaluating = {call for way in observed.evaluations for call in way}
        self._asked = set[tuple[cst.CSTNode, str]]()

    def functions(self, call: cst.Call) -> Iterator[cst.FunctionDef]:
        """The functions of the file, none of a model, through which `call` runs one."""
        for one in self._calls.targets(call):
            if not isinstance(one, cst.FunctionDef) or any(every(one, cst.Yield)):
                continue
            if isinstance(one.body, cst.IndentedBlock) and not self._is_model(self._script.method_owner(one)):
                yield one

    def _is_model(self, owner: cst.ClassDef | None) -> bool:
        """Whether a class has a `forward`, be it another name of a method."""
        methods = {each.name.value for each in self._calls.methods(owner)}
        statements = owner.body.body if owner is not None else ()
        assigned = (each for one in statements for each in every(one, cst.AssignTarget))
        return "forward" in methods or any(dotted(each.target) == "forward" for each in assigned)

    def calls_method(self, call: cst.Call) -> bool:
        """Whether `call` runs a method of a model of the file."""
        owner, _, name = (dotted(call.func) or "").rpartition(".")
        return owner in self._models and f"{owner}.{name}" not in self._models

    def outermost(self, statement: cst.CSTNode) -> Iterator[cst.Call]:
        """The calls in a statement that run a model, without those that another such call is given."""
        calls = [one for one in every(statement, cst.Call) if self.runs_model(one)]
        yield from (one for one in calls if not any(other is not one and self._is_given(other, one) for other in calls))

    def runs_model(self, node: cst.CSTNode) -> bool:
        """Whether `node` is a call that runs a model, and no loss of what one gave."""
        runs = self._flow.runs(node) or node in self._evaluating
        if not isinstance(node, cst.Call) or not runs or self._is_lifted(node):
            return False
        if any(paths(one.value) & self._models for one in node.args):
            return True
        made = constructors(self._script.source, dotted(node.func) or "")
        if not any(map(is_loss, (called_name(node), *made))):
            return True
        return any(self._flow.runs_model(one) for one in self._calls.targets(node))

    def _is_given(self, call: cst.Call, inner: cst.Call) -> bool:
        return inner in self._forwards and any(inner in walk(argument) for argument in call.args)

    def stays_half(self, call: cst.Call, region: Sequence[cst.CSTNode]) -> bool:
        """Whether what `call` gives may stay half, so that no cast is needed."""
        self._asked.clear()
        return self._may_stay_half(call, region)

    def _may_stay_half(self, node: cst.CSTNode, region: Sequence[cst.CSTNode]) -> bool:
        """Whether each use of what `node` gives is computed in float32 by autocast, chooses, or runs another model."""
        above = self._script.source.parent(node)
        if isinstance(above, (cst.Assign, cst.AnnAssign)):
            made = [one.target for one in above.targets] if isinstance(above, cst.Assign) else [above.target]
            return all(self._stays_half_in(one, above, region) for one in made)
        if isinstance(above, cst.Arg):
            call = self._script.source.parent(above)
            return isinstance(call, cst.Call) and call.func is not node and self._takes_half(call, region)
        if isinstance(above, cst.Element):
            return self._element_may_stay_half(above, region)
        if isinstance(above, cst.Subscript) and above.value is node:
            return self._may_stay_half(above, region)
        if isinstance(above, cst.Attribute):
            around = self._script.source.parent(above)
            method = around if isinstance(around, cst.Call) and around.func is above else None
            name = above.attr.value
            if method is not None and _chooses(method):
                return self._values_may_stay_half(method, region)
            if name in _CASTS | _READS:
                return True
            return (method is None or name in _SAME) and self._may_stay_half(method or above, region)
        return isinstance(above, cst.Expr)

    def _stays_half_in(self, target: cst.CSTNode, binding: cst.CSTNode, region: Sequence[cst.CSTNode]) -> bool:
        """Whether what `binding` gives to the variables of a target may stay half."""
        names = [dotted(one) for one in targets(target)]
        return all(name is not None and "." not in name and self._uses_are(name, binding, region) for name in names)

    def _element_may_stay_half(self, element: cst.Element, region: Sequence[cst.CSTNode]) -> bool:
        """Whether an element may stay half that has its own variable, or is joined with others."""
        beside = self._variable_of(element)
        display = self._script.source.parent(element)
        above = self._script.source.parent(display) if display is not None else None
        if beside is not None and above is not None:
            return self._stays_half_in(beside, above, region)
        joined = self._script.source.parent(above) if isinstance(above, cst.Arg) else None
        joins = isinstance(joined, cst.Call) and dotted(joined.func) == f"torch.{called_name(joined)}"
        return joins and joined is not None and called_name(joined) in _JOINING and self._may_stay_half(joined, region)

    def _variable_of(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """What a value, or the element of a tuple beside others, is assigned to by itself."""
        display = self._script.source.parent(node) if isinstance(node, cst.Element) else None
        above = self._script.source.parent(display or node)
        target = above.targets[0].target if isinstance(above, cst.Assign) and len(above.targets) == 1 else None
        if not isinstance(display, cst.Tuple) or not isinstance(node, cst.Element):
            return target
        same = isinstance(target, cst.Tuple) and len(target.elements) == len(display.elements)
        return target.elements[display.elements.index(node)].value if isinstance(target, cst.Tuple) and same else None

    def _values_may_stay_half(self, call: cst.Call, region: Sequence[cst.CSTNode]) -> bool:
        """Whether the values that `call` chooses may stay half; second it gives their indices."""
        above = self._script.source.parent(call)
        if isinstance(above, cst.Subscript) and self._script.text_of(above.slice[0]) == "1":
            return True
        if isinstance(above, cst.Attribute) and above.attr.value == "indices":
            return True
        target = self._variable_of(call)
        if isinstance(target, cst.Tuple) and len(target.elements) == 2 and above is not None:
            return self._stays_half_in(target.elements[0].value, above, region)
        return self._may_stay_half(call, region)

    def _uses_are(self, name: str, binding: cst.CSTNode, region: Sequence[cst.CSTNode]) -> bool:
        """Whether each use of what `binding` gives to a variable is of that kind, also in functions that see it."""
        if (binding, name) in self._asked:
            return True
        self._asked.add((binding, name))
        seeing = self._until_bound_again(name, binding) or self._seeing(self._script.function_of(binding), name)
        named = [one for one in seeing if isinstance(one, cst.Name) and one.value == name]
        return all(self._may_stay_half(one, region) for one in named if not self._is_bound(one))

    def _until_bound_again(self, name: str, binding: cst.CSTNode) -> list[cst.CSTNode]:
        """The nodes behind `binding` in its block, up to the statement there that binds the variable again; none if
        there is no such statement, or if a loop can be left or continued before it.
        """
        statement = self._script.statement_of(binding)
        block = list(self._script.block_of(statement)) if statement is not None else [binding]
        behind = block[block.index(statement or binding) + 1 :]
        last = next((place for place, one in enumerate(behind) if _binds(one, name)), None)
        between = [] if last is None else [node for one in behind[: last + 1] for node in walk(one)]
        return [] if any(isinstance(one, (cst.Break, cst.Continue)) for one in between) else between

    def _seeing(self, home: cst.FunctionDef | None, name: str) -> Iterator[cst.CSTNode]:
        """The nodes of a function, and of those in it that have no variable of this `name` themselves."""
        yield from self._script.nodes_of(home)
        for one in self._script.nodes_of(home):
            if isinstance(one, cst.FunctionDef):
                own = {each.name.value for each in every(one.params, cst.Param)}
                if name not in own and not any(self._script.assignments(one, name)):
                    yield from self._seeing(one, name)

    def _is_bound(self, name: cst.Name) -> bool:
        """Whether a name is that of a target, a keyword or an attribute, and no use."""
        above = self._script.source.parent(name)
        keyword = isinstance(above, cst.Arg) and above.keyword is name
        attribute = isinstance(above, cst.Attribute) and above.attr is name
        assign = next((one for one in self._script.source.ancestors(name) if isinstance(one, cst.Assign)), None)
        bound = assign is not None and any(name in targets(one.target) for one in assign.targets)
        loop = next(
            (one for one in self._script.source.ancestors(name) if isinstance(one, (cst.For, cst.CompFor))), None
        )
        return keyword or attribute or bound or (loop is not None and name in targets(loop.target))

    def _takes_half(self, call: cst.Call, region: Sequence[cst.CSTNode]) -> bool:
        """Whether `call` runs a model, chooses, or, in the region, is a loss that autocast computes in float32."""
        name = called_name(call)
        if dotted(call.func) == "torch.argmax":
            return True
        if dotted(call.func) == f"torch.{name}" and _chooses(call, 1):
            return self._values_may_stay_half(call, region)
        if dotted(call.func) == f"torch.{name}" and name in _SAME:
            return self._may_stay_half(call, region)
        if self._is_lifted(call):
            return any(self._script.inside(one, call) for one in region)
        return call in self._forwards and not is_loss(name) and not any(self.functions(call))

    def _is_lifted(self, call: cst.CSTNode) -> bool:
        """Whether `call` computes a loss of PyTorch, which autocast does in float32."""
        return self._computes(call, LOSSES & FLOAT32)

    def is_of_others(self, call: cst.Call) -> bool:
        """Whether `call` runs neither a model nor an operation of PyTorch, losses that autocast refuses apart."""
        name, path = called_name(call), dotted(call.func) or ""
        refused = self._computes(call, BANNED)
        of_torch = self._is_functional(path) or path == f"torch.{name}"
        return refused or not (self.runs_model(call) or (of_torch and name in OPERATIONS))

    def _computes(self, call: cst.CSTNode, losses: Set[str]) -> bool:
        """Whether `call` computes one of these `losses` of PyTorch."""
        if not isinstance(call, cst.Call):
            return False
        name, path = called_name(call), dotted(call.func) or ""
        made = {called_name(call.func)} if isinstance(call.func, cst.Call) else constructors(self._script.source, path)
        made -= _MOVES
        known = bool(made) and all(MODULE_OPS.get(one) in losses for one in made)
        return known or (not made and name in losses and self._is_functional(path))

    def _is_functional(self, path: str) -> bool:
        """Whether `path` names a function of `torch.nn.functional`, also one that is imported by its name."""
        imported = self._script.source.imports.get(path)
        by_name = imported is not None and imported.module == "torch.nn.functional"
        return by_name or path.rpartition(".")[0] in _FUNCTIONAL

    def gives_loss(self, call: cst.Call) -> bool:
        """Whether `call` gives losses alone, by the names of its targets: models compute them in float32 as a rule."""
        above = self._script.source.parent(call)
        assigned = above.targets if isinstance(above, cst.Assign) else ()
        names = [dotted(one) for each in assigned for one in targets(each.target)]
        return bool(names) and all(name is not None and is_loss(name.removesuffix("_dict")) for name in names)

    def gives_tokens(self, call: cst.Call) -> bool:
        """Whether `call` runs a search for tokens, by its name or its keywords."""
        keywords = (one.keyword.value for one in call.args if one.keyword is not None)
        return any(map(SEARCHES.search, (called_name(call), *keywords)))

    def is_tensor(self, call: cst.Call) -> bool:
        """Whether `call` certainly gives one floating-point tensor, as that model does elsewhere in the file."""
        return self._gives_tensor(call) or (any(map(self._gives_tensor, self._same(call))) and self._is_whole(call))

    def _is_whole(self, call: cst.Call) -> bool:
        """Whether nothing is known to take apart what `call` gives."""
        target = self._variable_of(call)
        return isinstance(target, cst.Name) and used_as_tensor(target, self._script.rewrite) is not False

    def _gives_tensor(self, call: cst.Call) -> bool:
        above = self._script.source.parent(call)
        target = self._variable_of(above if isinstance(above, cst.Element) else call)
        if target is not None:
            return self._holds_tensor(target)
        if isinstance(above, cst.Arg):
            taking = self._script.source.parent(above)
            return isinstance(taking, cst.Call) and self._takes_tensor(taking, above)
        method = isinstance(above, cst.Attribute) and is_of_tensor(self._script.source, above)
        return method or isinstance(above, (cst.BinaryOperation, cst.UnaryOperation))

    def _takes_tensor(self, call: cst.Call, argument: cst.Arg) -> bool:
        """Whether `call` runs an operation of PyTorch, or a function of the file that uses `argument` as a tensor."""
        path, name = dotted(call.func) or "", called_name(call)
        of_torch = self._is_functional(path) or path == f"torch.{name}"
        return (of_torch and name in OPERATIONS) or self._passes_tensor(call, argument)

    def _passes_tensor(self, call: cst.Call, argument: cst.Arg) -> bool:
        """Whether `call` runs functions of the file alone, which use `argument` as a tensor."""
        functions = [one for one in self._calls.targets(call) if isinstance(one, cst.FunctionDef)]
        return bool(functions) and all(self._uses_tensor(one, call, argument) for one in functions)

    def _uses_tensor(self, function: cst.FunctionDef, call: cst.Call, argument: cst.Arg) -> bool:
        bound = self._script.method_owner(function) is not None
        params = positional(function)[bound:]
        given = [name for name, one in matched(call, [one.name.value for one in params]) if one is argument]
        named = [one.name for one in params if one.name.value in given]
        return len(named) == 1 and used_as_tensor(named[0], self._script.rewrite) is True

    def are_tensors(self, call: cst.Call) -> bool:
        """Whether `call` certainly gives floating-point tensors, one for each variable of a tuple."""
        count = len(self.parts(call))
        alike = (one for one in self._same(call) if len(self.parts(one)) == count)
        return bool(count) and (self._gives_tensors(call) or any(map(self._gives_tensors, alike)))

    def _gives_tensors(self, call: cst.Call) -> bool:
        return all(isinstance(one, cst.Name) and self._holds_tensor(one) for one in self.parts(call))

    def parts(self, call: cst.Call) -> list[cst.BaseExpression]:
        """The targets to which what `call` gives is unpacked."""
        above = self._script.source.parent(call)
        target = above.targets[0].target if isinstance(above, cst.Assign) and len(above.targets) == 1 else None
        return [one.value for one in target.elements] if isinstance(target, cst.Tuple) else []

    def is_unused(self, target: cst.BaseExpression) -> bool:
        """Whether the function around a target reads no variable of its name."""
        nodes = self._script.nodes_of(self._script.function_of(target))
        name = dotted(target)
        return name is not None and not any(
            isinstance(one, cst.Name) and one.value == name and not self._is_bound(one) for one in nodes
        )

    def is_only_read(self, call: cst.Call) -> bool:
        """Whether what `call` gives has a variable of whose attributes none is used."""
        target, home = self._variable_of(call), self._script.function_of(call)
        attributes = (one for one in self._script.nodes_of(home) if isinstance(one, cst.Attribute))
        return isinstance(target, cst.Name) and all(dotted(one.value) != target.value for one in attributes)

    def may_be_none(self, call: cst.Call) -> bool:
        """Whether a function compares what it unpacks of a call with None."""
        home = self._script.function_of(call)
        return any(self._may_be_none(dotted(one) or "", home) for one in self.parts(call))

    def _same(self, call: cst.Call) -> list[cst.Call]:
        """The other calls of the file by the same name."""
        path = dotted(call.func)
        return [one for one in self._script.calls if path is not None and one is not call and dotted(one.func) == path]

    def _holds_tensor(self, target: cst.BaseExpression) -> bool:
        """Whether what is assigned to `target` is used as a floating-point tensor."""
        name, home = dotted(target) or "", self._script.function_of(target)
        whole = any(guess.search(name) for guess in (WHOLE_NUMBERS, INDICES))
        uses = [one for one in self._script.calls if one.args and dotted(one.args[0].value) == name]
        compared = any(self._computes(one, LOSSES | BANNED) for one in uses if self._script.function_of(one) is home)
        known = used_as_tensor(target, self._script.rewrite)
        given = ((one, each) for one in self._script.calls for each in one.args if dotted(each.value) == name)
        passed = any(self._passes_tensor(*one) for one in given if self._script.function_of(one[0]) is home)
        certain = compared or ((bool(known) or passed) and not whole)
        return known is not False and certain and not self._may_be_none(name, home)

    def _may_be_none(self, name: str, home: cst.FunctionDef | None) -> bool:
        """Whether a function compares a variable with None."""
        compared = (one for one in self._script.nodes_of(home) if isinstance(one, cst.Comparison))
        return any(
            dotted(one.left) == name and any(dotted(each.comparator) == "None" for each in one.comparisons)
            for one in compared
        )


def _binds(statement: cst.CSTNode, name: str) -> bool:
    """Whether a statement assigns to the variable and does nothing else."""
    parts = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    assigns = (one for one in parts if isinstance(one, cst.Assign))
    return len(parts) == 1 and any(dotted(each.target) == name for one in assigns for each in one.targets)


def _chooses(call: cst.Call, given: int = 0) -> bool:
    """Whether `call`, of a method or of a function that is `given` a tensor, returns values and their indices."""
    return called_name(call) in _CHOICES and len(call.args) > given
