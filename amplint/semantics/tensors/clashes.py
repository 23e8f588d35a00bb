"""Dtype clashes: a tensor of unknown dtype, assumed half, combined with one that is surely float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from amplint.findings import Guessed
from amplint.regex import regex
from amplint.semantics.events import Because, Clash, Evidence, Operand
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors import fixed_halves
from amplint.semantics.tensors.clash_pairs import (
    conversion_of,
    is_asked_for_float32,
    is_cast_boolean,
    is_lifted_beside,
    is_like_another,
    is_made_by_caller,
    made_on_a_path,
    pair,
)
from amplint.semantics.tensors.conversions import asks_float32
from amplint.semantics.tensors.datasets import prepares_data
from amplint.semantics.tensors.evidence import evidence
from amplint.semantics.tensors.halves import may_be_half
from amplint.semantics.tensors.kinship import (
    belongs,
    is_cast_like_elsewhere,
    is_only_moved,
    tensors_in,
)
from amplint.semantics.tensors.lists import CHOOSES_NUMBERS, is_list
from amplint.semantics.tensors.masks import branches_on_dtypes
from amplint.semantics.tensors.owners import follows, is_placed_by
from amplint.semantics.tensors.provenance import creating_call, dtype_root, last_cast, uncast_source_call, views
from amplint.semantics.tensors.sensitive import sources
from amplint.semantics.tensors.subregions import is_switched_off
from amplint.semantics.tensors.tensors import COMPARISONS, FROM_PARAMETER, is_data, runs_layers, used_as_tensor
from amplint.semantics.tensors.widened import (
    left_wide,
    lifted_between,
    lifted_by_operand,
    lifted_on_a_path,
    lifted_whole,
    widened_by,
    widened_on_a_path,
)
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Items, Ref, Tensor, Unknown, Value
from amplint.semantics.words import INDICES, LOSS, MASK
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk, cached_per_file
from amplint.source.source import Chunk
from amplint.source.tree import every, target_names, walk
from amplint.torchlib.catalogue import fact_values, operations_with
from amplint.torchlib.methods import FLOAT32_BY_DEFAULT
from amplint.torchlib.names import HALF_DTYPES, LEGACY_TENSORS
from amplint.torchlib.operations import ATTENTION, ELEMENTWISE, FLOATING_ELEMENTWISE, MASK_REFUSED, Outcome
from amplint.torchlib.policy import BOOLEAN, FLOAT32, PROMOTED, words

_LIKE, _NEW, _WRITES = operations_with("creates-like"), operations_with("creates-new"), operations_with("writes")
_WEIGHTED = operations_with("weights", "alike").union(
    fact_values("recurrent"), fact_values("cell"), {"multiheadattention"}
)
"""Layers that refuse an input whose dtype is not that of their weights."""
_KEPT = "autocast makes one operand half, the other has the dtype that its module keeps it in"
_MADE_LIKE = "autocast makes what is assigned half, the tensor has the dtype of the one it was made like"
_LIFTS = "autocast computes what is assigned in float32, the tensor has the dtype of the half one it was made like"
_LEFT = "a region has made its input half, and nothing converts its float32 weights where the region has ended"
_BESIDE_HALF = (
    "its input is what a model returns that is loaded in half, its weights are float32 unless that is changed"
)
_REFUSED_BY_FLOAT32 = {Because.REGION: _LEFT, Because.PARAMETERS: _BESIDE_HALF}
"""The reason for which an input is half -> why a layer that is float32 unless the model is converted refuses it."""
_LOADED = "its weights are half, and what comes from a loader is float32 unless it is converted"
_UNCONVERTED = "its input is converted to a dtype that is chosen, and what is made here stays float32"
_DEFAULT = "its input is float32 where it is made here, its weights have the dtype of the model"
WEIGHS = "its input is float32 in any case, its weights have the dtype of the model"
STARTS = "the state that it starts from where none is given is float32, its weights have the dtype of the model"
_LOADS_HALF = regex(r"(?i)loader\w{0,60}\([^)]{0,400}(?:fp16|half|dtype|precision)|prefetch\w{0,60}\(|collate")
"""A loader that may convert what it gives."""
_FROM_AFAR = words("parameter call part index attribute item either")
_BITWISE = words("BitAnd BitOr BitXor BitInvert")
_WHOLE_LIFTED = regex(r"(?:one_hot\(|[<>=]= )[^\n]{0,200}(?:torch\.float(?:32)?\b|\bfloat32)")
"""A cast of whole numbers or truth values to float32."""
_SHAPES = words("view reshape permute")
"""Shape operations that helpers apply to a mask made in one function and used in another."""


def operand_with_evidence(machine: Machine, state: State, place: cst.BaseExpression, value: Value) -> Operand:
    """`value` at `place` as an operand of an event, with its evidence for half and the call that made it."""
    if not isinstance(value, Tensor):
        return Operand(place, value)
    made = creating_call(machine, value.symbol, curves=innermost(machine, state)[0] is None)
    return Operand(place, value, evidence(machine, state, value), made)


def emit_clash(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    op: str,
    met: tuple[Operand, Operand],
    found: Outcome,
    *,
    in_place: bool,
) -> None:
    """Emit `Clash` for two operands of `op`, whose result is `found` if the second one is half."""
    steady, half = met
    if prepares_data(machine):
        return
    converted = conversion_of(steady) if steady.made is None else None
    asked = isinstance(steady.value, Tensor) and is_asked_for_float32(machine, steady.value)
    widened = widened_by(machine, steady.value) if steady.made is None else None
    if steady.made is None and widened is None and op not in _WRITES:
        widened = lifted_on_a_path(machine, steady.value) or lifted_by_operand(machine, steady.value)
    writes = op in _WRITES and widened is not None
    settled = steady.made is not None or converted is not None or asked or writes
    refusal = found.refusal if settled else found.refusal and _KEPT
    if op in _WRITES and not settled and is_lifted_beside(machine, steady, half):
        refusal = _LIFTS if in_place or op not in PROMOTED else None
    if op == ATTENTION and found.refusal is None and innermost(machine, state)[0] is None:
        refusal = MASK_REFUSED
    widens = not in_place and found.dtypes == frozenset({"float32"}) and op in ELEMENTWISE | FLOATING_ELEMENTWISE
    from_caller = steady.made is not None and is_made_by_caller(machine, steady.made)
    if refusal is not None or (
        widens
        and steady.made is not None
        and follows(machine, steady.made)
        and not from_caller
        and (not _is_lifted(machine, half) or last_name(steady.made.func) in LEGACY_TENSORS)
        and not _is_meant_in_loss(machine, steady.made)
    ):
        machine.emit(
            state, Clash, node, op=op, steady=steady, half=half, refusal=refusal, from_caller=from_caller,
            converted=widened if refusal is not None and not writes else None,
            assumed=True, guesses=machine.guesses_for(steady.made) if steady.made is not None else (),
        )  # fmt: skip
    elif widens and converted is not None and (is_cast_like_elsewhere(machine, converted) or _masks(machine, steady)):
        machine.emit(
            state, Clash, node, op=op, steady=steady, half=half, refusal=None, converted=converted, assumed=True
        )


def _is_lifted(machine: Machine, half: Operand) -> bool:
    """Whether an operand was computed by an operation that autocast runs in float32, so that nothing widens it."""
    value = half.value
    if not isinstance(value, (Tensor, Unknown)):
        return False
    symbols = machine.symbols
    for one in sources(machine, value.symbol):
        method = symbols.method(one)
        if (method[0] if method is not None else symbols.key(one)[0]) in FLOAT32:
            return True
    return False


def _masks(machine: Machine, steady: Operand) -> bool:
    """Whether a mask of booleans cast to float32 is combined with the activations of a layer, and not with a loss."""
    if not isinstance(steady.value, Tensor):
        return False
    named = _is_named_mask(machine, steady.value)
    if not named and not is_cast_boolean(machine, steady.value):
        return False
    function, classes = machine.calls[-1] if machine.calls else None, _classes(machine)
    if function is None or not (runs_layers(function) or any(map(_is_layer, classes))):
        return False
    names = [one.name.value for one in classes]
    stored = [name for node in every(function, cst.Assign) for name in target_names(node.targets[0].target)]
    if not names or any(map(LOSS.search, [*names, *stored])):
        return False
    return _has_layers(function) or (named and any(map(_is_layer, classes)))


def _is_meant_in_loss(machine: Machine, made: cst.Call) -> bool:
    """Whether a loss, which may mean to compute in float32, makes or meets a tensor, other than by a legacy class."""
    function = machine.calls[-1] if machine.calls else None
    names = [one.name.value for one in _classes(machine)]
    if isinstance(function, cst.FunctionDef):
        names.append(function.name.value)
    return last_name(made.func) not in LEGACY_TENSORS and any(map(LOSS.search, names))


def _classes(machine: Machine) -> list[cst.ClassDef]:
    """The classes around the running function."""
    function = machine.calls[-1] if machine.calls else None
    source = machine.program.source_of(function) if function is not None else None
    around = source.ancestors(function) if source is not None and function is not None else ()
    return [above for above in around if isinstance(above, cst.ClassDef)]


def _is_named_mask(machine: Machine, value: Tensor) -> bool:
    """Whether a tensor was cast to float32 from a parameter, or an entry of one, that is a mask by its name."""
    cast = last_cast(machine, value.symbol)
    for one in views(machine, machine.symbols.parts(cast)[0]) if cast is not None else ():
        key = machine.symbols.key(one)
        if key[0] == "parameter" and MASK.search(str(key[2])):
            return True
        if key[0] == "index" and any(_is_key_of_mask(machine, part) for part in machine.symbols.parts(one)[1:]):
            return True
    return False


def _is_key_of_mask(machine: Machine, index: int) -> bool:
    key = machine.symbols.key(index)
    named = key[1].value if key[:1] == ("value",) and isinstance(key[1], Const) else None
    return isinstance(named, str) and MASK.search(named) is not None


@cached_per_file
def _is_layer(node: cst.ClassDef) -> bool:
    """Whether the class has a method that runs layers."""
    return any(isinstance(one, cst.FunctionDef) and runs_layers(one) for one in node.body.body)


@cached_per_file
def _has_layers(function: cst.CSTNode) -> bool:
    """Whether a function calls submodules of its object, or elements of a list of them."""
    loops = {name for loop in every(function, cst.For) for name in target_names(loop.target)}
    called = [dotted(call.func) or "" for call in every(function, cst.Call)]
    return any((path.count(".") == 1 and path.startswith("self.")) or path in loops for path in called)


def assigned(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    target: cst.Subscript,
    owner: Value,
    source: tuple[cst.BaseExpression, Value],
) -> None:
    """Handle `target = source`, an assignment to elements of `owner`: by tensor indices, nothing is cast."""
    if Clash.kind not in machine.wanted:
        return
    operands = [
        operand_with_evidence(machine, state, target.value, owner),
        operand_with_evidence(machine, state, *source),
    ]
    reasons = [found for element in target.slice if (found := selects(machine, state, element)) is not None]
    if reasons and operands[0].made is None and isinstance(owner, Tensor):
        operands[0] = replace(operands[0], made=creating_call(machine, owner.symbol, asked=True))
    met = pair(machine, "index_put", operands)
    if met is None and reasons:
        fixed_halves.met(machine, state, node, "index_put", operands)
    if met is None or prepares_data(machine) or _is_written_again(machine, node, target):
        return
    steady, half = met
    into = steady.node is operands[0].node
    if reasons:
        kinds = ("half", "float32") if into else ("float32", "half")
        refusal = f"it assigns {kinds[0]} to elements of a tensor that is {kinds[1]}"
        if steady.made is None and (into or steady.dtype != "float32"):
            refusal = _MADE_LIKE if is_like_another(machine, steady) else _KEPT
        if not into and is_lifted_beside(machine, steady, half):
            refusal = _LIFTS
        if is_only_moved(operands[0], operands[1]):
            refusal = "what is assigned is moved to the device of the tensor, but not converted to its dtype"
        machine.emit(
            state, Clash, node, op="index_put", steady=steady, half=half, refusal=refusal, assumed=True,
            guesses=min(reasons, key=len),
        )  # fmt: skip
    elif (
        steady is operands[0]
        and steady.made is not None
        and follows(machine, steady.made)
        and not _is_lifted(machine, half)
    ):
        machine.emit(state, Clash, node, op="an assignment", steady=steady, half=half, refusal=None, assumed=True)


def _is_written_again(machine: Machine, node: cst.CSTNode, target: cst.Subscript) -> bool:
    """Whether a `try` around an assignment handles its failure by another one to the same elements."""
    source = machine.program.source_of(node)
    below: cst.CSTNode = node
    for above in source.ancestors(node) if source is not None else ():
        if isinstance(above, cst.Try) and below is above.body:
            again = (each.target for handler in above.handlers for each in every(handler, cst.AssignTarget))
            if any(one.deep_equals(target) for one in again):
                return True
        below = above
    return False


def supplied(machine: Machine, state: State, node: cst.Call, model: Value, arguments: Arguments) -> None:
    """Emit `Clash` for an unseen layer whose input was made on the device of its parameters."""
    if not machine.assumes or Clash.kind not in machine.wanted or innermost(machine, state)[0] is not None:
        return
    for argument in arguments.given:
        source = operand_with_evidence(machine, state, argument.node.value, argument.value)
        named = argument.keyword or dotted(source.node) or ""
        if source.made is None or source.dtype != "float32" or MASK.search(named):
            continue
        if belongs(source.made, node.func) or is_placed_by(machine, source.made, model):
            half = Operand(node.func, Unknown(machine.fresh()))
            refusal = "its input is made on the device of its parameters, but not in their dtype"
            machine.emit(state, Clash, node, op=_name(node), steady=source, half=half, refusal=refusal, assumed=True)


def check_layer(
    machine: Machine,
    state: State,
    node: cst.Call,
    op: str,
    source: Operand,
    weights: Tensor,
    refusal: str = WEIGHS,
) -> None:
    """Emit `Clash` for a layer that runs on `source` outside of any region: its weights are half in a converted model.

    If a region has made the source half, the model is assumed to be float32. `refusal` is why a float32 source is
    refused.
    """
    if not machine.assumes or Clash.kind not in machine.wanted or op not in _WEIGHTED:
        return
    if weights.dtype in HALF_DTYPES:
        if source.dtype is None and _is_given_by_loader(machine, source.value) and not branches_on_dtypes(machine):
            half = operand_with_evidence(machine, state, node.func, weights)
            machine.emit(state, Clash, node, op=op, steady=source, half=half, refusal=_LOADED, assumed=True)
        return
    if weights.dtype is not None:
        chosen = _chosen_conversion(machine, source.value)
        if chosen is not None and not branches_on_dtypes(machine):
            text = "the dtype that it is converted to here can be half"
            announced = Evidence(Because.ANNOUNCED, HALF_DTYPES, text, chosen)
            made = weights.why_half if isinstance(weights.why_half, cst.Call) else None
            steady, met = Operand(node.func, weights, made=made), replace(source, half=announced)
            machine.emit(
                state, Clash, node, op=op, steady=steady, half=met, refusal=_UNCONVERTED, from_caller=True, assumed=True
            )
        return
    if (
        source.dtype in HALF_DTYPES
        and (half := operand_with_evidence(machine, state, source.node, source.value)).half is not None
    ):
        reason = _REFUSED_BY_FLOAT32.get(half.half.because)
        if reason is not None and not (branches_on_dtypes(machine) and half.half.because is Because.PARAMETERS):
            steady = Operand(node.func, weights)
            machine.emit(state, Clash, node, op=op, steady=steady, half=half, refusal=reason, assumed=True)
        return
    if branches_on_dtypes(machine) or _varies(machine, state, node, op, source, weights):
        return
    if not isinstance(source.value, Tensor):
        return
    left = left_wide(machine, source.value)
    if left is None and not is_switched_off(state) and not asks_float32(weights.why_half):
        left = lifted_between(machine, source.value)
    if left is None and not is_switched_off(state):
        left = lifted_by_operand(machine, source.value)
    if source.dtype != "float32" and left is None:
        return
    made = uncast_source_call(machine, source.value.symbol) or lifted_whole(machine, source.value)
    if made is not None and not is_made_by_caller(machine, made):
        steady, half = replace(source, made=made), Operand(node.func, weights)
        machine.emit(
            state, Clash, node, op=op, steady=steady, half=half, refusal=refusal, from_caller=refusal is STARTS,
            assumed=True, guesses=machine.guesses_for(made),
        )  # fmt: skip
        return
    widened = widened_by(machine, source.value) or left
    if made is None and widened is not None:
        half = Operand(node.func, weights)
        machine.emit(
            state, Clash, node, op=op, steady=source, half=half, refusal=refusal, converted=widened, assumed=True
        )


def _varies(machine: Machine, state: State, node: cst.Call, op: str, source: Operand, weights: Tensor) -> bool:
    """Emit `Clash` for an input that is float32 on one path: made where nothing is given, or widened by an operand."""
    made, half = made_on_a_path(machine, source.value), Operand(node.func, weights)
    if made is not None:
        steady = replace(source, made=made)
        machine.emit(state, Clash, node, op=op, steady=steady, half=half, refusal=_DEFAULT, assumed=True)
        return True
    cast = widened_on_a_path(machine, source.value) if not is_switched_off(state) else None
    if cast is not None:
        machine.emit(state, Clash, node, op=op, steady=source, half=half, refusal=WEIGHS, converted=cast, assumed=True)
    return cast is not None


def _is_given_by_loader(machine: Machine, value: Value) -> bool:
    """Whether this is an item of the training data, and nothing in the file lets the loader make it half."""
    if not isinstance(value, (Tensor, Unknown)) or (isinstance(value, Tensor) and value.dtypes is not None):
        return False
    kinds = {machine.symbols.key(one)[0] for one in machine.symbols.derivation(value.symbol)}
    if not kinds.isdisjoint(("cast", "converted")):
        return False
    return is_data(machine, value.symbol) and not any(_LOADS_HALF.search(one.text) for one in machine.program.chunks)


def _chosen_conversion(machine: Machine, value: Value) -> cst.CSTNode | None:
    """The call that converted a tensor to a dtype that is an argument or a setting, unknown here."""
    if isinstance(value, Tensor) and value.dtypes is not None:
        return value.why_half if value.dtype == FROM_PARAMETER else None
    if not isinstance(value, (Tensor, Unknown)):
        return None
    key = machine.symbols.key(dtype_root(machine, value.symbol))
    found = key[2] if key[0] == "converted" and key[1] is None else None
    return found if isinstance(found, cst.CSTNode) else None


def selects(machine: Machine, state: State, element: cst.SubscriptElement) -> tuple[Guessed, ...] | None:
    """The guesses by which an index is a tensor or a list, so that dtypes have to agree; None if it is neither."""
    if not isinstance(element.slice, cst.Index):
        return None
    key = used_as_tensor(machine, machine.evaluate(state, element.slice.value))
    if isinstance(key, Items) and any(isinstance(getattr(one, "value", None), str) for one in key.values):
        return None  # the key of a dictionary
    if isinstance(key, (Items, Tensor)):
        return () if not isinstance(key, Tensor) or key.rank != 0 else None
    kind = machine.symbols.key(key.symbol)[0] if isinstance(key, Unknown) else ""
    if isinstance(key, Unknown) and (
        _compares(machine, key.symbol) or _is_found(machine, key.symbol) or is_list(machine, key.symbol)
    ):
        return ()
    names = [node.value for node in walk(element.slice.value) if isinstance(node, cst.Name)]
    typed = kind == "parameter" and any(names[0] in tensors_in(function) for function in machine.calls)
    if typed or isinstance(element.slice.value, cst.Comparison):
        return ()
    named = [name for name in names if INDICES.search(name)] if kind in _FROM_AFAR or kind in _BITWISE else []
    return INDICES.guesses(named[0]) if named else None


def is_mask(machine: Machine, key: Value) -> bool:
    """Whether an index is a tensor of truth values."""
    if isinstance(key, Tensor):
        return key.dtype == "bool"
    return isinstance(key, Unknown) and _compares(machine, key.symbol)


def _compares(machine: Machine, symbol: int) -> bool:
    """Whether these are truth values: of a comparison, a conversion, or `&`, `|` and `~` on such."""
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] in _BITWISE:
        return any(_compares(machine, part) for part in parts)
    if key[0] == "index":
        return _compares(machine, parts[0])
    method = machine.symbols.method(symbol)
    converted = key[:2] == ("converted", "bool")
    return converted or key[0] in COMPARISONS or (method is not None and method[0] in BOOLEAN)


def _is_found(machine: Machine, symbol: int) -> bool:
    """Whether this is a result of `nonzero`, or a part of one."""
    while machine.symbols.key(symbol := dtype_root(machine, symbol))[0] in ("index", "part"):
        symbol = machine.symbols.parts(symbol)[0]
    method = machine.symbols.method(symbol)
    return method is not None and method[0] == "nonzero"


def report_kernel_arguments(machine: Machine, state: State, node: cst.Call, arguments: Arguments) -> None:
    """Emit `Clash` for a kernel that a custom autograd function calls with an output buffer and tensors to read."""
    if not machine.assumes or Clash.kind not in machine.wanted or not _in_custom_function(machine):
        return
    if not isinstance(machine.statement, cst.SimpleStatementLine) or branches_on_dtypes(machine):
        return
    if _name(node) == "save_for_backward":
        return
    if not any(isinstance(small, cst.Expr) and small.value is node for small in machine.statement.body):
        return
    operands = [
        operand_with_evidence(machine, state, argument.node.value, argument.value) for argument in arguments.given
    ]
    steady = next((operand for operand in operands if operand.made is not None), None)
    half = next((operand for operand in operands if operand is not steady and may_be_half(machine, operand)), None)
    if steady is not None and half is not None:
        machine.emit(state, Clash, node, op=_name(node), steady=steady, half=half, refusal=None, assumed=True)


def _name(node: cst.Call) -> str:
    last = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    return last.value if isinstance(last, cst.Name) else "the call"


def _in_custom_function(machine: Machine) -> bool:
    function = machine.calls[-1] if machine.calls else None
    if not isinstance(function, cst.FunctionDef) or not function.params.params:
        return False
    return function.name.value in ("forward", "backward") and function.params.params[0].name.value != "self"


@cached_per_chunk
def _met(chunk: Chunk) -> frozenset[str]:
    """The relevant calls of a chunk that assigns to elements of a tensor made like another, or casts and combines."""
    text = chunk.text
    likes = _LIKE if "_like(" in text and "] = " in text else frozenset[str]()
    likes = likes | _NEW if ".new_" in text and "] = " in text else likes
    lifts = ".float()" in text and ("type_as(" in text or "() @ " in text or "matmul(" in text)
    asks = "float32)" in text and "softmax(" in text
    whole = _WHOLE_LIFTED.search(text) is not None
    lifts = lifts or ATTENTION in text or (".float()" in text and "forward(" in text)
    masks = "mask" in text and ".device)" in text and ("torch.zeros(" in text or "torch.ones(" in text)
    shapes = _SHAPES if masks else frozenset[str]()
    if ".device" in text:
        shapes = shapes.union(name for name in FLOAT32_BY_DEFAULT if f"{name}(" in text)
    shapes = shapes | {"where"} if CHOOSES_NUMBERS.search(text) else shapes
    shapes = shapes | {"to", "type"} if whole else shapes
    return likes.union(shapes, {"float"} if lifts else (), {"softmax", "einsum", "matmul", "bmm"} if asks else ())


class Clashes(Tracker):
    """Tracks arguments of unseen code that are surely float32."""

    def is_needed(self) -> bool:
        """Whether dtypes are assumed and a selected rule handles `Clash`."""
        return self.machine.assumes and Clash.kind in self.machine.wanted

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Calls that make tensors like others, and casts to float32 beside operations that combine them."""
        found = frozenset[str]().union(*map(_met, chunks))
        return Words(calls=found)

    def unseen(self, state: State, call: Call) -> None:
        """Check the arguments of a call whose callee cannot be seen."""
        if call.entered is None:
            report_kernel_arguments(self.machine, state, call.node, call.arguments)
            if not isinstance(call.callee, Ref):
                supplied(self.machine, state, call.node, call.callee, call.arguments)
