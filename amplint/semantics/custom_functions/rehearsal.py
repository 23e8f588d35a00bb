"""The two passes of a custom function, executed with dtypes alone, as if a caller had autocast on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from amplint.records import dataclass
from amplint.semantics.custom_functions.function_passes import Passes, differentiable
from amplint.semantics.custom_functions.triton import multiplied
from amplint.semantics.python.attributes import find_method
from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.modules import evaluate_silently, member
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.tensors.operands import BESIDES
from amplint.semantics.values.state import MODULE_FRAME, State
from amplint.semantics.values.values import Class, Const, Function, Instance, Namespace, Ref
from amplint.semantics.words import CASTER, MINDS_AUTOCAST
from amplint.source import syntax as cst
from amplint.source.tree import every, walk
from amplint.torchlib.catalogue import fact_values, operations_with, operations_with_form
from amplint.torchlib.equations import contracts
from amplint.torchlib.methods import CASTS
from amplint.torchlib.names import DTYPES
from amplint.torchlib.operations import KNOWN, known, outcome
from amplint.torchlib.policy import Regime
from amplint.torchlib.promotion import FLOATING, NUMBER, SOME_DIMENSIONS, Typed

STEPS = 3000
"""The statements that one rehearsal may execute."""
DEPTH = 6
_NONE = Const(None)
_ANY = frozenset({"float16", "bfloat16", "float32", "int64", "bool"})
_OPERATORS = {operator: op for op, operator in fact_values("operator").items()}
_SAME_TENSOR = operations_with("view") & operations_with_form("a")
_MADE = operations_with("creates", "sized")
_MADE_LIKE = operations_with("creates-like")
_MADE_NEW = operations_with("creates-new", "sized")
_JOINS = operations_with("joins")
_REDUCES = operations_with("reduces")
_IN_PLACE = operations_with_form("i")
_POSITIONS = operations_with("indices-too") | operations_with("indices-along")
_MODULES = ("torch", "torch.nn.functional", "torch.linalg", "torch.special", "torch.Tensor")


@dataclass(frozen=True, slots=True)
class Dtype:
    """A dtype as a value."""

    name: str


@dataclass(frozen=True, slots=True)
class Context:
    """The `ctx` of both passes."""


Held: TypeAlias = (
    "Typed | Dtype | Context | Const | Function | Class | Instance | Namespace | Ref | tuple[Held, ...] | None"
)
"""What an expression gives; None where that is unknown."""
Names: TypeAlias = "dict[str, Held]"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An operation that raises: its node, PyTorch's name and the reason.

    `site` is the statement of the pass that leads there, `unsure` means that an unknown condition does.
    """

    node: cst.CSTNode
    op: str
    reason: str
    site: cst.CSTNode
    in_backward: bool
    unsure: bool


def refusals(
    machine: Machine,
    state: State,
    passes: Passes,
    given: Mapping[str, str | None],
    low: str | None,
    device: str,
    *,
    decorated: bool,
) -> list[Refusal]:
    """The operations of both passes that raise under autocast with dtype `low`, None for none.

    Inputs have the dtypes `given`, None for one that is None; others are unknown.
    Backward runs with autocast off, unless the passes are `decorated` with `custom_fwd` and `custom_bwd`.
    """
    regime = Regime({device}, {low}, machine.program.torch) if low is not None else None
    here = _Rehearsal(machine, state, regime)
    names: Names = {
        name: Typed(frozenset({dtype}), SOME_DIMENSIONS) if dtype is not None else _NONE
        for name, dtype in given.items()
    }
    needed = differentiable(passes)
    names[passes.context] = Context()
    names["<ctx>.needs_input_grad"] = tuple(Const(name in needed) for name in passes.inputs)
    result = here.run(passes.forward, names)
    first = result[0] if isinstance(result, tuple) and result else result
    if not isinstance(first, Typed) or here.found:
        return here.found
    here.in_backward, here.regime = True, regime if decorated else None
    own = [param.name.value for param in passes.backward.params.params]
    if len(own) > 1:
        kept = {name: value for name, value in names.items() if name.startswith("<ctx>.")}
        here.run(passes.backward, {**kept, own[0]: Context(), own[1]: first})
    return here.found


class _Rehearsal:
    """One execution of the two passes."""

    def __init__(self, machine: Machine, state: State, regime: Regime | None) -> None:
        self.machine = machine
        self.state = state
        self.regime = regime
        self.in_backward = False
        self.clear = True
        self.unsure = 0
        self.found: list[Refusal] = []
        self._steps = STEPS
        self._entered: tuple[cst.CSTNode, ...] = ()
        self._frames = [MODULE_FRAME]
        self._site: cst.CSTNode | None = None
        self._returned: list[Held] = []
        self._globals: dict[tuple[int, str], Held] = {}

    def run(self, function: cst.FunctionDef, names: Names) -> Held:
        """What a function returns."""
        outer, self._returned = self._returned, []
        entered, self._entered = self._entered, (*self._entered, function)
        self._block(function.body, names)
        returned, self._returned, self._entered = self._returned, outer, entered
        result = returned[0] if returned else _NONE
        for other in returned[1:]:
            result = _joined(result, other)
        return result

    # Statements

    def _block(self, body: cst.BaseSuite, names: Names) -> bool:
        """Execute statements; whether the last one is passed."""
        for statement in body.body:
            self._steps -= 1
            if self._steps < 0:
                return False
            if len(self._entered) == 1:
                self._site = statement
            if isinstance(statement, cst.SimpleStatementLine):
                if not all(self._small(small, names) for small in statement.body):
                    return False
            elif isinstance(statement, cst.BaseSmallStatement):
                if not self._small(statement, names):
                    return False
            elif not self._compound(statement, names):
                return False
        return True

    def _small(self, node: cst.CSTNode, names: Names) -> bool:
        if isinstance(node, cst.Assign):
            value = self.value(node.value, names)
            for target in node.targets:
                self._bind(target.target, value, names)
        elif isinstance(node, cst.AnnAssign) and node.value is not None:
            self._bind(node.target, self.value(node.value, names), names)
        elif isinstance(node, cst.AugAssign):
            self._augmented(node, names)
        elif isinstance(node, cst.Expr):
            self.value(node.value, names)
        elif isinstance(node, cst.Return):
            self._returned.append(_NONE if node.value is None else self.value(node.value, names))
            return False
        elif isinstance(node, cst.Assert):
            return self._truth(node.test, names) is not False
        return not isinstance(node, (cst.Raise, cst.Continue, cst.Break))

    def _compound(self, node: cst.CSTNode, names: Names) -> bool:
        if isinstance(node, cst.If):
            return self._if(node, names)
        if isinstance(node, cst.With):
            return self._with(node, names)
        if isinstance(node, (cst.For, cst.While)):
            if isinstance(node, cst.For):
                over = self.value(node.iter, names)
                self._bind(node.target, over if isinstance(over, Typed) else None, names)
            before = dict(names)
            self._block(node.body, names)
            _join(names, before)
            return True
        if isinstance(node, (cst.Try, cst.TryStar)):
            return self._block(node.body, names)
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            names[node.name.value] = None
        return True

    def _if(self, node: cst.If, names: Names) -> bool:
        truth = self._truth(node.test, names)
        if truth is True:
            return self._block(node.body, names)
        if truth is False:
            return self._otherwise(node.orelse, names)
        self.unsure += 1
        other, before = dict(names), len(self.found)
        passed, between = self._block(node.body, names), len(self.found)
        other_passed = self._otherwise(node.orelse, other)
        self.unsure -= 1
        if before < between < len(self.found) and self.unsure == 0:  # it raises on both sides
            self.found[before] = replace(self.found[before], unsure=False)
        if passed and other_passed:
            _join(names, other)
        elif other_passed:
            names.clear()
            names.update(other)
        return passed or other_passed

    def _otherwise(self, node: cst.If | cst.Else | None, names: Names) -> bool:
        if isinstance(node, cst.If):
            return self._if(node, names)
        return node is None or self._block(node.body, names)

    def _with(self, node: cst.With, names: Names) -> bool:
        regime, clear = self.regime, self.clear
        for item in node.items:
            if any(isinstance(inner, cst.Name) and MINDS_AUTOCAST.search(inner.value) for inner in walk(item)):
                if _is_off(item):
                    self.regime = None
                else:
                    self.clear = False
        passed = self._block(node.body, names)
        self.regime, self.clear = regime, clear
        return passed

    def _bind(self, target: cst.BaseExpression, value: Held, names: Names) -> None:
        if isinstance(target, (cst.Tuple, cst.List)):
            for index, element in enumerate(target.elements):
                known = not any(isinstance(other, cst.StarredElement) for other in target.elements)
                self._bind(element.value, _item(value, index if known else None, len(target.elements)), names)
        elif isinstance(target, cst.Name):
            names[target.value] = value
        elif isinstance(target, cst.Attribute) and isinstance(self.value(target.value, names), Context):
            names[f"<ctx>.{target.attr.value}"] = value

    def _augmented(self, node: cst.AugAssign, names: Names) -> None:
        op = _OPERATORS.get(type(node.operator).__name__.removesuffix("Assign"))
        target, value = self.value(node.target, names), self.value(node.value, names)
        if op is not None and isinstance(target, Typed):
            self._operation(node, op, [target, value], in_place=op != "matmul")
            if op != "matmul":
                return
        self._bind(node.target, None, names)

    # Expressions

    def _truth(self, node: cst.BaseExpression, names: Names) -> bool | None:
        value = self.value(node, names)
        if isinstance(value, Const):
            return bool(value.value)
        return bool(value) if isinstance(value, tuple) else None

    def value(self, node: cst.BaseExpression, names: Names) -> Held:
        """What an expression gives."""
        if isinstance(node, cst.Name):
            return names[node.value] if node.value in names else self._global(node.value)
        if isinstance(node, cst.Attribute):
            return self._attribute(node, names)
        if isinstance(node, cst.Call):
            return self._call(node, names)
        if isinstance(node, cst.BinaryOperation):
            return self._binary(node, names)
        if isinstance(node, cst.Subscript):
            return self._subscript(node, names)
        if isinstance(node, (cst.Tuple, cst.List)):
            parts = [self.value(element.value, names) for element in node.elements]
            return None if any(isinstance(one, cst.StarredElement) for one in node.elements) else tuple(parts)
        if isinstance(node, (cst.Integer, cst.Float)):
            return Const(1.0 if isinstance(node, cst.Float) else int(node.value, 0))
        if isinstance(node, cst.IfExp):
            return self._choice(node, names)
        if isinstance(node, cst.UnaryOperation):
            inner = self.value(node.expression, names)
            if isinstance(node.operator, cst.Not):
                return Const(not inner.value) if isinstance(inner, Const) else None
            return inner if isinstance(inner, Typed) else None
        if isinstance(node, cst.BooleanOperation):
            return self._both(node, names)
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            target = node.comparisons[0]
            left, right = self.value(node.left, names), self.value(target.comparator, names)
            return _compared(left, target.operator, right)
        return None

    def _choice(self, node: cst.IfExp, names: Names) -> Held:
        truth = self._truth(node.test, names)
        if truth is not None:
            return self.value(node.body if truth else node.orelse, names)
        self.unsure += 1
        both = self.value(node.body, names), self.value(node.orelse, names)
        self.unsure -= 1
        return _joined(*both)

    def _both(self, node: cst.BooleanOperation, names: Names) -> Held:
        sides = self._truth(node.left, names), self._truth(node.right, names)
        decides = isinstance(node.operator, cst.Or)
        if decides in sides:
            return Const(decides)
        return Const(not decides) if None not in sides else None

    def _global(self, name: str) -> Held:
        if name in ("None", "True", "False"):
            return Const({"None": None, "True": True, "False": False}[name])
        key = (self._frames[-1], name)
        if key not in self._globals:
            value = evaluate_silently(self.machine, self.state, key[0], cst.Name(name), {})
            self._globals[key] = value if isinstance(value, (Function, Class, Namespace, Ref)) else None
        return self._globals[key]

    def _attribute(self, node: cst.Attribute, names: Names) -> Held:
        owner, name = self.value(node.value, names), node.attr.value
        if isinstance(owner, Context):
            if name == "_fwd_used_autocast":
                return Const(self.regime is not None)
            return self._low() if name == "_dtype" else names.get(f"<ctx>.{name}")
        if isinstance(owner, Typed):
            if name == "dtype":
                return Dtype(dtype) if (dtype := known(owner.dtypes)) else None
            return Const(True) if name == "is_cuda" else owner if name in _SAME_TENSOR else None
        if isinstance(owner, Ref):
            qualified = f"{owner.name}.{name}"
            return Dtype(DTYPES[qualified]) if qualified in DTYPES else Ref(qualified)
        if isinstance(owner, Namespace):
            found = member(self.machine, self.state, owner, name)
            return found if isinstance(found, (Function, Class, Namespace, Ref)) else None
        return None

    def _low(self) -> Held:
        lows = self.regime.dtypes if self.regime is not None else None
        return Dtype(next(iter(lows))) if lows else None

    def _subscript(self, node: cst.Subscript, names: Names) -> Held:
        owner = self.value(node.value, names)
        if isinstance(owner, Typed):
            return owner
        index = node.slice[0].slice if len(node.slice) == 1 else None
        place = self.value(index.value, names) if isinstance(index, cst.Index) else None
        if isinstance(owner, tuple) and isinstance(place, Const) and isinstance(place.value, int):
            return owner[place.value] if place.value < len(owner) else None
        return None

    def _binary(self, node: cst.BinaryOperation, names: Names) -> Held:
        left, right = self.value(node.left, names), self.value(node.right, names)
        if isinstance(left, tuple) and isinstance(right, tuple) and isinstance(node.operator, cst.Add):
            return left + right
        op = _OPERATORS.get(type(node.operator).__name__)
        return self._operation(node, op, [left, right]) if op is not None else None

    # Calls

    def _call(self, node: cst.Call, names: Names) -> Held:
        positions = [self.value(one.value, names) for one in node.args if one.keyword is None]
        keywords = {one.keyword.value: self.value(one.value, names) for one in node.args if one.keyword is not None}
        starred = any(one.star for one in node.args)
        func = node.func
        if isinstance(func, cst.Subscript):
            callee = self.value(func.value, names)
            if isinstance(callee, Function) and not starred:
                self._launch(node, callee, positions, keywords)
            return None
        if isinstance(func, cst.Attribute):
            owner, name = self.value(func.value, names), func.attr.value
            if isinstance(owner, Context):
                if name == "save_for_backward":
                    names["<ctx>.saved_tensors"] = None if starred else tuple(positions)
                return None
            if starred:
                return None
            if isinstance(owner, Typed):
                return self._method(node, name, owner, positions, keywords)
            if isinstance(owner, Instance):
                method = find_method(self.machine, self.state, owner.cls, name)
                return self._enter(method, [owner, *positions], keywords) if method is not None else None
        callee = self.value(func, names)
        if isinstance(callee, Class):
            return Instance(self.machine.fresh(), callee)
        if starred:
            return None
        if isinstance(callee, Function):
            return self._enter(callee, positions, keywords)
        if isinstance(callee, Ref):
            return self._library(node, callee.name, positions, keywords)
        if dotted(func) == "isinstance" and len(node.args) == 2 and isinstance(positions[0], Typed):
            kinds = [dotted(one) or "" for one in every(node.args[1].value, cst.Name, cst.Attribute)]
            return Const(any(kind.endswith("Tensor") for kind in kinds))
        return None

    def _enter(self, function: Function, positions: Sequence[Held], keywords: Mapping[str, Held]) -> Held:
        node = node_of(function)
        if not isinstance(node, cst.FunctionDef) or node in self._entered or len(self._entered) > DEPTH:
            return None
        parameters = node.params.params
        if any(map(_casts, node.decorators)) or len(positions) > len(parameters):
            return None
        self._frames.append(function.frame)
        names: Names = {}
        for index, parameter in enumerate((*parameters, *node.params.kwonly_params)):
            name = parameter.name.value
            if index < len(positions):
                names[name] = positions[index]
            elif name in keywords:
                names[name] = keywords[name]
            else:
                names[name] = self.value(parameter.default, {}) if parameter.default is not None else None
        result = self.run(node, names)
        self._frames.pop()
        return result

    def _library(self, node: cst.Call, name: str, positions: Sequence[Held], keywords: Mapping[str, Held]) -> Held:
        module, _, op = name.rpartition(".")
        if op == "is_autocast_enabled":
            return Const(self.regime is not None) if self.clear else None
        if op.startswith("get_autocast") and op.endswith("dtype"):
            return self._low()
        if name in ("torch.is_tensor", "torch.is_floating_point") and positions and isinstance(positions[0], Typed):
            return Const(True)
        if module not in _MODULES:
            return None
        if op in _MADE:
            asked = keywords.get("dtype", Dtype("float32"))
            return _typed(asked)
        first = positions[0] if positions else keywords.get("input")
        rest = positions[1:]
        return self._applied(node, op, first, rest, keywords)

    def _method(
        self, node: cst.Call, name: str, owner: Typed, positions: Sequence[Held], keywords: Mapping[str, Held]
    ) -> Held:
        if name in ("to", "type", "type_as"):
            return self._converted(owner, [*positions, *keywords.values()], moved=name == "to")
        if name in CASTS:
            return replace(owner, dtypes=frozenset({CASTS[name]}))
        if name == "is_floating_point":
            return Const(bool(owner.dtypes and owner.dtypes <= set(FLOATING)))
        if name in _MADE_NEW:
            return _typed(keywords["dtype"]) if "dtype" in keywords else Typed(owner.dtypes, SOME_DIMENSIONS)
        op = name.removesuffix("_")
        in_place = name != op and op in _IN_PLACE
        return self._applied(node, op if in_place else name, owner, positions, keywords, in_place=in_place)

    @staticmethod
    def _converted(owner: Typed, given: Sequence[Held], *, moved: bool) -> Held:
        for one in given:
            if isinstance(one, Dtype):
                return replace(owner, dtypes=frozenset({one.name}))
            if isinstance(one, Typed):
                return replace(owner, dtypes=one.dtypes)
        places = all(one is None or isinstance(one, (Const, Ref)) for one in given)
        unknown = any(one is None for one in given)
        return owner if moved and places and not unknown else Typed(None, owner.rank)

    def _applied(
        self,
        node: cst.Call,
        op: str,
        first: Held,
        rest: Sequence[Held],
        keywords: Mapping[str, Held],
        *,
        in_place: bool = False,
    ) -> Held:
        if op in _MADE_LIKE and isinstance(first, Typed):
            return _typed(keywords["dtype"]) if "dtype" in keywords else first
        operands = [first]
        if op == "einsum":
            equation = node.args[0].value
            text = equation.evaluated_value if isinstance(equation, cst.SimpleString) else None
            found = contracts(text) if isinstance(text, str) else None
            if found is None:
                return None
            op, operands = ("einsum" if found else "einsum_elementwise"), list(rest)
        elif op in _JOINS:
            if not isinstance(first, tuple):
                return first if isinstance(first, Typed) else None
            operands = list(first)
        else:
            for keyword, place in BESIDES.get(op, ()):
                if keyword in keywords or place < len(rest):
                    operand = keywords[keyword] if keyword in keywords else rest[place]
                    operands += [operand] if operand != _NONE else []
        if op in _POSITIONS:
            return None
        asked = keywords.get("dtype")
        out = keywords.get("out")
        return self._operation(
            node, op, operands, in_place=in_place,
            asked=asked.name if isinstance(asked, Dtype) else None, out=out if isinstance(out, Typed) else None,
        )  # fmt: skip

    def _operation(
        self,
        node: cst.CSTNode,
        op: str,
        values: Sequence[Held],
        *,
        in_place: bool = False,
        asked: str | None = None,
        out: Typed | None = None,
    ) -> Held:
        """The result of an operation of PyTorch; one that raises is recorded."""
        if not any(isinstance(value, Typed) for value in values) or op not in KNOWN or not self.clear:
            return None
        operands = [_operand(value) for value in values]
        found = outcome(op, operands, self.regime, asked=asked, in_place=in_place, out=out)
        if found.refusal is not None:
            self._refused(node, op, found.refusal)
        if found.dtypes is None:
            return None
        return Typed(found.dtypes, None if op in _REDUCES else SOME_DIMENSIONS)

    def _launch(
        self, node: cst.Call, kernel: Function, positions: Sequence[Held], keywords: Mapping[str, Held]
    ) -> None:
        """Record a Triton kernel whose products meet two dtypes."""
        function = node_of(kernel)
        if not isinstance(function, cst.FunctionDef):
            return
        parameters = [parameter.name.value for parameter in function.params.params]
        given = {**dict(zip(parameters, positions, strict=False)), **keywords}
        for left, right in multiplied(function):
            one, other = given.get(left), given.get(right)
            kinds = [kind for side in (one, other) if isinstance(side, Typed) and (kind := known(side.dtypes))]
            if len(set(kinds)) > 1:
                reason = f"tl.dot multiplies {left} by {right}, which are {' and '.join(kinds)}"
                self._refused(node, function.name.value, reason)

    def _refused(self, node: cst.CSTNode, op: str, reason: str) -> None:
        assert self._site is not None
        self.found.append(Refusal(node, op, reason, self._site, self.in_backward, self.unsure > 0))


def _operand(value: Held) -> Typed:
    """A value as an operand; an unknown one has any dtype that autocast casts, or an integral one."""
    if isinstance(value, Typed):
        return value if value.dtypes is not None else replace(value, dtypes=_ANY)
    if isinstance(value, Const) and isinstance(value.value, (int, float)):
        return Typed(frozenset({"float32" if isinstance(value.value, float) else "int64"}), NUMBER)
    return Typed(_ANY)


def _typed(asked: Held) -> Held:
    return Typed(frozenset({asked.name}), SOME_DIMENSIONS) if isinstance(asked, Dtype) else None


def _item(value: Held, index: int | None, count: int) -> Held:
    """An element of what is unpacked; those of a tensor have its dtype."""
    if isinstance(value, Typed):
        return value
    return value[index] if isinstance(value, tuple) and index is not None and len(value) == count else None


def _join(names: Names, other: Names) -> None:
    for name in names.keys() | other.keys():
        names[name] = _joined(names.get(name, _NONE), other.get(name, _NONE))


def _joined(one: Held, other: Held) -> Held:
    if one == other:
        return one
    if one == _NONE or other == _NONE:
        return other if one == _NONE else one
    if isinstance(one, Typed) and isinstance(other, Typed) and one.dtypes == other.dtypes:
        return Typed(one.dtypes, None)
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return tuple(map(_joined, one, other))
    return None


def _compared(left: Held, operator: cst.BaseCompOp, right: Held) -> Held:
    """What a comparison gives, where it is one of dtypes, or with None."""
    if isinstance(operator, (cst.Is, cst.IsNot)) and right == _NONE and left is not None:
        return Const((left == _NONE) is isinstance(operator, cst.Is))
    if isinstance(left, (Dtype, Const)):
        if isinstance(operator, (cst.Equal, cst.Is)) and isinstance(right, type(left)):
            return Const(left == right)
        if isinstance(operator, (cst.NotEqual, cst.IsNot)) and isinstance(right, type(left)):
            return Const(left != right)
        if isinstance(operator, (cst.In, cst.NotIn)) and isinstance(right, tuple) and None not in right:
            return Const((left in right) is isinstance(operator, cst.In))
    return None


def _is_off(item: cst.WithItem) -> bool:
    """Whether a region is entered with autocast off."""
    call = item.item
    arguments = call.args if isinstance(call, cst.Call) else ()
    return any(
        isinstance(one.value, cst.Name)
        and one.value.value == "False"
        and (one.keyword is None or one.keyword.value == "enabled")
        for one in arguments
    )


def _casts(decorator: cst.Decorator) -> bool:
    names = [node.value for node in walk(decorator) if isinstance(node, cst.Name)]
    return any(MINDS_AUTOCAST.search(name) or CASTER.search(name) for name in names)
