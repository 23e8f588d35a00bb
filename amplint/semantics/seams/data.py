"""Data beside the results of models: integers, what a loader yields, and what was on the CPU from its beginning."""

from __future__ import annotations

from collections.abc import Set
from functools import partial

from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.origins import KEEPS_DTYPE
from amplint.semantics.reading.scopes import last_name
from amplint.semantics.tensors.provenance import dtype_root, views
from amplint.semantics.tensors.tensors import is_data
from amplint.semantics.tensors.weights import PARTS, Weights
from amplint.semantics.values.values import Items, Ref, Tensor, Unknown
from amplint.semantics.words import PASSES_ON
from amplint.source import syntax as cst
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.policy import BOOLEAN, INTEGER, words

LEAVE = words("detach cpu to cuda") | operations_with("transfers")
"""Methods that a tensor needs before NumPy takes it, if it was computed on a GPU or with gradients."""
_HELD = words("parameter attribute index item")
_WITH_INDICES = words("max min topk sort median mode cummax cummin")
"""Operations that return values, and their indices as part 1."""
_OF_CLASSES = words("torch.distributions.Categorical torch.distributions.categorical.Categorical")
"""Distributions over classes, whose samples and modes are whole numbers."""
_GOES_OVER = words("items values keys")
_GIVES_BYTES = words("tobytes")
_TAKES_BYTES = words("BytesIO")
_OF_MODELS = ("parameters", "state of")
"""The kinds of symbols of the parameters of a model, and of its state."""
_MADE_FLOAT32 = (("converted", "float32"), ("converted", "float64"), ("value", Ref("torch.float32")))
_WEIGHTS = words("weight bias")


def is_whole(machine: Machine, symbol: int) -> bool:
    """Whether a tensor holds integers or booleans, by the operation that computed it."""
    for one in views(machine, symbol):
        key, parts = machine.symbols.key(one), machine.symbols.parts(one)
        method = machine.symbols.method(one)
        name = method[0] if method is not None else str(key[0])
        if name in BOOLEAN | INTEGER or _is_drawn(machine, one):
            return True
        if key[:2] == ("part", 1) or (key[0] == "index" and _is_second(machine, key, parts)):
            above = machine.symbols.method(parts[0])
            if (above[0] if above is not None else machine.symbols.key(parts[0])[0]) in _WITH_INDICES:
                return True
    return False


def _is_drawn(machine: Machine, symbol: int) -> bool:
    """Whether a tensor is a sample or the mode of a distribution over classes."""
    key, method = machine.symbols.key(symbol), machine.symbols.method(symbol)
    drawn = method[0] == "sample" if method is not None else key[:2] == ("attribute", "mode")
    parts = method[1] if method is not None else machine.symbols.parts(symbol)
    if not drawn or not parts:
        return False
    owner = parts[0]
    while machine.symbols.key(owner)[0] == "converted" and machine.symbols.parts(owner):
        owner = machine.symbols.parts(owner)[0]
    made = machine.symbols.key(owner)
    return made[0] == "call" and made[1] in _OF_CLASSES


def _is_second(machine: Machine, key: tuple[object, ...], parts: tuple[int, ...]) -> bool:
    """Whether an index selects element 1."""
    index = machine.symbols.key(parts[1]) if len(parts) > 1 else ()
    return index[:1] == ("value",) and getattr(index[1], "value", None) == 1


def is_loaded(machine: Machine, value: Tensor | Unknown) -> bool:
    """Whether this is an item of a loop over data, and not of one over what a call returned."""
    if not is_data(machine, value.symbol):
        return False
    return all(map(partial(_passes_on, machine), machine.symbols.derivation(value.symbol)))


def _passes_on(machine: Machine, symbol: int) -> bool:
    """Whether this is no result of a call, or one of a function that goes over what it is given.

    The weights of a model are such a result.
    """
    key, method = machine.symbols.key(symbol), machine.symbols.method(symbol)
    if key[0] in _OF_MODELS:
        return False
    if key[0] == "value" and isinstance(key[1], Items):
        return False
    if method is not None:
        return method[0] in KEEPS_DTYPE or method[0] in LEAVE or method[0] in _GOES_OVER
    return key[0] != "call" or str(key[1]).startswith("builtins.") or PASSES_ON.search(str(key[1])) is not None


def is_of_weights(machine: Machine, symbol: int) -> bool:
    """Whether this is a weight of a model, as a loop over its parameters, its state or its layers gives it.

    The model is made elsewhere, and nothing in sight makes it float32.
    """
    symbols, symbol = machine.symbols, dtype_root(machine, symbol)
    weighs = symbols.key(symbol)[0] == "attribute" and symbols.key(symbol)[1] in _WEIGHTS
    symbol = symbols.parts(symbol)[0] if weighs else symbol
    if symbols.key(symbol)[0] not in ("item", "part"):
        return False
    found = False
    for one in symbols.derivation(symbol):
        key, method = symbols.key(one), symbols.method(one)
        if key[0] in ("fresh", "display") or key[:2] in _MADE_FLOAT32 or (found and one in machine[Weights].lifted):
            return False
        found = found or key[0] in _OF_MODELS or (weighs and method is not None and method[0] in PARTS)
    return found


def was_on_cpu(machine: Machine, symbol: int, left: Set[int]) -> bool:
    """Whether nothing moved or detached this value of an object or argument: NumPy takes only data so.

    `left` are the symbols of unknown type that were moved or detached, which leaves them the same.
    """
    root = symbol
    for root in views(machine, symbol):
        key = machine.symbols.key(root)
        name = key[1] if key[0] == "attribute" else key[0]
        if root in left or name in LEAVE:
            return False
    return machine.symbols.key(root)[0] in _HELD


def is_read_as_bytes(machine: Machine, node: cst.CSTNode) -> bool:
    """Whether the bytes of an array are read, as of an object that was serialised to a tensor of bytes."""
    source = machine.program.source_of(node)
    above = source.parent(node) if source is not None else None
    if source is not None and isinstance(above, cst.Arg):
        call = source.parent(above)
        return isinstance(call, cst.Call) and last_name(call.func) in _TAKES_BYTES
    return isinstance(above, cst.Attribute) and above.attr.value in _GIVES_BYTES
