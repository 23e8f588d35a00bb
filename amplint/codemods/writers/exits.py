"""Outputs of models that leave their regions in float32: all but those which autocast or a choice alone reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from amplint.edits.casting import TENSOR_METHODS, used_as_tensor
from amplint.findings import Edit, Position, Span
from amplint.semantics.models.half_outputs import is_loss
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import INDICES, WHOLE_NUMBERS
from amplint.source import syntax as cst
from amplint.source.tree import children, every, targets, walk
from amplint.torchlib.catalogue import OPERATIONS
from amplint.torchlib.names import TO_FLOAT32
from amplint.torchlib.policy import FLOAT32, LOSSES, LOWER, MODULE_OPS
from amplint.training.bindings import called_name, paths
from amplint.training.flow import Flow
from amplint.training.observed import Observed
from amplint.training.operands import constructors
from amplint.training.script import Script

_HELPER = '''def {name}(value):
    """Half tensors as float32, also those in lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value
    if isinstance(value, dict):
        return type(value)({{key: {name}(one) for key, one in value.items()}})
    if isinstance(value, (list, tuple)):
        parts = [{name}(one) for one in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value
'''
_SAME = frozenset({"data", "detach", "view", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "contiguous"})
_READS = frozenset({"size", "shape", "dim", "ndim", "numel", "device", "argmax", "topk", "backward", "item"})
_CHOICES = frozenset({"argmax", "topk", "max"})
_MOVES = frozenset({"to", "cuda"})
_GAP = 2
_DEPTH = 3
"""The limit of functions of the file through which a region follows the models that it runs."""
_Statements = list[cst.CSTNode]


class Exits:
    """Decides for regions which outputs become float32, and ends those regions with their forward passes.

    An output may stay half where every use of it is one that autocast computes in float32, in a region, or a choice, or
    another model. `casts` are the calls whose results become float32.
    """

    def __init__(self, script: Script, observed: Observed, flow: Flow, parts: Callable[[cst.CSTNode], bool]) -> None:
        self._script = script
        self._calls = observed.calls
        self._forwards = observed.forwards
        self._models = observed.models | observed.modules
        self._flow = flow
        self._parts = parts
        self.casts: dict[cst.Call, None] = {}
        self._seen = set[cst.CSTNode]()
        self._asked = set[tuple[cst.CSTNode | None, str]]()
        self._name = script.fresh(TO_FLOAT32)

    def narrowed(self, statements: _Statements) -> list[_Statements] | None:
        """The regions that the forward passes in a region need by themselves; None if its outputs may stay half.

        A region without any, behind one that has become narrower, is none.
        """
        simple = list(self._passes(statements, _DEPTH))
        if not simple and self._script.function_of(statements[0]) in map(self._script.function_of, self.casts):
            return []
        calls = [call for one in simple for call in self._outermost(one)]
        wide = [call for call in calls if not self._stays_half(call, statements)]
        if not wide:
            return None
        self.casts |= dict.fromkeys(wide)
        fresh = [one for one in simple if one not in self._seen]
        self._seen.update(fresh)
        return list(self._runs(fresh))

    def edits(self) -> Iterator[Edit]:
        """The casts, and the function that makes some of them."""
        helped = [call for call in self.casts if not self._is_tensor(call)]
        for call in self.casts:
            span = self._script.source.span(call)
            if call in helped:
                yield Edit(Span(span.start, span.start), f"{self._name}(")
                yield Edit(Span(span.end, span.end), ")")
            else:
                yield self._script.rewrite.add_float(call)
        if helped:
            first = min(helped, key=self._script.row)
            top = next(one for one in self._script.source.ancestors(first) if one in self._script.top)
            row = self._script.lines.commented(self._script.rewrite.start(top).row)
            lines, place = self._script.lines, Position(row, 1)
            above = sum(row > one and lines.blank(row - one) for one in (1, 2))
            code = "\n" * (2 - above) * (row > 1) + _HELPER.format(name=self._name) + "\n\n"
            yield Edit(Span(place, place), code.replace("\n", self._script.source.newline))

    def _passes(self, statements: Iterable[cst.CSTNode], depth: int) -> Iterator[cst.CSTNode]:
        """The innermost statements that run models, also in functions of the file that `statements` call."""
        for one in statements:
            if any(map(self._runs_model, walk(one))):
                own = [each for call in self._outermost(one) for each in self._functions(call) if depth]
                inner = [each for block in _blocks(one) for each in block]
                deeper = [each for function in dict.fromkeys(own) for each in function.body.body]
                yield from list(self._passes(inner, depth)) or list(self._passes(deeper, depth - 1)) or [one]

    def _functions(self, call: cst.Call) -> Iterator[cst.FunctionDef]:
        """The functions of the file, none of a model, through which `call` runs one."""
        for one in self._calls.targets(call):
            if isinstance(one, cst.FunctionDef) and not any(every(one, cst.Yield)):
                methods = {each.name.value for each in self._calls.methods(self._script.method_owner(one))}
                if "forward" not in methods and isinstance(one.body, cst.IndentedBlock):
                    yield one

    def _outermost(self, statement: cst.CSTNode) -> Iterator[cst.Call]:
        """The calls in a statement that run a model, without those that another such call is given."""
        calls = [one for one in every(statement, cst.Call) if self._runs_model(one)]
        yield from (one for one in calls if not any(other is not one and self._is_given(other, one) for other in calls))

    def _runs_model(self, node: cst.CSTNode) -> bool:
        """Whether `node` is a call that runs a model, and no loss of what one gave."""
        if not isinstance(node, cst.Call) or not self._flow.runs(node) or self._is_lifted(node):
            return False
        given = any(paths(one.value) & self._models for one in node.args)
        return given or not is_loss(called_name(node)) or bool(self._calls.targets(node))

    def _is_given(self, call: cst.Call, inner: cst.Call) -> bool:
        return inner in self._forwards and any(inner in walk(argument) for argument in call.args)

    def _stays_half(self, call: cst.Call, region: _Statements) -> bool:
        """Whether what `call` gives may stay half, so that no cast is needed."""
        self._asked.clear()
        return self._may_stay_half(call, region)

    def _may_stay_half(self, node: cst.CSTNode, region: _Statements) -> bool:
        """Whether each use of what `node` gives is computed in float32 by autocast, chooses, or runs another model."""
        above = self._script.source.parent(node)
        if isinstance(above, (cst.Assign, cst.AnnAssign)):
            made = [one.target for one in above.targets] if isinstance(above, cst.Assign) else [above.target]
            parts = (
                [one.value for each in made for one in each.elements]
                if all(isinstance(each, (cst.Tuple, cst.List)) for each in made)
                else made
            )
            names = [dotted(one) for one in parts]
            return all(name is not None and "." not in name and self._uses_are(name, above, region) for name in names)
        if isinstance(above, cst.Arg):
            call = self._script.source.parent(above)
            return isinstance(call, cst.Call) and call.func is not node and self._takes_half(call, region)
        if isinstance(above, cst.Subscript) and above.value is node:
            return self._may_stay_half(above, region)
        if isinstance(above, cst.Attribute):
            call = self._script.source.parent(above)
            if above.attr.value in _READS or (called_name(call) == "max" and getattr(call, "args", ())):
                return True
            called = isinstance(call, cst.Call) and call.func is above
            if not called or above.attr.value in _SAME:
                return self._may_stay_half(call if called and call is not None else above, region)
            return False
        return isinstance(above, cst.Expr)

    def _uses_are(self, name: str, binding: cst.CSTNode, region: _Statements) -> bool:
        """Whether each use of a variable in its function is of that kind."""
        home = self._script.function_of(binding)
        if (home, name) in self._asked:
            return True
        self._asked.add((home, name))
        named = [one for one in self._script.nodes_of(home) if isinstance(one, cst.Name) and one.value == name]
        return all(self._may_stay_half(one, region) for one in named if not self._is_bound(one))

    def _is_bound(self, name: cst.Name) -> bool:
        """Whether a name is that of a target, a keyword or an attribute, and no use."""
        above = self._script.source.parent(name)
        keyword = isinstance(above, cst.Arg) and above.keyword is name
        attribute = isinstance(above, cst.Attribute) and above.attr is name
        assign = next((one for one in self._script.source.ancestors(name) if isinstance(one, cst.Assign)), None)
        bound = assign is not None and any(name in targets(one.target) for one in assign.targets)
        return keyword or attribute or bound

    def _takes_half(self, call: cst.Call, region: _Statements) -> bool:
        """Whether `call` runs a model, chooses, or, in the region, is a loss that autocast computes in float32."""
        name, path = called_name(call), dotted(call.func) or ""
        if path == f"torch.{name}" and name in _CHOICES:
            return name != "max" or len(call.args) > 1
        if self._is_lifted(call):
            return any(self._script.inside(one, call) for one in region)
        return call in self._forwards and not is_loss(name) and not any(self._functions(call))

    def _is_lifted(self, call: cst.CSTNode) -> bool:
        """Whether `call` computes a loss of PyTorch, which autocast does in float32."""
        if not isinstance(call, cst.Call):
            return False
        name, path = called_name(call), dotted(call.func) or ""
        made = {called_name(call.func)} if isinstance(call.func, cst.Call) else constructors(self._script.source, path)
        made -= _MOVES
        lifted = bool(made) and all(MODULE_OPS.get(one) in LOSSES & FLOAT32 for one in made)
        return lifted or (not made and name in LOSSES & FLOAT32 and path.rpartition(".")[0] in _FUNCTIONAL)

    def _is_tensor(self, call: cst.Call) -> bool:
        """Whether `call` certainly gives one floating-point tensor."""
        above = self._script.source.parent(call)
        if isinstance(above, cst.Assign):
            target, home = above.targets[0].target, self._script.function_of(call)
            name = dotted(target) or ""
            whole = any(guess.search(name) for guess in (WHOLE_NUMBERS, INDICES))
            uses = [one for one in self._script.calls if one.args and dotted(one.args[0].value) == name]
            compared = any(self._is_lifted(one) for one in uses if self._script.function_of(one) is home)
            known = used_as_tensor(target, self._script.rewrite)
            return known is not False and (known or compared) and not whole
        if isinstance(above, cst.Arg):
            call = self._script.source.parent(above)
            path = (dotted(call.func) or "") if isinstance(call, cst.Call) else ""
            return path.rpartition(".")[0] in (*_FUNCTIONAL, "torch") and called_name(call) in OPERATIONS
        method = isinstance(above, cst.Attribute) and above.attr.value in TENSOR_METHODS
        return method or isinstance(above, (cst.BinaryOperation, cst.UnaryOperation))

    def _runs(self, statements: _Statements) -> Iterator[_Statements]:
        """`statements` in groups of near ones of a block, with what stands between them, if that computes little."""
        run = list[cst.CSTNode]()
        for one in statements:
            block = list(self._script.block_of(one))
            if run and run[-1] in block:
                between = block[block.index(run[-1]) + 1 : block.index(one)]
                if len(between) <= _GAP and not any(map(self._parts, between)) and all(map(_is_plain, between)):
                    run += [*between, one]
                    continue
            if run:
                yield run
            run = [one]
        if run:
            yield run


_FUNCTIONAL = frozenset({"F", "torch.nn.functional", "nn.functional", "functional"})


def _is_plain(statement: cst.CSTNode) -> bool:
    """Whether a statement calls nothing but operations that autocast leaves alone."""
    calls = list(every(statement, cst.Call))
    return isinstance(statement, cst.SimpleStatementLine) and all(
        called_name(call) in OPERATIONS.keys() - LOWER - FLOAT32 for call in calls
    )


def _blocks(statement: cst.CSTNode) -> Iterator[list[cst.CSTNode]]:
    """The blocks of a compound statement, those of its other clauses included."""
    for child in children(statement):
        if isinstance(child, cst.IndentedBlock):
            yield [*child.body]
        elif not isinstance(child, (cst.BaseExpression, cst.BaseSmallStatement)):
            yield from _blocks(child)
