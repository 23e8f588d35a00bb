"""Device type arguments of autocast: a type, a `torch.device`, or the string of a device, perhaps with an index."""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Iterable, Iterator
from functools import partial

from amplint.findings import Guessed
from amplint.premises import Premise
from amplint.records import dataclass
from amplint.regex import regex
from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.chosen_devices import is_device_name
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.values.values import Const, Device, Method, OneOf, Tensor, Unknown, Value
from amplint.semantics.words import NAMED_DEVICE, PRETRAINED
from amplint.source import syntax as cst
from amplint.source.fallback import is_fallback
from amplint.source.imports import imports
from amplint.torchlib.names import AUTOCASTS

_TEXT_KEPT = ("replace", "lower", "strip")
"""String methods whose result still has more than the device type."""
_INDEXED = regex(r"(cuda|cpu|mps|xpu|npu|hpu):")
"""The prefix of a device string with an index."""
_HAVE_DEVICES = ("Tensor", "FloatTensor", "Parameter")
"""Annotations of objects whose `device` is a `torch.device`."""
_JOINS = ("if", "either")
"""The kinds of symbols that are one of several values."""
_PLACES = {"attribute": 1, "call": 1, "name": -1, "parameter": -1, "variable": -1}
"""Kind of symbol -> the position of a name in its key."""


@dataclass(frozen=True, slots=True)
class AssumedDevice:
    """A value assumed to be a `torch.device`, `by_use` of its owner, or the text of a device.

    `text` holds the premises without evidence under which the text has an index, and is None for a device.
    """

    guesses: tuple[Guessed, ...] = ()
    by_use: bool = False
    text: tuple[Premise, ...] | None = None


def types(value: Value | None) -> frozenset[str] | None:
    """The device types that an argument can name; None for any."""
    if isinstance(value, Const) and isinstance(value.value, str):
        return frozenset({value.value.partition(":")[0]})
    if isinstance(value, OneOf):
        return frozenset(option.partition(":")[0] for option in value.options)
    if isinstance(value, Device):
        return value.types
    return None


def taken(machine: Machine, value: Value, node: cst.BaseExpression) -> AssumedDevice | None:
    """What `value`, the value of `node`, is assumed to be; None if it is a plain type as far as known.

    The `device` of a tensor, a pretrained model or an accelerator is always a `torch.device`; so is that of an unknown
    value used like a model or a tensor, and of what a module's `forward` is given.
    """
    if isinstance(value, Method):
        return AssumedDevice() if value.name == "device" and isinstance(value.owner, Tensor) else None
    if isinstance(value, OneOf):
        return AssumedDevice(text=()) if any(map(_INDEXED.match, value.options)) else None
    if not isinstance(value, Unknown):
        return None
    symbols = machine.symbols
    if symbols.key(value.symbol)[:2] != ("attribute", "device"):
        text = _text(machine, value.symbol)
        return AssumedDevice(by_use=True) if text is None and _is_asked_for_type(machine, node) else text
    owner = symbols.parts(value.symbol)[0]
    origin = symbols.key(owner)
    if origin[0] == "call" and PRETRAINED.search(str(origin[1])):
        return AssumedDevice(PRETRAINED.guesses(str(origin[1]), "arguments"))
    if origin[0] == "manager" or _is_parameter(machine, owner) or _is_annotated(machine, origin):
        return AssumedDevice()
    if origin[0] == "parameter" and any(map(_is_forward, machine.calls)):
        return AssumedDevice(by_use=True)
    path = _path(machine, owner) or (dotted(node.value) if isinstance(node, cst.Attribute) else None)
    used = path is not None and _is_used_as_object(machine, path)
    return AssumedDevice(by_use=True) if used or _is_asked_for_type(machine, node) else None


def _is_annotated(machine: Machine, origin: tuple[Hashable, ...]) -> bool:
    """Whether this is a parameter that is annotated as a tensor."""
    if origin[0] != "parameter":
        return False
    for function in machine.calls:
        if id(function) == origin[1] and isinstance(function, cst.FunctionDef):
            params = (*function.params.params, *function.params.kwonly_params)
            named = (one.annotation for one in params if one.name.value == origin[2] and one.annotation is not None)
            return any(last_name(annotation.annotation) in _HAVE_DEVICES for annotation in named)
    return False


def _is_forward(function: cst.CSTNode) -> bool:
    return isinstance(function, cst.FunctionDef) and function.name.value == "forward"


def is_also_newer(machine: Machine, node: cst.Call) -> bool:
    """Whether the callee may also be the API that takes a device type, and the call is no fallback."""
    source = machine.program.source_of(node)
    if source is None or not isinstance(node.func, cst.Name):
        return False
    name = node.func.value
    known = {f"{one.module}.{one.name}" for one in imports(source.text) if one.bound == name}
    typed = re.compile(rf"\b{name}\(\s*(?:device_type\s*=|(?!True\b|False\b|\w+\s*=)[\w\"'])")
    return any(AUTOCASTS.get(api, "") is None for api in known) and not is_fallback(source, node, typed)


def _is_parameter(machine: Machine, symbol: int) -> bool:
    """Whether a value is the weight or bias of a module, or the first of its parameters."""
    key = machine.symbols.key(symbol)
    if key[:2] != ("call", "builtins.next"):
        return key[:2] in (("attribute", "weight"), ("attribute", "bias"))
    listed = machine.symbols.parts(symbol)
    return bool(listed) and machine.symbols.key(listed[0])[0] == "parameters"


def _text(machine: Machine, symbol: int) -> AssumedDevice | None:
    """What `f"cuda:{rank}"` or the result of `str(device)`, also with a part replaced, is assumed to be."""
    if _can_be_indexed(machine, symbol) or any(_type_before_index(machine, one) for one in _options(machine, symbol)):
        return AssumedDevice(text=())
    unseen = [Premise.HAS_INDEX]
    method = machine.symbols.method(symbol)
    while method is not None and method[0] in _TEXT_KEPT:
        if method[0] == "replace":
            unseen = [Premise.OTHER_INDEX]
        symbol = method[1][0]
        method = machine.symbols.method(symbol)
    if machine.symbols.key(symbol)[:2] != ("call", "builtins.str"):
        return None
    if isinstance(machine.symbols.key(machine.symbols.parts(symbol)[0])[-1], Device):
        return AssumedDevice(text=tuple(unseen))
    name = _name(machine, machine.symbols.parts(symbol)[0])
    return AssumedDevice(_guesses(name), text=tuple(unseen)) if is_device_name(name) else None


def _type_before_index(machine: Machine, symbol: int) -> str | None:
    """`cuda` for `f"cuda:{rank}"`, `"cuda:" + rank`, `"cuda:%d" % rank` and `"cuda:{}".format(rank)`."""
    key = machine.symbols.key(symbol)
    if key[0] in ("Add", "Modulo"):
        key = machine.symbols.key(machine.symbols.parts(symbol)[0])
    elif (callee := machine.symbols.callee(symbol)) is not None:
        key = machine.symbols.key(callee)
    text = key[1] if key[0] in ("value", "text") else None
    if isinstance(text, Method) and text.name == "format":
        text = text.owner
    if isinstance(text, Const):
        text = text.value
    found = _INDEXED.match(str(text))
    return found[1] if found is not None else None


def _options(machine: Machine, symbol: int) -> Iterator[int]:
    """The symbols of the alternatives of a join or a conditional expression."""
    return (one for one in machine.symbols.closure(symbol, partial(_joined, machine)) if not _joined(machine, one))


def _joined(machine: Machine, symbol: int) -> list[int]:
    """The symbols that a join or a conditional expression is one of; none for anything else."""
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    return [*_symbols((*(parts[1:] if key[0] == "if" else parts), *key))] if key[0] in _JOINS else []


def _can_be_indexed(machine: Machine, symbol: int) -> bool:
    """Whether an alternative of a join or a conditional expression is a text with an index."""
    reached = machine.symbols.closure(symbol, partial(_joined, machine))
    keys = (key for key in map(machine.symbols.key, reached) if key[0] in _JOINS)
    return any(isinstance(one, Const) and _INDEXED.match(str(one.value)) for key in keys for one in key)


def _symbols(values: Iterable[Hashable]) -> Iterator[int]:
    for value in values:
        if isinstance(value, Unknown):
            yield value.symbol
        elif isinstance(value, int):
            yield value


def _guesses(name: str) -> tuple[Guessed, ...]:
    return NAMED_DEVICE.guesses(name, "arguments") if name != "device" else ()


def _name(machine: Machine, symbol: int) -> str:
    """The last name of a variable, an attribute or a callee, or the key of an item."""
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] in ("either", "or"):
        sides = machine.symbols.alternatives(symbol) if key[0] == "either" else parts
        return next(filter(is_device_name, (_name(machine, one) for one in sides if one != symbol)), "")
    if key[0] == "index" and len(parts) == 2:
        held = machine.symbols.key(parts[1])[-1]
        return str(held.value) if isinstance(held, Const) else ""
    place = _PLACES.get(str(key[0]))
    return str(key[place]).rpartition(".")[2] if place is not None else ""


def _path(machine: Machine, symbol: int) -> str | None:
    """`a.b` for an attribute of a variable or parameter."""
    name, key = _name(machine, symbol), machine.symbols.key(symbol)
    if key[0] == "attribute":
        above = _path(machine, machine.symbols.parts(symbol)[0])
        return f"{above}.{name}" if above else None
    return name if key[0] in ("name", "parameter", "variable") else None


def _is_asked_for_type(machine: Machine, node: cst.BaseExpression) -> bool:
    """Whether code around uses the same variable or attribute as a device, and never assigns a string to it.

    It reads `.type`, or compares with a `torch.device`. An attribute may be given a variable of its name.
    """
    path = dotted(node)
    if path is None or machine.chunk is None:
        return False
    code, last = machine.chunk.code, path.rpartition(".")[2]
    paths = [path, *([last] if last != path and f"{path} = {last}\n" in code else [])]
    return any(_asked(one).search(code) for one in paths) and not any(_spelled(one).search(code) for one in paths)


@functools.lru_cache(maxsize=256)
def _asked(path: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.]){re.escape(path)}(?:\.type\b(?!\s*\()|\s*[!=]=\s*torch\.device\()")


@functools.lru_cache(maxsize=256)
def _spelled(path: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.]){re.escape(path)}\s*=[^=\n]*(?:[\"']|\bstr\(|\.type\b)")


def _is_used_as_object(machine: Machine, path: str) -> bool:
    """Whether `path` is called, moved or reshaped, as models and tensors are and settings are not."""
    return machine.chunk is not None and path != "self" and _used(path).search(machine.chunk.code) is not None


@functools.lru_cache(maxsize=256)
def _used(path: str) -> re.Pattern[str]:
    methods = "parameters|eval|to|half|float|bfloat16|generate|size|dim|view|reshape|permute|transpose|unsqueeze"
    return re.compile(rf"(?<![\w.]){re.escape(path)}(?:\(|\.(?:{methods})\(|\.shape\b)")
