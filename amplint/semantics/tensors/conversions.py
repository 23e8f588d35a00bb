"""Conversions as they are written: which expressions convert to a dtype, and what their variables come from."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.words import ACTIVATIONS, DTYPE, DTYPE_GIVEN, FLOATING
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Source
from amplint.source.tree import children, every, keyword_of, target_names, walk
from amplint.torchlib.names import DTYPES, HALF_DTYPES
from amplint.torchlib.policy import words

CASTING = words("half bfloat16 float double type type_as long int bool")
"""Methods that convert to a dtype, whatever they are given."""
_ABOUT = words("shape size device dtype dim ndim numel")
"""Attributes and methods that say something about a tensor, and hold none of its elements."""
_STEPS = 5


def asks_float32(made: cst.CSTNode | None) -> bool:
    """Whether this call makes weights float32: a conversion, or the construction of a layer with that `dtype`."""
    if not isinstance(made, cst.Call):
        return False
    converts = last_name(made.func) in ("to", "type")
    given = (one.value for one in made.args if converts or (one.keyword is not None and one.keyword.value == "dtype"))
    return last_name(made.func) == "float" or any(DTYPES.get(dotted(value) or "") == "float32" for value in given)


def converts(node: cst.CSTNode, model: str = "") -> bool:
    """Whether an expression converts to a dtype, or passes one on; with `model`, one of another object is none."""
    return any(_converts(call, model) for call in every(node, cst.Call))


def _converts(call: cst.Call, model: str) -> bool:
    last = last_name(call.func)
    if isinstance(call.func, cst.Attribute) and last in CASTING:
        return True
    for argument in call.args:
        keyword = keyword_of(argument)
        name = dotted(argument.value) or ""
        if name == "torch.float32":
            continue
        owner, _, attribute = name.rpartition(".")
        if attribute == "dtype" and owner and model and last != "to":
            if owner == model:
                return True
            continue  # made in the dtype of something else
        if keyword.endswith("dtype"):
            return True
        if attribute == "dtype" or (name and DTYPE_GIVEN.search(name)):
            return True
        if last == "to" and not name and not isinstance(argument.value, cst.SimpleString):
            return True  # `x.to(next(model.parameters()).dtype)` and what cannot be read
    return False


def names_floating(name: str) -> bool:
    """Whether a variable holds numbers with a fraction, by its name."""
    return FLOATING.search(name) is not None or ACTIVATIONS.search(name) is not None


def _is_passed_on(call: cst.Call, given: cst.BaseExpression) -> bool:
    """Whether the dtype of a result can be that of an argument: of unseen functions, only of activations."""
    if (dotted(call.func) or "").startswith("torch."):
        return True
    return any(names_floating(node.value) for node in every(given, cst.Name))


@cached_per_file
def names_read(node: cst.CSTNode) -> frozenset[str]:
    """The variables whose elements an expression reads, and not only their shape, device or dtype."""
    return frozenset(_read(node))


def _read(node: cst.CSTNode) -> set[str]:
    found, todo = set[str](), [node]
    while todo:
        one = todo.pop()
        if isinstance(one, cst.Name):
            found.add(one.value)
        elif isinstance(one, cst.Attribute):
            if one.attr.value not in _ABOUT:
                todo.append(one.value)
        elif isinstance(one, cst.Call):
            if isinstance(one.func, cst.Attribute):
                todo.append(one.func)
            todo += [argument.value for argument in one.args if _is_passed_on(one, argument.value)]
        elif isinstance(one, cst.Subscript):
            todo.append(one.value)
        else:
            todo += children(one)
    return found


def sources(function: cst.FunctionDef, given: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """An expression, and what its variables were assigned in the function before it."""
    bound, order = bindings(function), _order(function)
    here = order[given]
    todo, seen = [(given, _STEPS)], set[str]()
    while todo:
        node, left = todo.pop()
        yield node
        for name in names_read(node) - seen if left else ():
            seen.add(name)
            todo += [(value, left - 1) for value in bound.get(name, ()) if order[value] < here]


@cached_per_file
def _order(function: cst.FunctionDef) -> dict[cst.CSTNode, int]:
    """The places of the nodes of a function in its text."""
    return {node: place for place, node in enumerate(walk(function.body))}


@cached_per_file
def bindings(function: cst.FunctionDef) -> dict[str, list[cst.BaseExpression]]:
    """The expressions that a function assigns to each of its variables, in the order of its text."""
    found: dict[str, list[cst.BaseExpression]] = {}
    for node in walk(function.body):
        if isinstance(node, cst.Assign):
            pairs = [(one.target, node.value) for one in node.targets]
        elif isinstance(node, (cst.AugAssign, cst.AnnAssign)):
            pairs = [(node.target, node.value)] if node.value is not None else []
        elif isinstance(node, cst.For):
            pairs = [(node.target, node.iter)]
        else:
            continue
        for target, value in pairs:
            for name in target_names(target):
                found.setdefault(name, []).append(value)
    return found


def is_under_autocast(source: Source, node: cst.CSTNode) -> bool:
    """Whether a region is written around `node`, as a context or as a decorator of the function."""
    return any("autocast" in name for name in _around(source, node))


def is_without_gradients(source: Source, node: cst.CSTNode) -> bool:
    """Whether gradients are switched off around `node`."""
    return not {"no_grad", "inference_mode"}.isdisjoint(_around(source, node))


def _around(source: Source, node: cst.CSTNode) -> Iterator[str]:
    """The names in the contexts and decorators around `node`."""
    for one in source.ancestors(node):
        if isinstance(one, cst.With):
            contexts = [item.item for item in one.items]
        elif isinstance(one, cst.FunctionDef):
            contexts = [item.decorator for item in one.decorators]
        else:
            continue
        yield from (name.value for context in contexts for name in every(context, cst.Name))


def like_another(node: cst.CSTNode, model: str) -> cst.CSTNode | None:
    """The call in an expression that is passed the dtype of something else than `model`, as makers of tensors are."""
    for call in every(node, cst.Call):
        given = ((dotted(one.value) or "").rpartition(".") for one in call.args)
        if any(last == "dtype" and owner not in ("", "torch", model) for owner, _, last in given):
            return call
    return None


@cached_per_file
def half_model(source: Source) -> cst.CSTNode | None:
    """Where the file loads a model in a half dtype or one that is chosen, or converts what it calls to such a one."""
    called = {path for chunk in source.chunks for call in every(chunk.module, cst.Call) if (path := dotted(call.func))}
    for chunk in source.chunks:
        for call in every(chunk.module, cst.Call) if "dtype" in chunk.text else ():
            last, owner = last_name(call.func), call.func.value if isinstance(call.func, cst.Attribute) else call
            model = last == "from_pretrained" or (last == "to" and dotted(owner) in called)
            if model and any(_names_dtype(one) for one in call.args):
                return call
    return None


def _names_dtype(argument: cst.Arg) -> bool:
    if argument.keyword is None or argument.keyword.value not in ("torch_dtype", "dtype"):
        return False
    owner, _, last = (dotted(argument.value) or "").rpartition(".")
    return (owner == "torch" and last in HALF_DTYPES) or (owner != "torch" and DTYPE.search(last) is not None)
