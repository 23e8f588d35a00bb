"""The two passes of a custom autograd function, compared side by side: uses in backward of tensors saved in forward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from amplint.findings import Guessed
from amplint.records import dataclass
from amplint.semantics.reading.origins import Origins, read
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.words import LIKE_WEIGHT, RUNS_BACK
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.policy import FLOAT32, LOWER, words

PRODUCTS = LOWER - {"prelu", "scaled_dot_product_attention"}
_HALF = "<dtype of the region>"
_GRADIENT = "<gradient>"
_STEEP = words("acos asin cosh cumprod exp expm1 log log10 log1p log2 prod rsqrt sinh softmax softplus tan")
"""Operations that lose too much in float16, which autocast therefore runs in float32."""
_OF_CONTENT = operations_with("of-content")
"""Functions that make a tensor of numbers, such as sizes."""
_LIBRARIES = frozenset({"torch", "F", "nn", "np", "math", "ctx", "self"})


@dataclass(frozen=True, slots=True)
class Passes:
    """`forward` and `backward` of one class."""

    forward: cst.FunctionDef
    backward: cst.FunctionDef

    @property
    def context(self) -> str:
        """Forward's name for `ctx`."""
        return self.forward.params.params[0].name.value if self.forward.params.params else ""

    @property
    def inputs(self) -> list[str]:
        """Forward's parameters after `ctx`."""
        return [param.name.value for param in self.forward.params.params[1:]]


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product: its node, PyTorch's name and operands."""

    node: cst.BaseExpression
    op: str
    operands: tuple[cst.BaseExpression, ...]


@dataclass(frozen=True, slots=True)
class Mixed:
    """A product in backward whose operands differ in dtype under autocast, and the one in forward that causes it."""

    node: cst.BaseExpression
    op: str
    weight: str
    product: cst.CSTNode
    guesses: tuple[Guessed, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """An input that forward passes to a kernel uncast; `conversion` is the last cast of another to the dtype of
    `like`.
    """

    name: str
    like: str
    conversion: cst.CSTNode
    argument: cst.CSTNode


def _product(node: cst.CSTNode) -> Product | None:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
        return Product(node, "matmul", (node.left, node.right))
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    op, given = node.func.attr.value, tuple(argument.value for argument in node.args if argument.keyword is None)
    if op not in PRODUCTS or any(argument.keyword and argument.keyword.value == "out" for argument in node.args):
        return None
    return Product(node, op, given if dotted(node.func.value) in ("torch", "F") else (node.func.value, *given))


def _computed(node: cst.BaseExpression, origins: Origins) -> str | None:
    """The dtype of a product of known values under autocast, which is the region's; None for other expressions."""
    found = _product(node)
    return _HALF if found is not None and any(origins.of(operand) for operand in found.operands) else None


class _Forward:
    """The tensors that forward saves, and the origin of its result's dtype."""

    def __init__(self, passes: Passes) -> None:
        self.origins = Origins({name: name for name in passes.inputs}, passes.context, special=_computed)
        star = passes.forward.params.star_arg
        if isinstance(star, cst.Param):
            self.origins.names[star.name.value] = star.name.value
        self.kept: list[str | None] | None = None
        self.products: list[cst.CSTNode] = []
        self.results: list[str | None] = []
        self.calls: list[tuple[cst.Call, str]] = []
        read(self.origins, passes.forward.body, self._seen)

    def _seen(self, node: cst.CSTNode, inside: bool) -> None:
        for inner in walk(node):
            if (found := _product(inner)) is not None and not inside:
                self.products.append(found.node)
            if isinstance(inner, cst.Call):
                self._called(inner)
        if isinstance(node, cst.Return) and node.value is not None:
            value = node.value
            first = value.elements[0].value if isinstance(value, cst.Tuple) and value.elements else value
            self.results.append(None if inside else self.origins.of(first))

    def _called(self, node: cst.Call) -> None:
        if dotted(node.func) == f"{self.origins.context}.save_for_backward":
            again = self.kept is not None
            plain = not any(argument.star for argument in node.args)
            self.kept = [self.origins.of(argument.value) for argument in node.args] if plain and not again else []
        elif (origin := self.origins.of(node.func)) is not None:
            self.calls.append((node, origin))


def _backward(passes: Passes, forward: _Forward) -> Origins:
    own = [param.name.value for param in passes.backward.params.params]
    names = dict.fromkeys(own[1:], _GRADIENT)
    kept = [origin if origin != _HALF else None for origin in forward.kept or ()]
    return Origins(names, own[0] if own else "", dict(forward.origins.saved), kept)


def mixed(passes: Passes, parameters: Set[str], named: bool) -> Mixed | None:
    """The first product in backward of the gradient with a weight in its own dtype.

    Weights are the inputs in `parameters`, which are attributes of objects, and, if `named`, those named like weights.
    """
    forward = _Forward(passes)
    if not forward.products or not forward.results or set(forward.results) != {_HALF}:
        return None
    found: list[Mixed] = []
    origins = _backward(passes, forward)

    def seen(node: cst.CSTNode, inside: bool) -> None:
        for inner in walk(node) if not inside else ():
            product = _product(inner)
            if product is None:
                continue
            of = [origins.of(operand) for operand in product.operands]
            weights = [o for o in of if o in passes.inputs and (o in parameters or (named and LIKE_WEIGHT.search(o)))]
            if _GRADIENT in of and weights:
                guesses = () if weights[0] in parameters else LIKE_WEIGHT.guesses(weights[0])
                found.append(Mixed(product.node, product.op, weights[0], forward.products[-1], guesses))

    read(origins, passes.backward.body, seen)
    return found[0] if found else None


def runs_again(passes: Passes) -> tuple[cst.Call, cst.Call, tuple[Guessed, ...]] | None:
    """A call in forward of an input, and the call in backward of the same, or of a method that inverts it.

    The third element are the guesses about that method.
    """
    forward = _Forward(passes)
    passed = {origin: node for node, origin in reversed(forward.calls) if origin != _HALF}
    if not passed:
        return None
    found: list[tuple[cst.Call, cst.Call, tuple[Guessed, ...]]] = []
    origins = _backward(passes, forward)

    def seen(node: cst.CSTNode, inside: bool) -> None:
        for inner in walk(node):
            if isinstance(inner, cst.Call):
                func = inner.func
                back = func if isinstance(func, cst.Attribute) and RUNS_BACK.search(func.attr.value) else None
                origin = origins.of(back.value if back is not None else func)
                if origin is not None and origin in passed:
                    guesses = RUNS_BACK.guesses(back.attr.value) if back is not None else ()
                    found.append((passed[origin], inner, guesses))

    read(origins, passes.backward.body, seen)
    return found[0] if found else None


def cast_in_both(passes: Passes, helpers: Mapping[str, cst.FunctionDef]) -> tuple[str, cst.CSTNode, cst.CSTNode] | None:
    """An operation that autocast casts in forward and not in backward: a product in each, or the same operation.

    Operations in regions of their own are left out. `helpers` are the functions and methods of the file that the passes
    may call.
    """
    first, second = (list(_outside_regions(method.body, helpers)) for method in (passes.forward, passes.backward))
    for op, node in second:
        for other, before in first:
            if other == op or {op, other} <= PRODUCTS:
                return op, before, node
    return None


def _outside_regions(body: cst.BaseSuite, helpers: Mapping[str, cst.FunctionDef]) -> Iterator[tuple[str, cst.CSTNode]]:
    """The operations that autocast casts in `body` and its callees."""
    seen: list[cst.CSTNode] = []
    read(Origins({}), body, lambda node, inside: seen.extend(() if inside else walk(node)))
    for node in seen:
        if (op := _cast_operation(node)) and (op in PRODUCTS or op in _STEEP):
            yield op, node
        elif isinstance(node, cst.Call) and (helper := helpers.get(last_name(node.func))) is not None:
            yield from _outside_regions(helper.body, {})


def computes_again(passes: Passes) -> tuple[str, cst.CSTNode, cst.CSTNode] | None:
    """An operation that autocast casts, in forward and in a part of backward with gradients enabled."""
    first = {op: node for node in walk(passes.forward.body) if (op := _cast_operation(node))}
    for block in walk(passes.backward.body):
        if isinstance(block, cst.With) and any(map(_records, block.items)):
            for node in walk(block.body):
                if (op := _cast_operation(node)) in first:
                    return op, first[op], node
    return None


def _records(item: cst.WithItem) -> bool:
    called = item.item.func if isinstance(item.item, cst.Call) else item.item
    return (dotted(called) or "").rpartition(".")[2] in ("enable_grad", "set_grad_enabled")


def _cast_operation(node: cst.CSTNode) -> str:
    """PyTorch's name of an operation that autocast casts; empty for anything else."""
    if isinstance(node, cst.BinaryOperation):
        return {cst.MatrixMultiply: "matmul", cst.Power: "pow"}.get(type(node.operator), "")
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return ""
    name, owner = node.func.attr.value, dotted(node.func.value)
    if node.args and isinstance(node.args[0].value, cst.Call) and last_name(node.args[0].value.func) in _OF_CONTENT:
        return ""
    return name if name in LOWER | FLOAT32 and owner not in ("math", "np", "numpy") else ""


def left_out(passes: Passes) -> Missing | None:
    """A differentiable input passed to a kernel with others, of which only those were cast to a common dtype."""
    converted: dict[str, cst.CSTNode] = {}
    likes: set[str] = set()
    for node in walk(passes.forward.body):
        if isinstance(node, cst.Assign) and isinstance(node.targets[0].target, cst.Name):
            name, like = node.targets[0].target.value, _like(node.value, node.targets[0].target.value)
            if like is not None and name in passes.inputs:
                converted[name] = node
                likes.add(like)
    if len(converted) < 2:
        return None
    candidates = differentiable(passes) - converted.keys() - likes
    for node in walk(passes.forward.body):
        if not isinstance(node, cst.Call) or (dotted(node.func) or "").partition(".")[0] in _LIBRARIES:
            continue
        given = {a.value.value: a.value for a in node.args if isinstance(a.value, cst.Name)}
        missing = [name for name in given if name in candidates]
        if len(missing) == 1 and len(given.keys() & converted.keys()) > 1:
            like = next(iter(likes - converted.keys() or likes))
            return Missing(missing[0], like, list(converted.values())[-1], given[missing[0]])
    return None


def _like(value: cst.BaseExpression, name: str) -> str | None:
    """`x` for `name.type_as(x)`, `name.to(x)` and `name.to(x.dtype)`."""
    if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute) or len(value.args) != 1:
        return None
    if dotted(value.func) not in (f"{name}.to", f"{name}.type_as"):
        return None
    given = dotted(value.args[0].value) or ""
    return given.removesuffix(".dtype") if given and "." not in given.removesuffix(".dtype") else None


def differentiable(passes: Passes) -> set[str]:
    """The inputs for which backward returns a gradient; the saved ones, where one call makes all that it returns."""
    found: set[str] = set()
    for values in _returned(passes.backward):
        if len(values) == 1 < len(passes.inputs) and isinstance(values[0], cst.Call):
            found |= _saved(passes)
            continue
        if len(values) < len(passes.inputs) or not all(map(_is_none, values[len(passes.inputs) :])):
            return set()
        found |= {name for name, value in zip(passes.inputs, values, strict=False) if not _is_nothing(value)}
    return found


def _saved(passes: Passes) -> set[str]:
    """The inputs that forward saves for backward under their own names."""
    calls = [node for node in walk(passes.forward.body) if isinstance(node, cst.Call)]
    saving = [call for call in calls if dotted(call.func) == f"{passes.context}.save_for_backward"]
    names = {argument.value.value for call in saving for argument in call.args if isinstance(argument.value, cst.Name)}
    return names & set(passes.inputs)


def _is_nothing(value: cst.BaseExpression) -> bool:
    """Whether an input gets no gradient, or zeros as integers do."""
    return _is_none(value) or (isinstance(value, cst.Call) and last_name(value.func) == "zeros_like")


def _is_none(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Name) and value.value == "None"


def _returned(method: cst.FunctionDef) -> Iterator[list[cst.BaseExpression]]:
    for node in walk(method.body):
        if isinstance(node, cst.Return) and node.value is not None:
            yield _elements(node.value)


def _elements(value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The elements of a tuple, of a sum of tuples, or of one that is repeated; a single value by itself."""
    if isinstance(value, cst.Tuple):
        return [element.value for element in value.elements]
    if isinstance(value, cst.BinaryOperation):
        if isinstance(value.operator, cst.Add) and _is_tuple(value.left) and _is_tuple(value.right):
            return [*_elements(value.left), *_elements(value.right)]
        if isinstance(value.operator, cst.Multiply) and _is_tuple(value):
            assert isinstance(value.right, cst.Integer)
            return _elements(value.left) * int(value.right.evaluated_value)
    return [value]


def _is_tuple(value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Multiply):
        return _is_tuple(value.left) and isinstance(value.right, cst.Integer)
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add):
        return _is_tuple(value.left) and _is_tuple(value.right)
    return isinstance(value, cst.Tuple)
