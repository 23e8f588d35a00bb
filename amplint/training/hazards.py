"""Half-precision hazards that show in the text alone: sparse products, bounds that round to 1, nearest neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set

from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import every, walk
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.names import LIBRARIES_WITHOUT_FLOAT16, TO_FLOAT32
from amplint.torchlib.policy import BANNED, FLOAT32, treatment
from amplint.training import coarse, sigmoids
from amplint.training.bindings import bound_paths, called_name, matched, paths, positional
from amplint.training.floating import Kind, is_floating, kind_of
from amplint.training.halves import calls_library, changes_dtype, converts
from amplint.training.operands import (
    DECOMPOSITIONS,
    PRODUCTS,
    has_square,
    is_computed_wide,
    is_lowered,
    is_off,
    operands,
    products_in,
    widens,
)

_BOUNDED = frozenset({"probs_to_logits", "clamp_probs"})
"""Functions of `torch.distributions.utils` that clamp to the epsilon of a dtype: 1e-3 in float16, 1e-7 in float32."""
_SPARSE = ("to_sparse", "to_sparse_csr", "sparse_coo_tensor", "sparse_csr_tensor")
_SPARSE_PRODUCTS = ("spmm", "sspaddmm", "smm", "hspmm")
_BOUNDING = frozenset({"max", "amax", "neg", "neg_", "log_softmax", "logsumexp"})
"""Functions whose result, or its difference to what they are given, is never much more than 0."""
_RESHAPING = operations_with("reshapes")
_CHOICES = frozenset({"argmin", "argmax", "min", "max", "topk", "argsort", "sort"})
_BOUNDS = {"clamp": 2, "clip": 2, "clamp_": 2, "clamp_max": 1}
"""Function that bounds a tensor -> the position of the upper bound, the tensor being the first argument."""
_Body = cst.FunctionDef | cst.Module
_Found = tuple[cst.CSTNode, str, tuple[cst.CSTNode, ...]]
"""A hazard, a message, and the operations that computed in float32 end it, none where these are not known."""
_FOURIER = operations_with("no-bfloat16")
_REDUCING = frozenset({"sum", "mean", "squeeze", "view"})
_SOLVERS = ("odeint", "odeint_adjoint", "QPFunction")
_OF_NUMPY = ("np.", "numpy.", "math.")
_BENDING = frozenset({"clamp", "clip", "clamp_min", "clamp_max", "sign", "tanh", "clip_grad_norm", "clip_grad_value"})
_MAKING = frozenset({"add", "sub", "mul", "div", "neg", "abs", "pow", "sqrt", "clamp"})
"""Methods that return a new tensor."""
_AVERAGES = frozenset({"conv1d", "conv2d", "conv3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"})
_WORDS = {
    "grad",
    "register_hook",
    "sigmoid",
    "BCELoss",
    *BANNED,
    *_BOUNDED,
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
    *PRODUCTS,
    *_FOURIER,
    *DECOMPOSITIONS,
    *LIBRARIES_WITHOUT_FLOAT16,
    "fromarray",
    *coarse.WORDS,
}
"""Words of which all such code has one."""
UNSCALED = "which no scaler can know; bfloat16 needs none"
"""The end of reasons against a scaler."""
PROBABILITIES = "binary cross-entropy of probabilities raises under CUDA autocast"
_COARSE = {"float16": "carry no scale", "bfloat16": "have two digits"}
_NEAREST = "the nearest is chosen by distances in half, which are too coarse; compute them in float32"
_DECOMPOSED = "a matrix that products in half make has lost digits which a determinant or an inverse magnifies"
_SATURATED = (
    "a sigmoid in half is 1 from a logit of 8.4 on in float16, 6.3 in bfloat16; compute what this logs in float32"
)
_LIFTED_ON_CUDA = (FLOAT32 - treatment().float32["cpu"]) & {"pow", "exp"}
"""Powers and exponentials that the regions of CUDA compute in float32, and those of CPUs do not."""
_BELOW_ONE = {"float16": 2.0**-12, "bfloat16": 2.0**-9}
"""The distance below which numbers round to 1."""


def is_sparse(node: cst.CSTNode) -> bool:
    """Whether `node` names a function that makes or multiplies sparse tensors."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
        return node.func.value.endswith("spmm")
    if not isinstance(node, cst.Attribute):
        return False
    return node.attr.value in (*_SPARSE, *_SPARSE_PRODUCTS) or dotted(node) == "torch.sparse"


def _sparse_product(chunk: Chunk, node: cst.CSTNode) -> cst.Call | None:
    """The product of sparse tensors whose function is `node`, as `is_sparse` knows it."""
    above = (one for one in (node, *chunk.source.ancestors(node)) if not isinstance(one, cst.Attribute))
    product = next(above, None)
    multiplies = called_name(product).endswith("mm") if product is not None else False
    return product if isinstance(product, cst.Call) and multiplies else None


def multiplies_sparse(chunk: Chunk) -> bool:
    """Whether a chunk has a product that is of sparse tensors by its name."""
    nodes = walk(chunk.module) if any(word.endswith("mm") for word in chunk.words) else ()
    return any(is_sparse(node) and _sparse_product(chunk, node) is not None for node in nodes)


def of(
    chunk: Chunk,
    dtype: str,
    *,
    sparse: bool,
    on_cpu: bool = False,
    is_wide: Callable[[cst.CSTNode], bool] = lambda node: False,
) -> Iterator[_Found]:
    """The hazards in `chunk`; with `sparse` also sparse tensors, and not only their products.

    With `on_cpu`, what the regions of CPUs do not lift is among them. `is_wide` tells operations that run in float32
    anyway.
    """
    own = _cancelling(chunk, is_wide) if on_cpu else iter(())
    for found in (*_found_in(chunk, dtype, sparse=sparse, is_wide=is_wide), *own):
        node = found[0]
        given = operands(chunk.source, node) if is_lowered(node) else []
        arrays = any(is_floating(chunk.source, one) is False for one in given)
        if not arrays and not (isinstance(node, cst.Call) and (dotted(node.func) or "").startswith(_OF_NUMPY)):
            yield found


def _found_in(chunk: Chunk, dtype: str, *, sparse: bool, is_wide: Callable[[cst.CSTNode], bool]) -> Iterator[_Found]:
    words = chunk.words
    if words.isdisjoint(_WORDS) and "@" not in chunk.text and not any(word.endswith("spmm") for word in words):
        return
    for node in walk(chunk.module):
        if is_sparse(node):
            product = _sparse_product(chunk, node)
            if (sparse and product is None) or (product is not None and not is_computed_wide(product, chunk.source)):
                why = "a sparse tensor; not every product of these has a kernel for half"
                yield node, why, (product,) if product is not None else ()
        elif isinstance(node, cst.FunctionDef) or (node is chunk.module and not (chunk.name or chunk.is_class)):
            assert isinstance(node, (cst.FunctionDef, cst.Module))
            found = [*_bounds(node, chunk, dtype), *_variances(node), *_phases(node, chunk)]
            found += (*_compared(node, chunk, dtype), *_decomposed(node, chunk), *_saturated(node, chunk))
            nearest = [*_nearest(node, chunk.source), *_alike(node, chunk.source)]
            yield from nearest
            yield from coarse.of(node, chunk.source, dtype, chosen=bool(nearest))
            yield from (one for one in found if not is_wide(one[0]))
            yield from _sines(node)
            yield from (one for one in _ranked(node, chunk.source) if not is_wide(one[0]))
            yield from _rotations(node, chunk.source)
            if dtype == "float16":
                yield from _quotients(node, chunk.source)
                yield from _to_libraries(node, chunk)
        elif isinstance(node, cst.Call):
            yield from _of_call(node, chunk, dtype, is_wide)


def _of_call(node: cst.Call, chunk: Chunk, dtype: str, is_wide: Callable[[cst.CSTNode], bool]) -> Iterator[_Found]:
    """The hazard that a call is by itself."""
    if called_name(node) in BANNED and not is_off(chunk.source, node) and node.args:
        yield node, PROBABILITIES, (node,)
    elif called_name(node) == "BCELoss" and isinstance(assign := chunk.source.parent(node), cst.Assign):
        held = bound_paths(assign, whole=True)
        calls = [one for one in every(chunk.module, cst.Call) if dotted(one.func) in held and one.args]
        if calls and not all(is_off(chunk.source, one) for one in calls):
            yield calls[0], PROBABILITIES, tuple(calls)
    elif _differentiates(chunk, node):
        forwards, inputs = _forwards_of(node, chunk)
        if not forwards or not all(is_off(chunk.source, one) for one in forwards):
            why = f"these gradients are {dtype} and {_COARSE[dtype]}; compute the penalty in a region that is off"
            given = [[one.value for one in call.args if dotted(one.value) in inputs] for call in forwards]
            yield node, why, tuple(one for each in given for one in each) if all(given) else ()
    elif dtype == "float16" and _is_inner(chunk, node):
        yield node, f"these gradients are float16 and carry no scale, {UNSCALED}", ()
    elif dtype == "float16" and _bends(chunk, node):
        yield node, f"this hook is given gradients that carry the scale, {UNSCALED}", ()
    elif dtype == "float16" and _keeps(chunk, node):
        yield node, "this hook keeps gradients that carry the scale; divide what is read of them by it", ()
    elif dtype == "float16" and _transforms(node) and not is_wide(node):
        why = "a Fourier transform of float16 takes only sizes that are powers of two; transform float32"
        yield node, why, (node,)
    elif dtype == "float16" and _exponentiates(node) and not is_wide(node):
        fresh = isinstance(node.func, cst.Attribute) and called_name(node.func.value) in _MAKING
        why = "autocast lifts no exp_(): in float16 it is infinite from 11.1 on; use exp()"
        yield node, why, (node,) if fresh else ()
    elif _normalizes(chunk, node):
        why = "batch_norm raises where its weights are half beside float32 statistics; pass weights as float32"
        yield node, why, ()
    elif _samples(node) and not is_wide(node):
        why = "positions that this samples at have three digits in float16, two in bfloat16; use a float32 grid"
        products = _products_behind(operands(chunk.source, node), chunk.source)
        yield node, why, (node, *products) if products else ()
    elif dtype == "float16" and _integrates_gradients(chunk, node):
        yield node, f"the adjoint method integrates gradients that carry the scale to a tolerance, {UNSCALED}", ()
    elif called_name(node) in _SOLVERS:
        yield node, "a solver gets what half has rounded as coarsely as its tolerance; compute that in float32", ()


def _rotations(function: _Body, source: Source) -> Iterator[_Found]:
    """Products with rotations and 4x4 transformations in `function`, which autocast computes in half.

    All products, if the function takes the offset of a transformation, or one such product, and runs no layers.
    """
    rotations = {path for one in every(function, cst.Assign) if _is_rotation(one.value) for path in bound_paths(one)}
    products = list(products_in(function))
    found = [
        node
        for node in products
        if any(_is_rotation(one) or dotted(one) in rotations for one in operands(source, node))
    ]
    if found or any(_ends_of(one) == ["3", ""] for one in every(function, cst.Subscript)):
        layers = any(is_lowered(one) and called_name(one) not in PRODUCTS for one in every(function, cst.Call))
        found = found if layers else products
    found += (one for one in products if one not in found and _moves(one, source))
    for node in found:
        if not widens(node):
            yield node, "a transformation in half leaves coordinates three digits in float16, two in bfloat16", (node,)


def _moves(product: cst.CSTNode, source: Source) -> bool:
    """Whether an offset with one dimension more is added to a product, or its first three coordinates are taken."""
    above = source.parent(product)
    if isinstance(above, cst.BinaryOperation) and isinstance(above.operator, cst.Add):
        return called_name(above.right if above.left is product else above.left) == "unsqueeze"
    while isinstance(above, (cst.Attribute, cst.Call)):
        above = source.parent(above)
    return _ends_of(above)[-1:] == ["3"] if isinstance(above, cst.Subscript) else False


def _phases(function: _Body, chunk: Chunk) -> Iterator[_Found]:
    """Sines and cosines in `function` of what a layer or a matrix product gives, as encodings of times and places."""
    methods = {one.name.value for one in every(chunk.module, cst.FunctionDef)}

    def lowered(value: cst.CSTNode) -> list[cst.CSTNode]:
        parts = every(value, cst.Call, cst.BinaryOperation)
        return [one for one in parts if is_lowered(one) and called_name(one) not in methods]

    assigned = [(one, lowered(one.value)) for one in every(function, cst.Assign) if not widens(one.value)]
    for call in every(function, cst.Call):
        if called_name(call) not in ("sin", "cos") or widens(call):
            continue
        parts = [call.func.value] if isinstance(call.func, cst.Attribute) else []
        parts += [one.value for one in call.args]
        named = {dotted(node) for part in parts for node in every(part, cst.Name, cst.Attribute)}
        cures = [node for part in parts for node in lowered(part)]
        cures += [node for one, nodes in assigned if bound_paths(one, whole=True) & named for node in nodes]
        if cures:
            why = "an angle in half has three digits in float16, two in bfloat16, so that large ones lose their phase"
            yield call, why, tuple(cures)


def _is_rotation(value: cst.CSTNode) -> bool:
    """Whether `value` is made, or reshaped, as 3x3 or 4x4 matrices, or their part up to the third row and column."""
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        numbers = [one.value.value for one in value.args if isinstance(one.value, cst.Integer)]
        if called_name(value) in _RESHAPING and numbers[-2:] in (["4", "4"], ["3", "3"]):
            return True
        if called_name(value) in ("inverse", "inv"):
            return True
        if called_name(value) == "eye":
            return numbers[:1] in (["3"], ["4"])
        value = value.func.value
    return _ends_of(value) == ["3", "3"]


def _ends_of(value: cst.CSTNode) -> list[str]:
    """The numbers up to which the last two slices of an element go, empty for the fourth row or column."""
    parts = [one.slice for one in value.slice][-2:] if isinstance(value, cst.Subscript) else []
    ends = [_end_of(one) for one in parts]
    return [one for one in ends if one is not None]


def _end_of(part: cst.CSTNode) -> str | None:
    if isinstance(part, cst.Slice) and part.lower is None and isinstance(part.upper, cst.Integer):
        return part.upper.value
    is_fourth = isinstance(part, cst.Index) and isinstance(part.value, cst.Integer) and part.value.value == "3"
    return "" if is_fourth else None


def _to_libraries(function: _Body, chunk: Chunk) -> Iterator[_Found]:
    """Calls in `function` of libraries that take no array of float16, with one that is made there of a tensor."""
    arrays = {path for one in every(function, cst.Assign) if _is_array(one.value) for path in bound_paths(one)}
    for call in every(function, cst.Call):
        given = [one.value for one in call.args if _is_array(one.value) or paths(one.value) & arrays]
        if given and calls_library(chunk.source, call, LIBRARIES_WITHOUT_FLOAT16):
            made = [
                one.value for one in every(function, cst.Assign) if bound_paths(one) & set().union(*map(paths, given))
            ]
            tensors = (one for value in (*given, *made) if _is_array(value) for one in every(value, cst.Call))
            cures = tuple(one for one in tensors if called_name(one) == "numpy")
            yield call, "this library raises for NumPy arrays of float16; convert to float32 before", cures


def _is_array(value: cst.CSTNode) -> bool:
    """Whether `value` is made by `numpy()`, of what no call casts."""
    calls = list(every(value, cst.Call))
    return any(called_name(one) == "numpy" for one in calls) and not any(
        changes_dtype(one) or converts(one) for one in calls
    )


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


def _is_inner(chunk: Chunk, call: cst.Call) -> bool:
    """Whether `call` returns gradients for an inner step, of a loss that is not scaled."""
    keywords = {argument.keyword.value for argument in call.args if argument.keyword is not None}
    of_torch = (dotted(call.func) or "").endswith("autograd.grad")
    return of_torch and "create_graph" not in keywords and "scale" not in chunk.source.code(call)


def _bends(chunk: Chunk, call: cst.Call) -> bool:
    """Whether `call` registers a hook for the gradient of a tensor that is not linear, such as one that clips it."""
    calls = (one for each in _hooks(chunk, call) for one in every(each, cst.Call))
    return any(called_name(one).strip("_") in _BENDING for one in calls)


def _keeps(chunk: Chunk, call: cst.Call) -> bool:
    """Whether `call` registers a hook that stores the gradient of a tensor in an attribute, an element or a list."""
    for hook in _hooks(chunk, call):
        given = {one.name.value for one in every(hook, cst.Param)}
        for one in every(hook, cst.Assign):
            stores = any(not isinstance(target.target, cst.Name) for target in one.targets)
            if stores and paths(one.value) & given:
                return True
        collected = (one for one in every(hook, cst.Call) if called_name(one) == "append")
        if any(paths(argument) & given for one in collected for argument in one.args):
            return True
    return False


def _hooks(chunk: Chunk, call: cst.Call) -> list[cst.CSTNode]:
    """The functions that `call` registers for the gradient of a tensor."""
    if called_name(call) != "register_hook" or len(call.args) != 1:
        return []
    hook = call.args[0].value
    return [hook, *(one for one in every(chunk.module, cst.FunctionDef) if one.name.value == dotted(hook))]


def _reduced(value: cst.BaseExpression) -> cst.BaseExpression:
    """What a method such as `sum` is called on, or the value itself."""
    reduces = isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and called_name(value) in _REDUCING
    return (
        value.func.value if reduces and isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) else value
    )


def _forwards_of(gradient: cst.Call, chunk: Chunk) -> tuple[list[cst.Call], set[str | None]]:
    """The calls whose results a call differentiates, and the variables by which it does, in its function or callers."""
    function = chunk.source.function_around(gradient)
    asked = ["outputs", "inputs"]
    given = {name: dotted(_reduced(one.value)) for name, one in matched(gradient, asked) if name in asked}
    if function is None or None in given.values() or len(given) < 2:
        return [], set()
    places = [(function, given)]
    params = [one.name.value for one in positional(function)]
    for caller in (one for each in chunk.source.chunks for one in every(each.module, cst.FunctionDef)):
        for call in every(caller, cst.Call):
            if called_name(call) == function.name.value:
                own = {name: dotted(one.value) for name, one in matched(call, [one for one in params if one != "self"])}
                places.append((caller, {key: own.get(path or "") for key, path in given.items()}))
    forwards, inputs = list[cst.Call](), set[str | None]()
    for home, names in places:
        for one in every(home, cst.Assign):
            made = _uncast(one.value)
            if names["outputs"] in bound_paths(one) and isinstance(made, cst.Call):
                forwards.append(made)
                inputs.add(names["inputs"])
    return forwards, inputs


def _uncast(value: cst.BaseExpression) -> cst.BaseExpression:
    """`value` without a cast to float32 around it."""
    if isinstance(value, cst.Call) and called_name(value) == "float" and isinstance(value.func, cst.Attribute):
        return value.func.value
    return value.args[0].value if isinstance(value, cst.Call) and called_name(value) == TO_FLOAT32 else value


def _products_behind(values: Sequence[cst.CSTNode], source: Source) -> list[cst.CSTNode]:
    """The products of matrices that lead to `values`, in their function, in those of the file, and in its callers."""
    functions: dict[str, list[cst.FunctionDef]] = {}
    for one in (one for chunk in source.chunks for one in every(chunk.module, cst.FunctionDef)):
        functions.setdefault(one.name.value, []).append(one)
    waiting = [(value, source.function_around(value)) for value in values]
    found, seen = list[cst.CSTNode](), set[cst.CSTNode]()
    while waiting:
        value, home = waiting.pop()
        if value not in seen:
            seen.add(value)
            found += (one for one in products_in(value) if not is_computed_wide(one, source))
            assigns = list(every(home, cst.Assign)) if home is not None else []
            waiting += ((one.value, home) for one in assigns if bound_paths(one) & paths(value))
            called = [functions.get(called_name(one), []) for one in every(value, cst.Call)]
            waiting += ((one, home) for each in called if len(each) == 1 for one in each)
            if home is not None and len(functions[home.name.value]) == 1 and value is not home:
                waiting += _given_by_callers(home, paths(value), source)
    return list(dict.fromkeys(found))


def _given_by_callers(
    function: cst.FunctionDef, names: Set[str], source: Source
) -> Iterator[tuple[cst.CSTNode, cst.FunctionDef | None]]:
    """What calls of the file give a plain function for its parameters with these `names`, each with their function."""
    params = [one.name.value for one in positional(function)]
    if params[:1] != ["self"]:
        for call in (one for chunk in source.chunks for one in every(chunk.module, cst.Call)):
            given = matched(call, params) if dotted(call.func) == function.name.value else ()
            yield from ((one.value, source.function_around(call)) for name, one in given if name in names)


def _decomposed(function: _Body, chunk: Chunk) -> Iterator[_Found]:
    """Determinants and inverses in `function` of what products of matrices lead to."""
    for call in every(function, cst.Call):
        name = dotted(call.func) or ""
        if called_name(call) in DECOMPOSITIONS and not name.startswith(_OF_NUMPY):
            made = [one for one in _products_behind(_given(call), chunk.source) if not is_off(chunk.source, one)]
            yield from ((call, _DECOMPOSED, tuple(made)) for _ in made[:1])


def _given(call: cst.Call) -> list[cst.BaseExpression]:
    """The receiver of a method that is no function of PyTorch, and the first argument."""
    owner = [call.func.value] if isinstance(call.func, cst.Attribute) else []
    return [one for one in owner if not (dotted(one) or "").startswith("torch")] + [one.value for one in call.args[:1]]


def _saturated(function: _Body, chunk: Chunk) -> Iterator[_Found]:
    """Logarithms in `function` of what is left of sigmoids in half."""
    for call in every(function, cst.Call):
        if called_name(call) in ("log", "log_") and not (dotted(call.func) or "").startswith(_OF_NUMPY):
            differences = (one for value in _given(call) for one in every(value, cst.BinaryOperation))
            left = [one.right for one in differences if isinstance(one.operator, cst.Subtract)]
            narrow = [one for one in sigmoids.behind(left, chunk) if not sigmoids.is_wide(one, chunk)]
            yield from ((call, _SATURATED, tuple(narrow)) for _ in narrow[:1])


def _integrates_gradients(chunk: Chunk, call: cst.Call) -> bool:
    """Whether `call` solves an equation whose backward pass integrates gradients."""
    imported = chunk.source.imports.get((dotted(call.func) or "").partition(".")[0])
    return "odeint_adjoint" in (called_name(call), imported.name if imported is not None else None)


def _transforms(call: cst.Call) -> bool:
    """Whether `call` is a Fourier transform whose operand is not cast to float32."""
    return (
        called_name(call) in _FOURIER
        and (dotted(call.func) or "").startswith(("torch.fft", "fft."))
        and not widens(call)
    )


def _exponentiates(call: cst.Call) -> bool:
    """Whether `call` takes the exponential in place of a tensor that is neither float32 nor bounded by its maximum."""
    if called_name(call) != "exp_" or call.args or widens(call):
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


def _nearest(function: _Body, source: Source) -> Iterator[_Found]:
    """Choices of the nearest of many vectors in `function`, by distances computed by a matrix product."""
    distances, products, squares = set[str](), set[str](), set[str]()
    assignments = [one for one in every(function, cst.Assign) if not is_computed_wide(one, source)]
    cures = tuple(one for each in assignments for one in products_in(each.value))
    for assignment in assignments:
        value, bound = assignment.value, bound_paths(assignment)
        mentioned = paths(value)
        if _is_distance(value) or (_subtracts(value) and mentioned & products and mentioned & squares):
            distances |= bound
        products |= bound if _multiplies(value) else set()
        squares |= bound if has_square(value) else set()
    for call in every(function, cst.Call):
        if called_name(call) in _CHOICES and _operand(call) & distances and _picks(call):
            yield call, _NEAREST, cures


def _sines(function: _Body) -> Iterator[_Found]:
    """Roots of 1 minus a square in `function`, such as the sine of a cosine."""
    for call in every(function, cst.Call):
        if called_name(call) not in ("sqrt", "rsqrt") or widens(call):
            continue
        if any(called_name(one) in _BOUNDS for one in every(call, cst.Call)):
            continue
        for difference in every(call, cst.BinaryOperation):
            taken = isinstance(difference.operator, cst.Subtract) and not has_square(difference.left)
            if taken and has_square(difference.right):
                yield call, "a square that half rounds may be more than 1, and the root of what is left is NaN", ()


def _ranked(function: _Body, source: Source) -> Iterator[_Found]:
    """Ranks in `function` by sigmoids, which half rounds to 1 from a score of 9 on, so that they tie."""
    made: dict[str, list[cst.Call]] = {}
    for one in every(function, cst.Assign):
        calls = [call for call in every(one.value, cst.Call) if called_name(call) == "sigmoid" and not widens(call)]
        for path in bound_paths(one) if calls and kind_of(source, calls[0]) is not Kind.FLOAT32 else ():
            made.setdefault(path, []).extend(calls)
    copies = {
        path: one for one in every(function, cst.Assign) for path in bound_paths(one) if paths(one.value) & made.keys()
    }
    for node in every(function, cst.Comparison, cst.Call) if made else ():
        if isinstance(node, cst.Comparison):
            sides = [node.left, *(one.comparator for one in node.comparisons)]
            scores = [side for side in sides if dotted(side) in made or dotted(side) in copies]
            found = scores[0] if len(scores) == len(sides) == 2 else None
        else:
            found = (
                next(iter(operands(source, node)), None) if called_name(node) in ("argsort", "sort", "topk") else None
            )
        sigmoids = [call for path in (paths(found) if found is not None else ()) for call in made.get(path, ())]
        if sigmoids:
            yield node, "scores that a sigmoid brings near 1 tie in half; rank float32", tuple(sigmoids)


def _variances(function: _Body) -> Iterator[_Found]:
    """Differences of an average of a square and a squared average."""
    squares = {
        path
        for one in every(function, cst.Assign)
        if has_square(one.value) or _is_square(one.value)
        for path in bound_paths(one)
    }
    for difference in every(function, cst.BinaryOperation):
        left, right = difference.left, difference.right
        if not isinstance(difference.operator, cst.Subtract) or not isinstance(left, cst.Call) or not left.args:
            continue
        averages = called_name(left) in _AVERAGES and _is_square(left.args[0].value)
        if averages and (dotted(right) in squares or has_square(right) or _is_square(right)):
            why = "a variance by averages in half, which cancel to a digit or two; compute it in float32"
            yield difference, why, tuple(one for one in every(function, cst.Call) if called_name(one) in _AVERAGES)


def _is_square(value: cst.CSTNode) -> bool:
    """Whether `value` is a product of two names, equal ones or not, or a square."""
    product = isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Multiply)
    named = isinstance(value, cst.BinaryOperation) and None not in (dotted(value.left), dotted(value.right))
    return (product and named) or has_square(value)


def _quotients(function: _Body, source: Source) -> Iterator[_Found]:
    """Divisions by a matrix product in `function`."""
    assigned = [
        one for one in every(function, cst.Assign) if not is_computed_wide(one, source) and _multiplies(one.value)
    ]
    products = {path for one in assigned for path in bound_paths(one)}
    for quotient in every(function, cst.BinaryOperation):
        divides = isinstance(quotient.operator, cst.Divide) and not widens(quotient)
        if divides and (_multiplies(quotient.right) or dotted(quotient.right) in products):
            cures = tuple(one for value in (quotient, *assigned) for one in products_in(value))
            why = "a divisor that is a product of matrices may be 0 or infinite in float16; use float32"
            yield quotient, why, cures


def _cancelling(chunk: Chunk, is_wide: Callable[[cst.CSTNode], bool]) -> Iterator[_Found]:
    """Divisions by what is left of a power or an exponential less a number, which autocast on CPUs leaves in half."""
    functions = every(chunk.module, cst.FunctionDef) if chunk.words & _LIFTED_ON_CUDA or "**" in chunk.text else ()
    for function in functions:
        assigned = [(one, list(_left_of(one.value))) for one in every(function, cst.Assign)]
        names = {path: powers for one, powers in assigned if powers for path in bound_paths(one)}
        for quotient in every(function, cst.BinaryOperation):
            if isinstance(quotient.operator, cst.Divide):
                near = [
                    *_left_of(quotient.right),
                    *(one for path in paths(quotient.right) for one in names.get(path, ())),
                ]
                powers = tuple(dict.fromkeys(one for one in near if not (widens(one) or is_wide(one))))
                if powers:
                    why = (
                        "autocast on CPUs lifts no power or exponential: less a number it may be 0 in half; use float32"
                    )
                    yield quotient, why, powers


def _left_of(value: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The powers and exponentials in `value` from which it subtracts a number."""
    for difference in every(value, cst.BinaryOperation):
        power, number = difference.left, difference.right
        if isinstance(difference.operator, cst.Subtract) and isinstance(number, (cst.Integer, cst.Float)):
            raised = isinstance(power, cst.BinaryOperation) and isinstance(power.operator, cst.Power)
            if raised or called_name(power) in _LIFTED_ON_CUDA:
                yield power


def _alike(function: _Body, source: Source) -> Iterator[_Found]:
    """Choices of neighbours in `function` by products of vectors with each other, their norms among the cures."""
    products: dict[str, list[cst.CSTNode]] = {}
    alike: dict[str, list[cst.CSTNode]] = {}
    for one in every(function, cst.Assign):
        made = [] if is_computed_wide(one, source) else list(products_in(one.value))
        named = paths(one.value)
        known = any(_is_of_itself(each, source) for each in made)
        scaled = isinstance(one.value, cst.BinaryOperation) and bool(named & alike.keys())
        behind = [*made, *(each for path in sorted(named) for each in products.get(path, ()))]
        for path in bound_paths(one):
            products[path] = behind if scaled or known else made
            alike.pop(path, None)
            if known or scaled:
                alike[path] = behind
    for call in every(function, cst.Call):
        for value in operands(source, call)[:1] if called_name(call) == "topk" else ():
            made = list(products_in(value))
            behind = [*made, *(each for path in sorted(paths(value)) for each in products.get(path, ()))]
            if any(_is_of_itself(each, source) for each in made) or paths(value) & alike.keys():
                yield call, _NEAREST, tuple(behind)


def _is_of_itself(product: cst.CSTNode, source: Source) -> bool:
    """Whether a product is of what one variable holds and its transpose."""
    sides = operands(source, product)
    return len(sides) == 2 and paths(sides[0]) == paths(sides[1]) and not sides[0].deep_equals(sides[1])


def _picks(call: cst.Call) -> bool:
    """Whether a choice is made per row: without further arguments, `max` and `min` reduce to one number."""
    method = isinstance(call.func, cst.Attribute) and dotted(call.func.value) != "torch"
    return called_name(call) not in ("max", "min") or len(call.args) > 1 - method


def _is_distance(value: cst.CSTNode) -> bool:
    """Whether `value` is a matrix product combined with a sum or difference, or a result of `cdist`."""
    calls = {called_name(call) for call in every(value, cst.Call)}
    return "cdist" in calls or (_multiplies(value) and (_subtracts(value) or bool(calls & {"addmm", "baddbmm"})))


def _multiplies(value: cst.CSTNode) -> bool:
    return any(products_in(value))


def _subtracts(value: cst.CSTNode) -> bool:
    return any(isinstance(one.operator, cst.Subtract) for one in every(value, cst.BinaryOperation))


def _bounds(function: _Body, chunk: Chunk, dtype: str) -> Iterator[_Found]:
    """Bounds in `function` that should keep probabilities from 1 but are 1 in `dtype`."""
    wide = {path for one in every(function, cst.Assign) if widens(one.value) for path in bound_paths(one)}
    for call in every(function, cst.Call):
        if called_name(call) in _BOUNDED and not widens(call):
            yield call, "this keeps probabilities from 0 and 1 by the epsilon of their dtype; give it float32", (call,)
        place = _BOUNDS.get(called_name(call))
        if place is None or _operand(call) & wide or widens(call):
            continue
        method = isinstance(call.func, cst.Attribute) and dotted(call.func.value) != "torch"
        named = [one.value for one in call.args if one.keyword is not None and one.keyword.value == "max"]
        plain = [one.value for one in call.args if one.keyword is None][place - method :]
        for bound in (named or plain)[:1]:
            value = _number(bound, chunk)
            if value is not None and 0 < 1 - value <= _BELOW_ONE[dtype]:
                why = f"{value:.9g} is 1 in {dtype}, so nothing keeps this tensor from 1; bound it in float32"
                made = sigmoids.behind(_given(call), chunk)
                narrow = tuple(one for one in made if not sigmoids.is_wide(one, chunk))
                yield from ((call, why, narrow or (call,)) for _ in range(bool(narrow or not made)))


def _compared(function: _Body, chunk: Chunk, dtype: str) -> Iterator[_Found]:
    """Comparisons in `function` of what products of matrices lead to with a bound that is 1 in `dtype`."""
    for node in every(function, cst.Comparison):
        bounds = [_number(one.comparator, chunk) for one in node.comparisons]
        if any(value is not None and 0 < 1 - value <= _BELOW_ONE[dtype] for value in bounds):
            products = _products_behind([node.left], chunk.source)
            why = f"what this compares is 1 in {dtype} from {1 - _BELOW_ONE[dtype]:.6g} on; compute it in float32"
            yield from ((node, why, tuple(products)) for _ in products[:1])


def _number(node: cst.CSTNode, chunk: Chunk) -> float | None:
    """The number that `node` is, as a literal or by its definition in `chunk`."""
    if isinstance(node, (cst.Float, cst.Integer)):
        return float(node.value.replace("_", "")) if node.value[:2].lower() not in ("0x", "0b", "0o") else None
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Subtract):
        left, right = _number(node.left, chunk), _number(node.right, chunk)
        return left - right if left is not None and right is not None else None
    if isinstance(node, cst.Name):
        nodes = (one for each in {chunk, *chunk.source.chunks} for one in every(each.module, cst.Assign))
        given = list(dict.fromkeys(one.value for one in nodes if bound_paths(one) == {node.value}))
        given += [one.default for one in every(chunk.module, cst.Param) if one.name.value == node.value and one.default]
        plain = [one for one in given if not any(every(one, cst.Name))]
        return _number(plain[0], chunk) if len(given) == len(plain) == 1 else None
    return None


def _operand(call: cst.Call) -> set[str]:
    """The variables in the main operand of `call`: its first argument, or its receiver."""
    owner = paths(call.func.value) if isinstance(call.func, cst.Attribute) else set[str]()
    return owner | {path for argument in call.args[:1] for path in paths(argument)}
