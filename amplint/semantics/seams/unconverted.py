"""Inputs that nothing converts to the dtype of a model, in code that knows that this can be half."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.findings import Guessed
from amplint.semantics.events import InputUnconverted
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.tensors.conversions import (
    converts,
    is_under_autocast,
    like_another,
    names_floating,
    names_read,
    sources,
)
from amplint.semantics.values.state import State
from amplint.semantics.words import ACTIVATIONS, DTYPE, FLOATING
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk, cached_per_file
from amplint.source.source import Chunk, Source
from amplint.source.tree import every, walk
from amplint.torchlib.names import HALF_DTYPES

_Found = tuple[cst.BaseExpression, str, cst.CSTNode, tuple[Guessed, ...]]
_HALVES = ".half()"
_CODES = ("encode", "decode")
"""Methods of autoencoders: what they are given is floating-point."""


class Unconverted(Tracker):
    """Tracks inputs of models of a chosen dtype, once the file is read: the models themselves are out of sight."""

    def is_needed(self) -> bool:
        """Whether dtypes are assumed and a selected rule handles the event."""
        return self.machine.assumes and InputUnconverted.kind in self.machine.wanted

    def file_ends(self, starts: Sequence[State]) -> None:
        """Emit the inputs that are not converted."""
        source = self.machine.program.main
        self.machine.statement = None
        for chunk in source.chunks:
            if not _speaks_of_dtypes(chunk):
                continue
            for function in every(chunk.module, cst.FunctionDef):
                for node, model, beside, guesses in (*_inputs(source, chunk, function), *_items(source, function)):
                    self.machine.emit(
                        State(), InputUnconverted, node, model=model, beside=beside, assumed=True, guesses=guesses
                    )


@cached_per_chunk
def _speaks_of_dtypes(chunk: Chunk) -> bool:
    if "dtype" in chunk.text or ".device)" in chunk.text or ".encode(" in chunk.text or ".decode(" in chunk.text:
        return True
    return _HALVES in chunk.text


def _inputs(source: Source, chunk: Chunk, function: cst.FunctionDef) -> Iterator[_Found]:
    """The inputs of models whose dtype the file reads or chooses, each with the model and the evidence."""
    for call in every(function.body, cst.Call):
        if source.function_around(call) is not function or is_under_autocast(source, call):
            continue
        path, codes = dotted(call.func), False
        if path is not None and path.rpartition(".")[2] in _CODES:
            path, codes = path.rpartition(".")[0], True
        if path in (None, "", "self", "cls") or path in _prepared(source):
            continue
        for argument in call.args[:1] if codes else call.args:
            given = argument.value
            if not (codes or _is_floating(given)) or isinstance(given, cst.SimpleString):
                continue
            before = list(sources(function, given)) if names_read(given) else []
            if (
                not before
                or any(converts(one, path) for one in before)
                or any(_is_own_result(path, one) for one in before)
            ):
                continue
            beside = _dtypes_read(source).get(path) or _halved(chunk).get(path) or _moved(path, before)
            if beside is None and codes:
                beside = next(filter(None, (like_another(one, path) for one in before)), None)
            if beside is None and codes and _is_floating(given):
                beside = _moved_alike(function, path, before)
            if beside is not None:
                yield given, path, beside, () if codes else _guesses(given)


def _is_own_result(path: str, value: cst.CSTNode) -> bool:
    """Whether a value comes out of the model itself, or of another part of it, and is not moved there after that."""
    calls = list(every(value, cst.Call))
    whole = path.rpartition(".")[0]
    parts = tuple(f"{one}." for one in (path, whole) if one not in ("", "self"))
    return any((dotted(call.func) or "").startswith(parts) for call in calls) and _moved(path, [value]) is None


def _items(source: Source, function: cst.FunctionDef) -> Iterator[_Found]:
    """The items of a batch that are not converted to the chosen dtype of others, or of what is made beside them."""
    kept: list[cst.BaseExpression] = []
    beside = next(
        (call for call in every(function.body, cst.Call) if _chooses(call) and _is_tensor(source, call)), None
    )
    if beside is None:
        return
    for item in every(function.body, cst.Subscript):
        key = _key(item)
        if key is None or not isinstance(item.value, cst.Name) or source.function_around(item) is not function:
            continue
        whole = _chain(source, item)
        if names_floating(key) and not converts(whole) and not is_under_autocast(source, item):
            kept.append(whole)
    for whole in kept:
        if _reaches_model(source, function, whole):
            yield whole, "", beside, _guesses(whole)


def _reaches_model(source: Source, function: cst.FunctionDef, whole: cst.BaseExpression) -> bool:
    """Whether an item is encoded, or kept under a name that is passed on and that nothing converts."""
    above = source.parent(whole)
    if isinstance(above, cst.Arg):
        call = source.parent(above)
        return isinstance(call, cst.Call) and last_name(call.func) in _CODES
    if (
        not isinstance(above, cst.Assign)
        or len(above.targets) != 1
        or not isinstance(above.targets[0].target, cst.Name)
    ):
        return False
    name = above.targets[0].target.value
    if any(converts(call) and name in names_read(call) for call in every(function.body, cst.Call)):
        return False
    passed = [
        call
        for call in every(function.body, cst.Call)
        if any(isinstance(one.value, cst.Name) and one.value.value == name for one in call.args)
    ]
    return any(not is_under_autocast(source, call) for call in passed)


def _key(item: cst.Subscript) -> str | None:
    """The literal key of `batch["key"]`."""
    index = item.slice[0].slice if len(item.slice) == 1 else None
    value = index.value if isinstance(index, cst.Index) else None
    return value.raw_value if isinstance(value, cst.SimpleString) else None


def _chain(source: Source, node: cst.BaseExpression) -> cst.BaseExpression:
    """The whole chain of methods, attributes and indices that begins with `node`."""
    while True:
        above = source.parent(node)
        inner = above.func if isinstance(above, cst.Call) else None
        inner = above.value if isinstance(above, (cst.Attribute, cst.Subscript)) else inner
        if inner is not node or not isinstance(above, cst.BaseExpression):
            return node
        node = above


def _chooses(call: cst.Call) -> bool:
    """Whether a call converts to a dtype that a variable or setting holds, as in `x.to(dtype=weight_dtype)`."""
    if last_name(call.func) != "to":
        return False
    names = (dotted(one.value) or "" for one in call.args)
    return any(DTYPE.search(name) and not name.endswith(".dtype") for name in names)


def _is_tensor(source: Source, call: cst.Call) -> bool:
    """Whether `x.to(dtype)` converts what nothing in the file calls, and no model."""
    owner = call.func.value if isinstance(call.func, cst.Attribute) else call
    return source.function_around(call) is not None and dotted(owner) not in _called(source)


@cached_per_file
def _called(source: Source) -> frozenset[str]:
    """The objects that the file calls, or asks for their parameters or codes, as models are."""
    found = set[str]()
    for chunk in source.chunks:
        for call in every(chunk.module, cst.Call):
            path = dotted(call.func) or ""
            owner, _, last = path.rpartition(".")
            found |= {path, owner} if last in (*_CODES, "parameters", "requires_grad_", "eval") else {path}
    return frozenset(found)


@cached_per_file
def _dtypes_read(source: Source) -> dict[str, cst.CSTNode]:
    """The objects whose `dtype` the file reads, and those it converts to half or to a chosen dtype."""
    found: dict[str, cst.CSTNode] = {}
    for chunk in source.chunks:
        if "dtype" not in chunk.text:
            continue
        for read in every(chunk.module, cst.Attribute):
            if read.attr.value == "dtype" and (path := dotted(read.value)) is not None:
                found.setdefault(path, read)
        for call in every(chunk.module, cst.Call):
            owner = (
                call.func.value if isinstance(call.func, cst.Attribute) and (_chooses(call) or _lowers(call)) else None
            )
            if owner is not None and (path := dotted(owner)) is not None:
                found.setdefault(path, call)
    return found


@cached_per_chunk
def _halved(chunk: Chunk) -> dict[str, cst.CSTNode]:
    """The attributes that a class converts to half."""
    found: dict[str, cst.CSTNode] = {}
    if not chunk.is_class or _HALVES not in chunk.text:
        return found
    for node in every(chunk.module, cst.Call, cst.Assign):
        call = node.value if isinstance(node, cst.Assign) else node
        if not isinstance(call, cst.Call) or not _lowers(call) or not isinstance(call.func, cst.Attribute):
            continue
        kept = node.targets[0].target if isinstance(node, cst.Assign) else call.func.value
        if (path := dotted(kept)) is not None and path.startswith("self."):
            found.setdefault(path, call)
    return found


def _lowers(call: cst.Call) -> bool:
    """Whether a call converts to half."""
    if last_name(call.func) in ("half", "bfloat16"):
        return True
    given = ((dotted(one.value) or "").rpartition(".") for one in call.args)
    return last_name(call.func) == "to" and any(owner == "torch" and name in HALF_DTYPES for owner, _, name in given)


def _moved(path: str, before: Sequence[cst.CSTNode]) -> cst.CSTNode | None:
    """The call that moves an input to the device of the model, or of the object that holds it, without its dtype."""
    for call in (call for value in before for call in every(value, cst.Call)):
        if last_name(call.func) == "to" and len(call.args) == 1:
            owner, _, last = (dotted(call.args[0].value) or "").rpartition(".")
            if last == "device" and owner not in ("", "self") and f"{path}.".startswith(f"{owner}."):
                return call
    return None


def _moved_alike(function: cst.FunctionDef, path: str, before: Sequence[cst.CSTNode]) -> cst.CSTNode | None:
    """The call that moves a model that `function` is given to the device of its input, where both keep their dtypes."""
    if path not in {one.name.value for one in every(function.params, cst.Param)}:
        return None
    devices = {_device(call) for value in before for call in every(value, cst.Call)} - {None}
    moves = (call for call in every(function.body, cst.Call) if _device(call) in devices)
    return next(
        (call for call in moves if isinstance(call.func, cst.Attribute) and dotted(call.func.value) == path), None
    )


def _device(call: cst.Call) -> str | None:
    """The one argument, a variable or an attribute of one, of a conversion that takes a device or a dtype."""
    return dotted(call.args[0].value) if last_name(call.func) == "to" and len(call.args) == 1 else None


@cached_per_file
def _prepared(source: Source) -> frozenset[str]:
    """The models that an accelerator prepares, whose forward pass then has a region of its own."""
    found = set[str]()
    for chunk in source.chunks:
        if ".prepare(" in chunk.text:
            for call in every(chunk.module, cst.Call):
                if last_name(call.func) == "prepare":
                    found |= {name for one in call.args if (name := dotted(one.value)) is not None}
    return frozenset(found)


def _is_floating(given: cst.BaseExpression) -> bool:
    """Whether the first variable of an input holds numbers with a fraction, by its name."""
    name = next((node.value for node in walk(given) if isinstance(node, cst.Name)), "")
    return names_floating(name)


def _guesses(node: cst.BaseExpression) -> tuple[Guessed, ...]:
    """The guess by which an input is floating-point."""
    names = (n.value for n in walk(node) if isinstance(n, cst.Name))
    keys = (key for item in every(node, cst.Subscript) if (key := _key(item)) is not None)
    for name in (*keys, *names):
        if ACTIVATIONS.search(name):
            return ACTIVATIONS.guesses(name)
        if FLOATING.search(name):
            return FLOATING.guesses(name)
    return ()
