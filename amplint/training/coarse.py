"""Results of which half leaves few digits: small differences of large products, transformed points, sums of returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import every
from amplint.torchlib.catalogue import OPERATIONS, operations_with
from amplint.torchlib.policy import words
from amplint.training.bindings import bound_paths, called_name, paths
from amplint.training.operands import has_square, is_computed_wide, operands, products_in, widens

_Body = cst.FunctionDef | cst.Module
_Found = tuple[cst.CSTNode, str, tuple[cst.CSTNode, ...]]
_Statement = cst.Assign | cst.AugAssign | cst.Return | cst.Expr
_Named = Mapping[str, Sequence[cst.CSTNode]]
"""Variable -> the products of matrices that it is made of."""
_ADDITIVE = (cst.Add, cst.Subtract)
_ADDING = frozenset({"addmm", "baddbmm", "addbmm"})
_VIEWS = operations_with("reshapes") | words("contiguous detach clone permute transpose t swapaxes movedim")
_COLLECTING = frozenset({"append", "insert", "size", "len"})
_SIZES = frozenset({"size", "numel", "nelement", "shape", "len"})
_ROOTS = frozenset({"sqrt", "pow"})
WORDS = frozenset({"reversed", "range", "ones_like"})
"""Words of which code with such results has one, products aside."""
_DISTANCES = "squared distances by a product in half cancel, so that small ones keep no digit; compute them in float32"
_OF_ITSELF = "a product of a tensor with itself is as large as its squares, and its differences in half keep few digits"
_AVERAGES = (
    "sums of products can pass 65504 in float16 before they are divided by their number; compute them in float32"
)
_POINTS = "a transformation in half leaves coordinates three digits in float16, two in bfloat16"
_FACTORS = "a discount like a half tensor is rounded as that is: 0.99 is 0.988 in bfloat16; make it float32"
_BACKWARDS = "what this sums backwards is rounded in each step where it is half; make what it sums float32"


def of(function: _Body, source: Source, dtype: str, *, chosen: bool) -> Iterator[_Found]:
    """The coarse results in `function`; of distances none where they are `chosen` among, which is told there."""
    yield from () if chosen else _distances(function, source)
    yield from _energies(function, source)
    yield from _points(function, source)
    yield from _returns(function)
    if dtype == "float16":
        yield from _averages(function, source)


def _distances(function: _Body, source: Source) -> Iterator[_Found]:
    """Sums of squares less a product of matrices."""
    products: dict[str, list[cst.CSTNode]] = {}
    squares, negative = set[str](), set[str]()
    for statement in _statements(function):
        value, into = statement.value, bound_paths(statement) if isinstance(statement, cst.Assign) else set[str]()
        if value is None or any(is_computed_wide(one, source) for one in products_in(value)):
            continue
        sums = [*_sums(value, source), *_added(statement)]
        found = [one for each in sums for one in _of_distance(each, products, squares, negative)]
        found += [one for one in products_in(value) if _subtracts_product(one, squares)]
        yield from ((one, _DISTANCES, tuple(found)) for one in found[:1])
        named = paths(value)
        if has_square(value) or named & squares:
            squares |= into
        else:
            behind = [*products_in(value), *(one for path in sorted(named) for one in products.get(path, ()))]
            products |= dict.fromkeys(into, behind) if behind else {}
            negative |= into if behind and _is_negative(value) else set()


def _statements(function: _Body) -> Iterator[_Statement]:
    yield from every(function, cst.Assign, cst.AugAssign, cst.Return, cst.Expr)  # type: ignore[misc]


def _sums(value: cst.CSTNode, source: Source) -> Iterator[list[tuple[bool, cst.CSTNode]]]:
    """The terms of each sum in `value`, with whether it is subtracted."""
    for one in every(value, cst.BinaryOperation):
        above = source.parent(one)
        within = isinstance(above, cst.BinaryOperation) and isinstance(above.operator, _ADDITIVE)
        if isinstance(one.operator, _ADDITIVE) and not within:
            yield list(_terms(one, subtracted=False))


def _added(statement: _Statement) -> Iterator[list[tuple[bool, cst.CSTNode]]]:
    """The terms of the sum to which a statement changes a variable."""
    if isinstance(statement, cst.AugAssign) and isinstance(statement.operator, (cst.AddAssign, cst.SubtractAssign)):
        subtracted = isinstance(statement.operator, cst.SubtractAssign)
        yield [(False, statement.target), *_terms(statement.value, subtracted=subtracted)]


def _terms(value: cst.CSTNode, *, subtracted: bool) -> Iterator[tuple[bool, cst.CSTNode]]:
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, _ADDITIVE):
        yield from _terms(value.left, subtracted=subtracted)
        yield from _terms(value.right, subtracted=subtracted is not isinstance(value.operator, cst.Subtract))
    else:
        yield subtracted is not _is_negative(value), value


def _is_negative(value: cst.CSTNode) -> bool:
    """Whether an odd number of the factors of `value`, or of what its function is given first, has a minus."""
    if isinstance(value, cst.UnaryOperation):
        return isinstance(value.operator, cst.Minus) is not _is_negative(value.expression)
    if isinstance(value, cst.BinaryOperation) and not isinstance(value.operator, _ADDITIVE):
        return _is_negative(value.left) is not _is_negative(value.right)
    if isinstance(value, (cst.Subscript, cst.Attribute)):
        return _is_negative(value.value)
    if not isinstance(value, cst.Call):
        return False
    given = [one.value for one in value.args[:2] if one.keyword is None]
    scales = called_name(value) in ("mul", "multiply", "mul_")
    given = [one for one in given if scales or not isinstance(getattr(one, "expression", None), cst.BaseNumber)]
    owner = [value.func.value] if isinstance(value.func, cst.Attribute) else []
    return sum(map(_is_negative, (*owner, *given))) % 2 == 1


def _of_distance(
    terms: list[tuple[bool, cst.CSTNode]], products: _Named, squares: set[str], negative: set[str]
) -> list[cst.CSTNode]:
    """The products that a sum takes from squares; `negative` variables hold what is taken already."""
    taken, kept = list[cst.CSTNode](), set[bool]()
    for sign, term in terms:
        subtracted = sign is (dotted(term) not in negative)
        made, named = list(products_in(term)), paths(term)
        if not made and (has_square(term) or named & squares):
            kept.add(subtracted)
        else:
            made += (one for path in sorted(named) for one in products.get(path, ()))
            taken += made
            if made:
                kept.add(not subtracted)
    return taken if len(kept) == 1 and len(terms) > 1 and any(_is_kept(one, squares) for _, one in terms) else []


def _is_kept(term: cst.CSTNode, squares: set[str]) -> bool:
    return not any(products_in(term)) and (has_square(term) or bool(paths(term) & squares))


def _subtracts_product(product: cst.CSTNode, squares: set[str]) -> bool:
    """Whether a product takes itself from the squares that it is added to: `squares.addmm(1, -2, x, y.t())`."""
    if not isinstance(product, cst.Call) or called_name(product) not in _ADDING:
        return False
    owner = product.func.value if isinstance(product.func, cst.Attribute) else None
    into = [owner] if owner is not None and dotted(owner) != "torch" else [one.value for one in product.args[:1]]
    added = any(paths(one) & squares or has_square(one) for one in into)
    return added and any(
        isinstance(one.value, cst.UnaryOperation) and any(every(one, cst.Minus)) for one in product.args
    )


def _energies(function: _Body, source: Source) -> Iterator[_Found]:
    """Differences of products of a tensor with itself, which nothing scales."""
    roots, products = dict[str, str](), dict[str, list[cst.CSTNode]]()
    for statement in _statements(function):
        value = statement.value
        if value is None:
            continue
        differences = (one for one in every(value, cst.BinaryOperation) if isinstance(one.operator, cst.Subtract))
        for one in differences:
            behind = [each for path in sorted(paths(one)) for each in products.get(path, ())]
            if behind:
                yield one, _OF_ITSELF, tuple(behind)
                products.clear()
        into = bound_paths(statement, whole=True) if isinstance(statement, cst.Assign) else set[str]()
        made: list[cst.CSTNode] = (
            [value] if value in [*products_in(value)] and not is_computed_wide(value, source) else []
        )
        sides = [_root(one, roots) for one in operands(source, made[0])] if made else []
        for path in into:
            products.pop(path, None)
            if len(sides) == 2 and sides[0] == sides[1] is not None:
                products[path] = made
            root = _root(value, roots)
            roots[path] = root if root is not None else path


def _root(value: cst.CSTNode, roots: Mapping[str, str]) -> str | None:
    """The variable of which `value` is a view, through the `roots` of others."""
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and called_name(value) in _VIEWS:
        value = value.func.value if dotted(value.func.value) != "torch" else value.args[0].value
    if isinstance(value, cst.Attribute) and value.attr.value in ("T", "mT"):
        value = value.value
    path = dotted(value)
    return roots.get(path, path) if path is not None else None


def _points(function: _Body, source: Source) -> Iterator[_Found]:
    """Products with all but the last column of a matrix whose last column is added."""
    columns = {(path, last) for one in every(function, cst.Subscript) for path, last in _column(one, source)}
    for product in products_in(function):
        linear = [one for one in operands(source, product) if isinstance(one, cst.Subscript)]
        if not is_computed_wide(product, source) and any(_linear(one, source) & columns for one in linear):
            yield product, _POINTS, (product,)


def _column(node: cst.Subscript, source: Source) -> Iterator[tuple[str, str]]:
    """The matrix of which `node` is the third or fourth column, and its number."""
    part = node.slice[-1].slice
    if len(node.slice) > 1 and isinstance(part, cst.Index) and source.code(part.value) in ("2", "3"):
        yield source.code(node.value), source.code(part.value)


def _linear(node: cst.Subscript, source: Source) -> set[tuple[str, str]]:
    """The matrix whose first two or three columns `node` is, and their number."""
    part = node.slice[-1].slice
    upper = part.upper if len(node.slice) > 1 and isinstance(part, cst.Slice) and part.lower is None else None
    return {(source.code(node.value), source.code(upper))} if upper is not None else set()


def _averages(function: _Body, source: Source) -> Iterator[_Found]:
    """Products of matrices that are divided by a size."""
    assigned = list(every(function, cst.Assign))
    sizes = {path for one in assigned if _is_size(one.value, set()) for path in bound_paths(one)}
    products = {
        path: [*products_in(one.value)]
        for one in assigned
        if one.value in [*products_in(one.value)]
        for path in bound_paths(one, whole=True)
    }
    for quotient in every(function, cst.BinaryOperation, cst.Call):
        parts = _divided(quotient)
        if parts is None or not _is_size(parts[1], sizes):
            continue
        made = [parts[0]] if parts[0] in [*products_in(parts[0])] else products.get(dotted(parts[0]) or "", [])
        made = [one for one in made if not is_computed_wide(one, source)]
        if made and not widens(parts[0]):
            yield quotient, _AVERAGES, tuple(made)


def _divided(node: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """The dividend and the divisor of a quotient, by an operator or `div`."""
    if isinstance(node, cst.BinaryOperation):
        return (node.left, node.right) if isinstance(node.operator, cst.Divide) else None
    if not isinstance(node, cst.Call) or called_name(node) != "div":
        return None
    owner = node.func.value if isinstance(node.func, cst.Attribute) else None
    parts = [one.value for one in node.args]
    parts = [owner, *parts] if owner is not None and dotted(owner) not in ("torch", None) else parts
    return (parts[0], parts[1]) if len(parts) > 1 else None


def _is_size(value: cst.CSTNode, sizes: set[str]) -> bool:
    """Whether `value` is a number of elements, and no root of one."""
    names = {called_name(one) for one in every(value, cst.Call)}
    powers = any(isinstance(one.operator, cst.Power) for one in every(value, cst.BinaryOperation))
    shapes = any(one.attr.value == "shape" for one in every(value, cst.Attribute))
    return not powers and not names & _ROOTS and (bool(names & _SIZES or paths(value) & sizes) or shapes)


def _returns(function: _Body) -> Iterator[_Found]:
    """Sums that a loop makes from the last element to the first, and discounts that are made like other tensors."""
    factors: dict[str, list[cst.CSTNode]] = {}
    for assign in every(function, cst.Assign):
        for product in every(assign.value, cst.BinaryOperation):
            like: list[cst.CSTNode] = [one for one in (product.left, product.right) if called_name(one) == "ones_like"]
            plain = len(like) == 1 and isinstance(like[0], cst.Call) and len(like[0].args) == 1
            if isinstance(product.operator, cst.Multiply) and plain and not widens(like[0]):
                factors |= dict.fromkeys(bound_paths(assign), like)
    used = {path for call in every(function, cst.Call) if called_name(call) == "cumprod" for path in paths(call)}
    wide = {path for one in every(function, cst.Assign) if widens(one.value) for path in bound_paths(one)}
    for loop in (one for one in every(function, cst.For) if _goes_back(one.iter) and _only_computes(one)):
        for assign in every(loop.body, cst.Assign):
            summed = [one for one in bound_paths(assign) if _scales(assign.value, one)]
            used |= paths(assign.value) if summed else set()
            if summed and not widens(assign.value) and not paths(assign.value) & wide:
                yield assign, _BACKWARDS, ()
    for path in sorted(factors.keys() & used):
        yield factors[path][0], _FACTORS, tuple(factors[path])


def _goes_back(over: cst.BaseExpression) -> bool:
    steps = (
        over.args[2].value
        if called_name(over) == "range" and isinstance(over, cst.Call) and len(over.args) > 2
        else None
    )
    return called_name(over) == "reversed" or (steps is not None and any(every(steps, cst.Minus)))


def _only_computes(loop: cst.For) -> bool:
    """Whether a loop calls operations and collects their results, and runs no model, as one that draws samples does."""
    return all(called_name(one) in OPERATIONS.keys() | _COLLECTING for one in every(loop.body, cst.Call))


def _scales(value: cst.CSTNode, path: str) -> bool:
    """Whether `value` adds something to a multiple of `path`."""
    sums = (one for one in every(value, cst.BinaryOperation) if isinstance(one.operator, _ADDITIVE))
    terms = (term for one in sums for _, term in _terms(one, subtracted=False))
    return any(isinstance(one, cst.BinaryOperation) and path in paths(one) for one in terms)
