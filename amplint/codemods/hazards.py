"""Half-precision hazards that show in the text alone: sparse products, bounds that round to 1, nearest neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from amplint.codemods.bindings import bound_paths, called_name, paths
from amplint.codemods.halves import calls_library, changes_dtype
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.source.tree import every, walk
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.names import LIBRARIES_WITHOUT_FLOAT16

_SPARSE = ("to_sparse", "to_sparse_csr", "sparse_coo_tensor", "sparse_csr_tensor")
_SPARSE_PRODUCTS = ("spmm", "sspaddmm", "smm", "hspmm")
_BOUNDING = frozenset({"max", "amax", "neg", "neg_", "log_softmax", "logsumexp"})
"""Functions whose result, or its difference to what they are given, is never much more than 0."""
_PRODUCTS = frozenset({"mm", "bmm", "matmul", "addmm", "baddbmm", "einsum"})
_RESHAPING = operations_with("reshapes")
_CHOICES = frozenset({"argmin", "argmax", "min", "max", "topk", "argsort", "sort"})
_BOUNDS = {"clamp": 2, "clip": 2, "clamp_": 2, "clamp_max": 1}
"""Function that bounds a tensor -> the position of the upper bound, the tensor being the first argument."""
_Body = cst.FunctionDef | cst.Module
_FOURIER = operations_with("no-bfloat16")
_SOLVERS = ("odeint", "odeint_adjoint", "QPFunction")
_OF_NUMPY = ("np.", "numpy.", "math.")
_AVERAGES = frozenset({"conv1d", "conv2d", "conv3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"})
_WORDS = {
    "grad",
    "sparse",
    "batch_norm",
    "grid_sample",
    "sqrt",
    "rsqrt",
    "exp_",
    "sin",
    "cos",
    *_AVERAGES,
    *_SOLVERS,
    *_SPARSE,
    *_SPARSE_PRODUCTS,
    *_BOUNDS,
    *_CHOICES,
    *_PRODUCTS,
    *_FOURIER,
    *LIBRARIES_WITHOUT_FLOAT16,
    "fromarray",
}
"""Words of which all such code has one."""
_BELOW_ONE = {"float16": 2.0**-12, "bfloat16": 2.0**-9}
"""The distance below which numbers round to 1."""


def is_sparse(node: cst.CSTNode) -> bool:
    """Whether `node` names a function that makes or multiplies sparse tensors."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
        return node.func.value.endswith("spmm")
    if not isinstance(node, cst.Attribute):
        return False
    return node.attr.value in (*_SPARSE, *_SPARSE_PRODUCTS) or dotted(node) == "torch.sparse"


def of(
    chunk: Chunk,
    dtype: str,
    *,
    sparse: bool,
    is_wide: Callable[[cst.CSTNode], bool] = lambda node: False,
) -> Iterator[tuple[cst.CSTNode, str]]:
    """The hazards in `chunk`, each with a message; sparse tensors only with `sparse`.

    `is_wide` tells operations that run in float32 anyway.
    """
    for node, why in _found_in(chunk, dtype, sparse=sparse, is_wide=is_wide):
        if not (isinstance(node, cst.Call) and (dotted(node.func) or "").startswith(_OF_NUMPY)):
            yield node, why


def _found_in(
    chunk: Chunk, dtype: str, *, sparse: bool, is_wide: Callable[[cst.CSTNode], bool]
) -> Iterator[tuple[cst.CSTNode, str]]:
    words = chunk.words
    if words.isdisjoint(_WORDS) and "@" not in chunk.text and not any(word.endswith("spmm") for word in words):
        return
    for node in walk(chunk.module):
        if sparse and is_sparse(node):
            yield node, "a sparse tensor; not every product of these has a kernel for half"
        elif dtype == "float16" and isinstance(node, cst.Call) and _differentiates(chunk, node):
            yield node, "these gradients are float16 and carry no scale; compute the penalty in a region that is off"
        elif dtype == "float16" and isinstance(node, cst.Call) and _transforms(node) and not is_wide(node):
            yield node, "a Fourier transform of float16 takes only sizes that are powers of two; transform float32"
        elif dtype == "float16" and isinstance(node, cst.Call) and _exponentiates(node) and not is_wide(node):
            yield node, "autocast lifts no exp_(): in float16 it is infinite from 11.1 on; use exp()"
        elif isinstance(node, cst.Call) and _normalizes(chunk, node):
            yield (
                node,
                "batch_norm raises where its weights are half beside float32 statistics; pass weights as float32",
            )
        elif isinstance(node, cst.Call) and _samples(node) and not is_wide(node):
            yield (
                node,
                "positions that this samples at have three digits in float16, two in bfloat16; use a float32 grid",
            )
        elif isinstance(node, cst.Call) and called_name(node) in _SOLVERS:
            yield node, "a solver gets what half has rounded as coarsely as its tolerance; compute that in float32"
        elif isinstance(node, cst.FunctionDef) or (node is chunk.module and not (chunk.name or chunk.is_class)):
            assert isinstance(node, (cst.FunctionDef, cst.Module))
            yield from _nearest(node)
            yield from (one for one in _bounds(node, chunk, dtype) if not is_wide(one[0]))
            yield from _sines(node)
            yield from (one for one in _variances(node) if not is_wide(one[0]))
            yield from _rotations(node)
            yield from (one for one in _phases(node, chunk) if not is_wide(one[0]))
            if dtype == "float16":
                yield from _quotients(node)
                yield from _to_libraries(node, chunk)


def _rotations(function: _Body) -> Iterator[tuple[cst.CSTNode, str]]:
    """Products with the rotation of a 4x4 transformation in `function`, which autocast computes in half."""
    rotations = {path for one in every(function, cst.Assign) if _is_rotation(one.value) for path in bound_paths(one)}
    for node in every(function, cst.Call, cst.BinaryOperation):
        sides: list[cst.BaseExpression] = []
        if isinstance(node, cst.Call) and called_name(node) in _PRODUCTS:
            owner = [node.func.value] if isinstance(node.func, cst.Attribute) else []
            sides = [*owner, *(one.value for one in node.args)]
        elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
            sides = [node.left, node.right]
        if not _is_wide(node) and any(_is_rotation(one) or dotted(one) in rotations for one in sides):
            yield node, "a transformation in half leaves coordinates three digits in float16, two in bfloat16"


def _phases(function: _Body, chunk: Chunk) -> Iterator[tuple[cst.CSTNode, str]]:
    """Sines and cosines in `function` of what a layer or a matrix product gives, as encodings of times and places."""
    methods = {one.name.value for one in every(chunk.module, cst.FunctionDef)}
    angles = {
        path
        for one in every(function, cst.Assign)
        if _is_lowered(one.value, methods) and not _is_wide(one.value)
        for path in bound_paths(one, whole=True)
    }
    for call in every(function, cst.Call):
        if called_name(call) not in ("sin", "cos") or _is_wide(call):
            continue
        parts = [call.func.value] if isinstance(call.func, cst.Attribute) else []
        parts += [one.value for one in call.args]
        named = {dotted(node) for part in parts for node in every(part, cst.Name, cst.Attribute)}
        if angles & named or any(_is_lowered(part, methods) for part in parts):
            yield (
                call,
                "an angle in half has three digits in float16, two in bfloat16, so that large ones lose their phase",
            )


def _is_lowered(value: cst.CSTNode, methods: set[str]) -> bool:
    """Whether `value` holds a matrix product, or what an attribute gives that is none of the `methods`."""
    layers = (dotted(call.func) or "" for call in every(value, cst.Call))
    return _multiplies(value) or any(
        one.startswith("self.") and one[5:].isidentifier() and one[5:] not in methods for one in layers
    )


def _is_rotation(value: cst.CSTNode) -> bool:
    """Whether `value` is the part of a transformation up to its third row and column, possibly reshaped."""
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and called_name(value) in _RESHAPING:
        value = value.func.value
    parts = [one.slice for one in value.slice] if isinstance(value, cst.Subscript) else []
    ends = [one.upper for one in parts if isinstance(one, cst.Slice) and one.lower is None]
    return [one.value for one in ends if isinstance(one, cst.Integer)][-2:] == ["3", "3"]


def _to_libraries(function: _Body, chunk: Chunk) -> Iterator[tuple[cst.CSTNode, str]]:
    """Calls in `function` of libraries that take no array of float16, with one that is made there of a tensor."""
    arrays = {path for one in every(function, cst.Assign) if _is_array(one.value) for path in bound_paths(one)}
    for call in every(function, cst.Call):
        given = [one.value for one in call.args if _is_array(one.value) or paths(one.value) & arrays]
        if given and calls_library(chunk.source, call, LIBRARIES_WITHOUT_FLOAT16):
            yield call, "this library raises for NumPy arrays of float16; convert to float32 before"


def _is_array(value: cst.CSTNode) -> bool:
    """Whether `value` is made by `numpy()`, of what no call casts."""
    calls = list(every(value, cst.Call))
    return any(called_name(one) == "numpy" for one in calls) and not any(map(changes_dtype, calls))


def _samples(call: cst.Call) -> bool:
    """Whether `call` samples at a grid that is not cast to float32."""
    named = (one.value for one in call.args if one.keyword is not None and one.keyword.value == "grid")
    grid = next(named, call.args[1].value if len(call.args) > 1 and call.args[1].keyword is None else None)
    return called_name(call) == "grid_sample" and grid is not None and called_name(grid) != "float"


def _differentiates(chunk: Chunk, call: cst.Call) -> bool:
    """Whether `call` returns differentiable gradients of a loss that is not scaled."""
    keywords = {argument.keyword.value for argument in call.args if argument.keyword is not None}
    name = dotted(call.func) or ""
    return "create_graph" in keywords and name.endswith("grad") and "scale" not in chunk.source.code(call)


def _transforms(call: cst.Call) -> bool:
    """Whether `call` is a Fourier transform whose operand is not cast to float32."""
    return (
        called_name(call) in _FOURIER
        and (dotted(call.func) or "").startswith(("torch.fft", "fft."))
        and not _is_wide(call)
    )


def _exponentiates(call: cst.Call) -> bool:
    """Whether `call` takes the exponential in place of a tensor that is neither float32 nor bounded by its maximum."""
    if called_name(call) != "exp_" or call.args or _is_wide(call):
        return False
    return not any(called_name(one) in _BOUNDING for one in every(call, cst.Call)) and not any(every(call, cst.Minus))


def _normalizes(chunk: Chunk, call: cst.Call) -> bool:
    """Whether `call` is batch normalization with statistics, and an attribute as weights that is no parameter here."""
    weight = call.args[3].value if called_name(call) == "batch_norm" and len(call.args) > 3 else None
    path = dotted(weight) or "" if weight is not None else ""
    if not path.startswith("self."):
        return False
    given = [one.value for one in every(chunk.module, cst.Assign) if path in bound_paths(one, whole=True)]
    return bool(given) and all(dotted(one) == "None" for one in given)


def _nearest(function: _Body) -> Iterator[tuple[cst.CSTNode, str]]:
    """Choices of the nearest of many vectors in `function`, by distances computed by a matrix product."""
    distances, products, squares = set[str](), set[str](), set[str]()
    for assignment in every(function, cst.Assign):
        value, bound = assignment.value, bound_paths(assignment)
        mentioned = paths(value)
        if _is_distance(value) or (_subtracts(value) and mentioned & products and mentioned & squares):
            distances |= bound
        products |= bound if _multiplies(value) else set()
        squares |= bound if _squares(value) else set()
    for call in every(function, cst.Call):
        if called_name(call) in _CHOICES and _operand(call) & distances and _picks(call):
            yield call, "the nearest is chosen by distances in half, which are too coarse; compute them in float32"


def _sines(function: _Body) -> Iterator[tuple[cst.CSTNode, str]]:
    """Roots of 1 minus a square in `function`, such as the sine of a cosine."""
    for call in every(function, cst.Call):
        if called_name(call) not in ("sqrt", "rsqrt") or _is_wide(call):
            continue
        if any(called_name(one) in _BOUNDS for one in every(call, cst.Call)):
            continue
        for difference in every(call, cst.BinaryOperation):
            if isinstance(difference.operator, cst.Subtract) and _squares(difference.right):
                yield call, "a square that half rounds may be more than 1, and the root of what is left is NaN"


def _variances(function: _Body) -> Iterator[tuple[cst.CSTNode, str]]:
    """Differences of an average of a square and a squared average."""
    squares = {
        path
        for one in every(function, cst.Assign)
        if _squares(one.value) or _is_square(one.value)
        for path in bound_paths(one)
    }
    for difference in every(function, cst.BinaryOperation):
        left, right = difference.left, difference.right
        if not isinstance(difference.operator, cst.Subtract) or not isinstance(left, cst.Call) or not left.args:
            continue
        averages = called_name(left) in _AVERAGES and _is_square(left.args[0].value)
        if averages and (dotted(right) in squares or _squares(right) or _is_square(right)):
            yield difference, "a variance by averages in half, which cancel to a digit or two; compute it in float32"


def _is_square(value: cst.CSTNode) -> bool:
    """Whether `value` is a product of two names, equal ones or not, or a square."""
    product = isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Multiply)
    named = isinstance(value, cst.BinaryOperation) and None not in (dotted(value.left), dotted(value.right))
    return (product and named) or _squares(value)


def _quotients(function: _Body) -> Iterator[tuple[cst.CSTNode, str]]:
    """Divisions by a matrix product in `function`."""
    products = {path for one in every(function, cst.Assign) if _multiplies(one.value) for path in bound_paths(one)}
    for quotient in every(function, cst.BinaryOperation):
        divides = isinstance(quotient.operator, cst.Divide) and not _is_wide(quotient)
        if divides and (_multiplies(quotient.right) or dotted(quotient.right) in products):
            yield quotient, "a divisor that is a product of matrices may be 0 or infinite in float16; use float32"


def _picks(call: cst.Call) -> bool:
    """Whether a choice is made per row: without further arguments, `max` and `min` reduce to one number."""
    method = isinstance(call.func, cst.Attribute) and dotted(call.func.value) != "torch"
    return called_name(call) not in ("max", "min") or len(call.args) > 1 - method


def _is_distance(value: cst.CSTNode) -> bool:
    """Whether `value` is a matrix product combined with a sum or difference, or a result of `cdist`."""
    calls = {called_name(call) for call in every(value, cst.Call)}
    return "cdist" in calls or (_multiplies(value) and (_subtracts(value) or bool(calls & {"addmm", "baddbmm"})))


def _multiplies(value: cst.CSTNode) -> bool:
    operators = {type(one.operator) for one in every(value, cst.BinaryOperation)}
    return cst.MatrixMultiply in operators or any(called_name(call) in _PRODUCTS for call in every(value, cst.Call))


def _subtracts(value: cst.CSTNode) -> bool:
    return any(isinstance(one.operator, cst.Subtract) for one in every(value, cst.BinaryOperation))


def _squares(value: cst.CSTNode) -> bool:
    operators = {type(one.operator) for one in every(value, cst.BinaryOperation)}
    return cst.Power in operators or any(
        called_name(call) in ("pow", "square", "norm") for call in every(value, cst.Call)
    )


def _bounds(function: _Body, chunk: Chunk, dtype: str) -> Iterator[tuple[cst.CSTNode, str]]:
    """Bounds in `function` that should keep probabilities from 1 but are 1 in `dtype`."""
    wide = {path for one in every(function, cst.Assign) if _is_wide(one.value) for path in bound_paths(one)}
    for call in every(function, cst.Call):
        place = _BOUNDS.get(called_name(call))
        if place is None or _operand(call) & wide or _is_wide(call):
            continue
        method = isinstance(call.func, cst.Attribute) and dotted(call.func.value) != "torch"
        named = [one.value for one in call.args if one.keyword is not None and one.keyword.value == "max"]
        plain = [one.value for one in call.args if one.keyword is None][place - method :]
        for bound in (named or plain)[:1]:
            value = _number(bound, chunk)
            if value is not None and 0 < 1 - value <= _BELOW_ONE[dtype]:
                yield call, f"{value:.9g} is 1 in {dtype}, so nothing keeps this tensor from 1; bound it in float32"


def _is_wide(value: cst.CSTNode) -> bool:
    return any(called_name(call) in ("float", "double") for call in every(value, cst.Call))


def _number(node: cst.CSTNode, chunk: Chunk) -> float | None:
    """The number that `node` is, as a literal or by its definition in `chunk`."""
    if isinstance(node, (cst.Float, cst.Integer)):
        return float(node.value.replace("_", "")) if node.value[:2].lower() not in ("0x", "0b", "0o") else None
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Subtract):
        left, right = _number(node.left, chunk), _number(node.right, chunk)
        return left - right if left is not None and right is not None else None
    if isinstance(node, cst.Name):
        given = [one.value for one in every(chunk.module, cst.Assign) if bound_paths(one) == {node.value}]
        given += [one.default for one in every(chunk.module, cst.Param) if one.name.value == node.value and one.default]
        return _number(given[0], chunk) if len(given) == 1 and isinstance(given[0], cst.Float) else None
    return None


def _operand(call: cst.Call) -> set[str]:
    """The variables in the main operand of `call`: its first argument, or its receiver."""
    owner = paths(call.func.value) if isinstance(call.func, cst.Attribute) else set[str]()
    return owner | {path for argument in call.args[:1] for path in paths(argument)}
