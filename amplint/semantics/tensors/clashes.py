"""What would happen if a tensor of unknown dtype were half, where it meets one that is float32 in any case."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from amplint.findings import Guessed
from amplint.semantics.events import Clash, Operand
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.regions.half_results import HalfResults
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors.evidence import evidence
from amplint.semantics.tensors.kinship import (
    belongs,
    follows,
    follows_dtype,
    follows_elsewhere,
    is_only_moved,
    tensors_in,
)
from amplint.semantics.tensors.masks import minds_dtypes
from amplint.semantics.tensors.provenance import (
    ARITHMETIC,
    behind,
    conversion,
    ingredient,
    is_kept,
    is_like,
    last_cast,
    maker,
)
from amplint.semantics.tensors.tensors import Tensors, runs_layers, used_as_tensor
from amplint.semantics.tensors.weights import Weights
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Items, Ref, Tensor, Unknown, Value
from amplint.semantics.words import INDICES, LOSS, MASK, WHOLE_NUMBERS
from amplint.source import syntax as cst
from amplint.source.remembered import per_chunk
from amplint.source.source import Chunk
from amplint.source.tree import every, target_names, walk
from amplint.torchlib.catalogue import having, valued
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.operations import ALIKE, ELEMENTWISE, FLOATING_ELEMENTWISE, Outcome
from amplint.torchlib.policy import LOWER, words

WRITES, LIKE, _JOINS = having("writes"), having("creates-like"), having("joins")
"""Operations that write into a tensor what has to have its dtype; autocast does not convert it."""
_WEIGHTED = having("weights", "alike").union(valued("recurrent"), valued("cell"))
"""Layers that refuse what is not of the dtype of their weights."""
_KEPT = "autocast makes one operand half, the other has the dtype that its module keeps it in"
_MADE_LIKE = "autocast makes what is assigned half, the tensor has the dtype of the one it was made like"
_OF_TENSORS_ONLY = having("tensor-source")
"""Those of them that never write a number."""
_FROM_AFAR = words("parameter call part index attribute item either")
PRODUCTS = having("matrices")
_SHAPES = words("view reshape permute")
"""What helpers do to a mask that is made in one function and used in another."""
_TRUTHS = re.compile(r"(?:[<>]=?|[=!]=|~)[^\n=]*\)\.float\(\)")
"""A comparison that is converted where it is made."""
_LOOPS = words("builtins.enumerate builtins.zip builtins.reversed")


def told(machine: Machine, state: State, place: cst.BaseExpression, value: Value) -> Operand:
    """`value`, at `place`, as an operand that rules are told of."""
    if not isinstance(value, Tensor):
        return Operand(place, value)
    return Operand(place, value, evidence(machine, state, value), maker(machine, value.symbol))


def pair(machine: Machine, op: str, operands: Sequence[Operand]) -> tuple[Operand, Operand] | None:
    """An operand that is float32 whatever comes, and one that can be half though nothing tells of it."""
    if minds_dtypes(machine) or op not in ALIKE | ELEMENTWISE | FLOATING_ELEMENTWISE:
        return None
    if op in WRITES and len(operands) == 2 and is_only_moved(*operands):
        both = all(operand.dtype is None and _may_be_half(machine, operand, op) for operand in operands)
        return (operands[0], operands[1]) if both else None
    if op in WRITES and len(operands) == 2 and _is_like(machine, operands[0]) and _is_float32(machine, operands[1]):
        return operands[1], operands[0]
    if op in ALIKE:
        operands = [_with_ingredient(machine, operand) for operand in operands]
    steady = next((operand for operand in operands if _is_steady(machine, op, operand)), None)
    if steady is None:
        return None
    judge = _judge(machine, steady)
    other = next((one for one in operands if one is not steady and judge(machine, one, op)), None)
    if other is None or (steady.made is not None and not _is_apart(machine, steady.made, other)):
        return None
    return steady, other


def _with_ingredient(machine: Machine, operand: Operand) -> Operand:
    """`operand`, as made where something was that makes it float32, unless it was converted since."""
    value = operand.value
    if operand.made is not None or not isinstance(value, Tensor) or value.dtype != "float32":
        return operand
    return operand if _is_converted(machine, value) else replace(operand, made=ingredient(machine, value.symbol))


def _judge(machine: Machine, steady: Operand) -> Callable[[Machine, Operand, str], bool]:
    """What says whether another operand can be half beside this one."""
    if steady.made is not None or not isinstance(steady.value, Tensor):
        return _may_be_half
    if _is_like(machine, steady):
        return _comes_of_layer
    if _is_asked_for(steady.value):
        return _is_unconverted
    turned = _conversion_of(steady)
    return _is_unknown if turned is not None and follows_elsewhere(machine, turned) else _may_be_half


def _is_steady(machine: Machine, op: str, operand: Operand) -> bool:
    value = operand.value
    if not isinstance(value, Tensor) or value.rank == 0:
        return False
    if operand.made is not None:
        mixed = machine.symbols.key(behind(machine, value.symbol))[0] in ARITHMETIC
        certain = value.dtype == "float32" and not (mixed and value.rank is None)
        return certain and (follows(machine, operand.made) or not _is_handed(machine, operand.made))
    if op in WRITES:
        return value.dtype not in HALF_DTYPES and (is_kept(machine, value.symbol) or _is_like(machine, operand))
    return op not in _JOINS and (_is_converted(machine, value) or (op in PRODUCTS and _is_asked_for(value)))


def _is_float32(machine: Machine, operand: Operand) -> bool:
    """Whether a tensor is float32 in any case: made here without a dtype, or truth values that were converted."""
    value = operand.value
    if not isinstance(value, Tensor) or value.dtype != "float32":
        return False
    return operand.made is not None or _is_truth(machine, value)


def _is_asked_for(value: Tensor) -> bool:
    """Whether an operation was asked for a float32 result, as `softmax(x, dtype=torch.float32)` is."""
    given = value.made.args if isinstance(value.made, cst.Call) and value.dtype == "float32" else ()
    return any(argument.keyword is not None and argument.keyword.value == "dtype" for argument in given)


def _is_like(machine: Machine, operand: Operand) -> bool:
    """Whether a tensor was made with the dtype of another one that nothing is known of."""
    value = operand.value
    return isinstance(value, Tensor) and value.dtypes is None and is_like(machine, value.symbol)


def _is_converted(machine: Machine, value: Tensor) -> bool:
    """Whether a tensor is float32 by a conversion that is written out."""
    return value.dtype == "float32" and not value.supposed and conversion(machine, value.symbol) == "float32"


def _conversion_of(operand: Operand) -> cst.Call | None:
    """The call that made an operand float32, where that is a conversion."""
    why = operand.value.why_half if isinstance(operand.value, Tensor) and operand.dtype == "float32" else None
    return why if isinstance(why, cst.Call) else None


def _is_unconverted(machine: Machine, operand: Operand, op: str = "") -> bool:
    """Whether nothing tells the dtype of what may be a tensor, and nothing has converted it."""
    value = operand.value
    if isinstance(value, Tensor) and (value.dtypes is not None or value.rank == 0):
        return False
    return isinstance(value, (Tensor, Unknown)) and conversion(machine, value.symbol) is None


def _is_unknown(machine: Machine, operand: Operand, op: str = "") -> bool:
    """Whether this is a tensor that nothing tells the dtype of."""
    return isinstance(operand.value, Tensor) and operand.value.dtypes is None and operand.value.rank != 0


def _comes_of_layer(machine: Machine, operand: Operand, op: str = "") -> bool:
    """Whether a layer has computed this, which is half where autocast is on."""
    value = operand.value
    if not isinstance(value, (Tensor, Unknown)) or (isinstance(value, Tensor) and value.dtypes is not None):
        return False
    if isinstance(operand.node, cst.Call) and follows_dtype(operand.node):
        return False
    symbol = behind(machine, value.symbol)
    if machine.symbols.key(symbol)[0] in LOWER:
        return True
    called = machine.symbols.callee(symbol)
    return called is not None and _is_own(machine, called)


def _is_own(machine: Machine, symbol: int) -> bool:
    """Whether this is a part of the object whose method runs, or of a list of its layers."""
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if symbol in machine[Weights].symbols or (key[0] == "call" and str(key[1]).rpartition(".")[2][:1].isupper()):
        return True
    if key[0] in ("attribute", "index"):
        return _is_own(machine, parts[0]) or machine.symbols.key(parts[0])[0] == "self"
    return (key[0] in ("item", "part") or (key[0] == "call" and key[1] in _LOOPS)) and any(
        _is_own(machine, part) for part in parts
    )


def _is_handed(machine: Machine, made: cst.Call) -> bool:
    """Whether a tensor was made by a caller of the running function: its other operands then come from there, too."""
    source = machine.program.source_of(made)
    around = (
        [node for node in source.ancestors(made) if isinstance(node, cst.FunctionDef)] if source is not None else []
    )
    return bool(machine.calls) and (not around or not set(machine.calls[:-1]).isdisjoint(around))


def _is_apart(machine: Machine, made: cst.Call, other: Operand) -> bool:
    """Whether `other` does not come of what a caller has made, but of what that caller was given itself."""
    if not _is_handed(machine, made):
        return True
    keys = [machine.symbols.key(one) for one in machine.symbols.behind(other.value.symbol)]  # type: ignore[union-attr]
    return any(key[0] == "parameter" for key in keys) and not any(made in key for key in keys)


def _may_be_half(machine: Machine, operand: Operand, op: str = "") -> bool:
    value = operand.value
    if op not in _JOINS and _is_mask(machine, value):
        return False
    if isinstance(value, Tensor):
        if value.dtype is not None or value.among is not None:
            return operand.half is not None and value.dtype in HALF_DTYPES
        return value.rank != 0 and _is_computed(machine, value.symbol)
    if not isinstance(value, Unknown) or _counts(machine, value.symbol) or not _is_computed(machine, value.symbol):
        return False
    return op in _OF_TENSORS_ONLY or _is_tensor(machine, value.symbol)


def _is_mask(machine: Machine, value: Value) -> bool:
    """Whether this is a mask by its name: only where floating numbers are put beside it, it holds such, too."""
    key = machine.symbols.key(behind(machine, value.symbol)) if isinstance(value, (Tensor, Unknown)) else ()
    return key[:1] == ("parameter",) and MASK.search(str(key[2])) is not None


def _is_computed(machine: Machine, symbol: int, depth: int = 6) -> bool:
    """Whether a tensor has the dtype of what a function is given, or comes out of a layer."""
    symbol = behind(machine, symbol)
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] == "parameter":
        return not WHOLE_NUMBERS.search(str(key[2]))
    if key[0] in LOWER or key[0] == "MatrixMultiply":
        return True
    if key[0] in ARITHMETIC and depth:
        return any(_is_computed(machine, part, depth - 1) for part in parts)
    if symbol in machine[HalfResults].symbols:
        return True
    if key[0] == "part" and depth:
        return _is_computed(machine, parts[0], depth - 1)
    if key[0] == "item" or (key[0] == "call" and key[1] in _LOOPS):
        inside = bool(machine.calls) and runs_layers(machine.calls[-1])
        return inside and any(_is_computed(machine, part, depth - 1) for part in parts)
    callee = machine.symbols.method(symbol)
    return callee is not None and any(machine.symbols.key(part)[0] == "self" for part in callee[1])


def _counts(machine: Machine, symbol: int) -> bool:
    """Whether this is the number that `enumerate` gives beside each element."""
    if machine.symbols.key(symbol)[:2] != ("part", 0):
        return False
    (item,) = machine.symbols.parts(symbol)
    return any(machine.symbols.key(one)[:2] == ("call", "builtins.enumerate") for one in machine.symbols.parts(item))


def _is_tensor(machine: Machine, symbol: int) -> bool:
    """Whether something given to the running function is used as only tensors are."""
    symbol = behind(machine, symbol)
    key = machine.symbols.key(symbol)
    if key[0] == "part":
        return _is_tensor(machine, machine.symbols.parts(symbol)[0])
    if key[0] == "item":
        return True
    if key[0] != "parameter":
        return machine.symbols.method(symbol) is not None or symbol in machine[HalfResults].symbols
    return any(str(key[2]) in tensors_in(function) for function in machine.calls)


def tell(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    op: str,
    met: tuple[Operand, Operand],
    found: Outcome,
    *,
    in_place: bool,
) -> None:
    """Tell of two operands that meet in `op`, which comes to `found` where the second one is half."""
    steady, half = met
    converted = _conversion_of(steady) if steady.made is None else None
    asked = isinstance(steady.value, Tensor) and _is_asked_for(steady.value)
    settled = steady.made is not None or converted is not None or asked
    refusal = found.refusal if settled else found.refusal and _KEPT
    widens = not in_place and found.dtypes == frozenset({"float32"}) and op in ELEMENTWISE | FLOATING_ELEMENTWISE
    if refusal is not None or (widens and steady.made is not None and follows(machine, steady.made)):
        handed = steady.made is not None and _is_handed(machine, steady.made)
        machine.emit(state, Clash, node, op=op, steady=steady, half=half, refusal=refusal, handed=handed, assumed=True)
    elif widens and converted is not None and (follows_elsewhere(machine, converted) or _masks(machine, steady)):
        machine.emit(
            state, Clash, node, op=op, steady=steady, half=half, refusal=None, converted=converted, assumed=True
        )


def _masks(machine: Machine, steady: Operand) -> bool:
    """Whether truth values, as float32 numbers, meet what a layer works on; beside losses they may well widen."""
    if not isinstance(steady.value, Tensor) or not _is_truth(machine, steady.value):
        return False
    function = machine.calls[-1] if machine.calls else None
    source = machine.program.source_of(function) if function is not None and runs_layers(function) else None
    if source is None or function is None:
        return False
    names = [above.name.value for above in source.ancestors(function) if isinstance(above, cst.ClassDef)]
    return bool(names) and not any(map(LOSS.search, names)) and _has_layers(function)


def _is_truth(machine: Machine, value: Tensor) -> bool:
    """Whether truth values were converted to float32."""
    cast = last_cast(machine, value.symbol) if value.dtype == "float32" else None
    return cast is not None and machine[Tensors].cast_from.get(cast) == "bool"


@functools.lru_cache(maxsize=256)
def _has_layers(function: cst.CSTNode) -> bool:
    """Whether a function calls parts of its object, or what it takes from a list of them."""
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
    """`target = source`, an assignment to elements of `owner`: where indices select them, nothing is converted."""
    if Clash.kind not in machine.wanted:
        return
    operands = [told(machine, state, target.value, owner), told(machine, state, *source)]
    reasons = [found for element in target.slice if (found := _selects(machine, state, element)) is not None]
    selects = bool(reasons)
    if selects and operands[0].made is None and isinstance(owner, Tensor):
        operands[0] = replace(operands[0], made=maker(machine, owner.symbol, asked=True))
    met = pair(machine, "index_put", operands)
    if met is None:
        return
    steady, half = met
    into = steady is operands[0]
    if selects:
        kinds = ("half", "float32") if into else ("float32", "half")
        refusal = f"it assigns {kinds[0]} to elements of a tensor that is {kinds[1]}"
        if steady.made is None:
            refusal = _MADE_LIKE if _is_like(machine, steady) else _KEPT
        if is_only_moved(operands[0], operands[1]):
            refusal = "what is assigned is moved to the device of the tensor, but not converted to its dtype"
        machine.emit(
            state, Clash, node, op="index_put", steady=steady, half=half, refusal=refusal, assumed=True,
            guesses=min(reasons, key=len),
        )  # fmt: skip
    elif into and steady.made is not None and follows(machine, steady.made):
        machine.emit(state, Clash, node, op="an assignment", steady=steady, half=half, refusal=None, assumed=True)


def supplied(machine: Machine, state: State, node: cst.Call, arguments: Arguments) -> None:
    """Something out of sight is called: a layer, where its input was made on the device of its parameters."""
    if not machine.assumes or Clash.kind not in machine.wanted or innermost(machine, state)[0] is not None:
        return
    for argument in arguments.given:
        source = told(machine, state, argument.node.value, argument.value)
        if source.made is not None and source.dtype == "float32" and belongs(source.made, node.func):
            half = Operand(node.func, Unknown(machine.fresh()))
            refusal = "its input is made on the device of its parameters, but not in their dtype"
            machine.emit(state, Clash, node, op=_name(node), steady=source, half=half, refusal=refusal, assumed=True)


def weighed(machine: Machine, state: State, node: cst.Call, op: str, source: Operand, weights: Tensor) -> None:
    """A layer runs on `source` outside of any region: its weights are half where the model was converted."""
    if not machine.assumes or Clash.kind not in machine.wanted or op not in _WEIGHTED or weights.dtype is not None:
        return
    if source.dtype != "float32" or not isinstance(source.value, Tensor) or minds_dtypes(machine):
        return
    made = ingredient(machine, source.value.symbol)
    if made is not None and not _is_handed(machine, made):
        steady, half = replace(source, made=made), Operand(node.func, weights)
        refusal = "its input is float32 in any case, its weights have the dtype of the model"
        machine.emit(state, Clash, node, op=op, steady=steady, half=half, refusal=refusal, assumed=True)


def _selects(machine: Machine, state: State, element: cst.SubscriptElement) -> tuple[Guessed, ...] | None:
    """The name by which an index is a tensor or a list, if it is: what is assigned then has to have the dtype."""
    if not isinstance(element.slice, cst.Index):
        return None
    key = used_as_tensor(machine, machine.evaluate(state, element.slice.value))
    if isinstance(key, (Items, Tensor)):
        return () if not isinstance(key, Tensor) or key.rank != 0 else None
    kind = machine.symbols.key(key.symbol)[0] if isinstance(key, Unknown) else ""
    names = [node.value for node in walk(element.slice.value) if isinstance(node, cst.Name)]
    typed = kind == "parameter" and any(names[0] in tensors_in(function) for function in machine.calls)
    if typed or isinstance(element.slice.value, cst.Comparison):
        return ()
    named = [name for name in names if INDICES.search(name)] if kind in _FROM_AFAR else []
    return INDICES.taken(named[0]) if named else None


def handed(machine: Machine, state: State, node: cst.Call, arguments: Arguments) -> None:
    """An unseen function is given tensors to read and one to write its results to, by a custom autograd function."""
    if not machine.assumes or Clash.kind not in machine.wanted or not _in_custom_function(machine):
        return
    if not isinstance(machine.statement, cst.SimpleStatementLine) or minds_dtypes(machine):
        return
    if not any(isinstance(small, cst.Expr) and small.value is node for small in machine.statement.body):
        return
    operands = [told(machine, state, argument.node.value, argument.value) for argument in arguments.given]
    steady = next((operand for operand in operands if operand.made is not None), None)
    half = next((operand for operand in operands if operand is not steady and _may_be_half(machine, operand)), None)
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


@per_chunk
def _met(chunk: Chunk) -> frozenset[str]:
    """The calls that matter in a chunk which writes to elements of a tensor like another, or converts and combines."""
    text = chunk.text
    likes = LIKE if "_like(" in text and "] = " in text else frozenset[str]()
    lifts = ".float()" in text and ("type_as(" in text or "() @ " in text or "matmul(" in text)
    asks = "float32)" in text and "softmax(" in text
    masks = "mask" in text and ".device)" in text and ("torch.zeros(" in text or "torch.ones(" in text)
    shapes = _SHAPES if masks else frozenset[str]()
    lifts = lifts or (".float()" in text and "forward(" in text and _TRUTHS.search(text) is not None)
    return likes.union(shapes, {"float"} if lifts else (), {"softmax", "einsum", "matmul", "bmm"} if asks else ())


class Clashes(Tracker):
    """Follows what code out of sight is given of tensors that are float32 in any case."""

    def is_needed(self) -> bool:
        """Only where the rules are to assume something."""
        return self.machine.assumes and Clash.kind in self.machine.wanted

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """What makes tensors like others, and conversions to float32 beside what they can meet."""
        found = frozenset[str]().union(*map(_met, chunks))
        return Words(calls=found)

    def unseen(self, state: State, call: Call) -> None:
        """Code that cannot be seen gets tensors."""
        if call.entered is None:
            handed(self.machine, state, call.node, call.arguments)
            if not isinstance(call.callee, Ref):
                supplied(self.machine, state, call.node, call.arguments)
