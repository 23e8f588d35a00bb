"""The models to which parameters, and parts of models, belong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.tensors.provenance import is_trainable_parameter
from amplint.semantics.values.values import Const, Items, Tensor, Unknown, Value
from amplint.torchlib.frameworks import ADAPTING

PARTS = frozenset({"parameters", "named_parameters", "children", "named_children", "modules", "named_modules"})
ORDERS = frozenset({"enumerate", "list", "reversed", "tuple"})
_ORDERED = frozenset(f"builtins.{name}" for name in ORDERS)
_HELD = frozenset({"attribute", "index", "item", "each", "part", "embedding"})
_DICTIONARIES = frozenset({"builtins.dict", "collections.OrderedDict"})
_COLLECTIONS = _DICTIONARIES | {"builtins.list", "builtins.tuple"}
_DETACHES = "detach"
"""The operation that returns a tensor with the same memory."""
_VIEWS = frozenset({"values", "items"})
_BUFFERS = frozenset({"buffers", "named_buffers"})
_CHAIN = "itertools.chain"
_UNCOMPILED = "attribute", "_orig_mod"
GROWN, DISPLAY = "grown", "display"
"""The kinds of lists to which parameters of models were added one by one, and of lists that may have groups."""


class Origins(Tracker):
    """Caches the root of joins of models, and the models behind symbols: the paths through joins grow exponentially."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.roots: dict[int, int] = {}
        self.sources: dict[int, frozenset[int] | None] = {}


def adapted(machine: Machine, symbol: int) -> int:
    """The model to which functions of peft have added adapters, or which they have prepared for that."""
    while machine.symbols.key(symbol)[:1] == ("call",) and machine.symbols.key(symbol)[1] in ADAPTING:
        symbol = root(machine, machine.symbols.parts(symbol)[0])
    return symbol


def held_by(machine: Machine, symbol: int) -> int | None:
    """What `symbol` is a part, an element, or a list of parts of; None for anything else."""
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] in _HELD or (key[0] == "call" and key[1] in _ORDERED):
        return parts[0] if parts else None
    called = machine.symbols.method(symbol)
    return called[1][0] if called is not None and called[0] in PARTS and called[1] else None


def root(machine: Machine, symbol: int) -> int:
    """The symbol of a model before casts, compilation and preparation by a framework, which leave its parameters.

    A join whose sides have the same root counts as one.
    """
    while machine.symbols.key(symbol)[0] in ("converted", "prepared") or machine.symbols.key(symbol)[:2] == _UNCOMPILED:
        symbol = machine.symbols.parts(symbol)[0]
    kind = machine.symbols.key(symbol)[0]
    if kind not in ("either", "if"):
        return symbol
    roots = machine[Origins].roots
    if symbol not in roots:
        behind = {root(machine, part) for part in machine.symbols.parts(symbol)[kind == "if" :]}
        roots[symbol] = behind.pop() if len(behind) == 1 else symbol
    return roots[symbol]


def sources(machine: Machine, value: Value | None) -> set[int] | None:
    """The models whose parameters `value` consists of; None if it has others. A dict is a parameter group."""
    found = _sources(machine, value)
    return None if found is None else {*found}


def _sources(machine: Machine, value: Value | None) -> frozenset[int] | None:
    if isinstance(value, Items):
        values = value.values
        if value.keys is not None and GROUP in value.keys:
            values = (values[value.keys.index(GROUP)],)
        return _all([_sources(machine, item) for item in values if not isinstance(item, Const)])
    return _chosen_from(machine, value.symbol) if isinstance(value, Unknown) else None


def _chosen_from(machine: Machine, symbol: int) -> frozenset[int] | None:
    known = machine[Origins].sources
    if symbol not in known:
        known[symbol] = _computed(machine, symbol)
    return known[symbol]


def _computed(machine: Machine, symbol: int) -> frozenset[int] | None:
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    kind = key[0]
    if kind == "parameters":
        return frozenset({parts[0]})
    if kind == "comprehension" and len(parts) == 2 and _is_element(machine, parts[1]):
        return _chosen_from(machine, parts[0])
    if kind == "call" and key[1] == "builtins.filter" and len(parts) == 2:
        return _chosen_from(machine, parts[1])
    if kind == "call" and key[1] in _COLLECTIONS and len(parts) == 1:
        return _chosen_from(machine, parts[0])
    if (viewed := machine.symbols.method(symbol)) is not None and viewed[0] in _VIEWS and viewed[1]:
        return _chosen_from(machine, viewed[1][0])
    if kind == DISPLAY or (parts and (kind in ("Add", GROWN) or (kind == "call" and key[1] == _CHAIN))):
        return _all([_chosen_from(machine, part) for part in parts])
    if kind == "either":
        joined = [value for value in key[1:] if isinstance(value, (Items, Unknown))]
        if not parts and len(joined) < len(key) - 1:
            return None
        known = [_chosen_from(machine, part) for part in parts] or [_sources(machine, value) for value in joined]
        behind = (*parts, *(value.symbol for value in joined if isinstance(value, Unknown)))
        grown = any(_has_grown(machine, part) for part in behind)
        certain = [models for models in known if models is not None]
        if grown:
            certain = [models for models in certain if not any(models < more for more in certain)]
        return frozenset.intersection(*certain) or None if certain and None not in known else None
    return None


def _all(parts: Sequence[frozenset[int] | None]) -> frozenset[int] | None:
    """The models of all parts, None if those of one are not known."""
    return None if None in parts else frozenset().union(*filter(None, parts))


def _has_grown(machine: Machine, symbol: int) -> bool:
    """Whether this is a list to which parameters were added, on one of the joined paths at least."""

    def below(one: int) -> Iterable[int]:
        kind, *joined = machine.symbols.key(one)
        inner = [value.symbol for value in joined if isinstance(value, Unknown)] if kind == "either" else []
        return (*machine.symbols.parts(one), *inner) if kind == "either" else ()

    return any(machine.symbols.key(one)[0] == GROWN for one in machine.symbols.closure(symbol, below))


GROUP = Const("params")
"""The key of the parameters in a parameter group."""


def parameter_of(machine: Machine, value: Value) -> int | None:
    """The model of which `value` is a parameter, as the element of a loop over its parameters or over pairs of them."""
    symbol = symbol_of(machine, value)
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[:2] == ("attribute", "data") or (key[0] == _DETACHES and parts):
        return parameter_of(machine, Unknown(parts[0]))
    place = None
    while key[0] == "part":
        place, symbol = key[1], parts[0]
        key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] == "index" and (model := _by_name(machine, parts[0])) is not None:
        return model
    if key[0] not in ("item", "each") or not parts:
        return None
    source = parts[0]
    if machine.symbols.key(source)[:2] == ("call", "builtins.zip") and isinstance(place, int):
        iterables = machine.symbols.parts(source)
        source = iterables[place] if place < len(iterables) else -1
    held = _chosen_from(machine, source) if source >= 0 else None
    return next(iter(held)) if held is not None and len(held) == 1 else None


def is_result(machine: Machine, value: Value) -> bool:
    """Whether `value` is a tensor that an operation has computed, or a conversion made, and no parameter."""
    kind = machine.symbols.key(value.symbol)[0] if isinstance(value, (Tensor, Unknown)) else ""
    if isinstance(value, Tensor):
        return kind != "attribute" and not is_trainable_parameter(machine, value.symbol)
    return kind == "converted"


def is_buffer(machine: Machine, value: Value) -> bool:
    """Whether `value` is a buffer, as the element of a loop over the buffers of a model or over pairs of them."""
    symbol = symbol_of(machine, value)
    while machine.symbols.key(symbol)[0] == "part":
        symbol = machine.symbols.parts(symbol)[0]
    parts = machine.symbols.parts(symbol)
    called = machine.symbols.method(parts[0]) if machine.symbols.key(symbol)[0] in ("item", "each") and parts else None
    return called is not None and called[0] in _BUFFERS


def _by_name(machine: Machine, symbol: int) -> int | None:
    """The model whose parameters a dictionary has by their names; None for anything else."""
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] != "call" or key[1] not in _DICTIONARIES:
        return None
    held = set[int]().union(*(_chosen_from(machine, part) or () for part in parts))
    return held.pop() if len(held) == 1 else None


def _is_element(machine: Machine, symbol: int) -> bool:
    """Whether a comprehension collects its elements, or parts of them (`p for name, p in ...`)."""
    kind = machine.symbols.key(symbol)[0]
    return kind == "each" or (kind == "part" and _is_element(machine, machine.symbols.parts(symbol)[0]))


def origins(machine: Machine, value: Value | None) -> frozenset[int]:
    """The symbols from which `value` is computed."""
    if isinstance(value, Items):
        return frozenset().union(*(origins(machine, item) for item in value.values))
    todo, found = [value.symbol] if isinstance(value, Unknown) else [], set()
    while todo:
        symbol = todo.pop()
        if symbol not in found:
            found |= {symbol, root(machine, symbol)}
            todo += machine.symbols.parts(symbol)
    return frozenset(found)
