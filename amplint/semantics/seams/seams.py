"""Boundaries at which half tensors are refused: NumPy, and operations without kernels for half."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from amplint.findings import Guessed
from amplint.premises import Premise
from amplint.semantics.events import Because, Evidence, HalfRefused, Operand, Operation, ToNumpy
from amplint.semantics.models.half_outputs import of_output
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import last_name
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.seams.data import LEAVE, is_loaded, is_of_weights, is_read_as_bytes, is_whole, was_on_cpu
from amplint.semantics.tensors.datasets import prepares_data
from amplint.semantics.tensors.evidence import evidence
from amplint.semantics.tensors.kinds import is_no_tensor
from amplint.semantics.tensors.masks import branches_on_dtypes, unhandled_halves
from amplint.semantics.tensors.provenance import ARITHMETIC, conversion, dtype_root
from amplint.semantics.tensors.supposed import annotated_tensors
from amplint.semantics.tensors.tensors import tensor, used_as_tensor
from amplint.semantics.tensors.widened import cast_on_a_path
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Ref, Tensor, Unknown, Value, number
from amplint.semantics.words import LOSS, RAW
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Chunk
from amplint.source.tree import every, walk
from amplint.torchlib.catalogue import in_place, operations_with
from amplint.torchlib.half_support import COMPLEX, FFT, LIFTED, NEVER, SINGULAR_VALUES, lacks
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.policy import BOOLEAN, INTEGER, words

BFLOAT16 = frozenset({"bfloat16"})
_AMBIGUOUS = frozenset(
    {"inverse", "det", "solve", "inv", "qr", "eig", "quantile", "lu", "cond", "polar", "lstsq", "histogram"}
)
"""Methods that other classes than tensors have, too."""
_WRITES = operations_with("tensor-source") | in_place(operations_with("tensor-source"))
"""Methods of tensors that refuse a source of another dtype."""
_SPECTRAL = ("torch.fft.", "torch.stft", "torch.istft", "torch.view_as_real", "torch.view_as_complex")
_WITH_ARRAYS = words(
    "abs argsort array asanyarray ascontiguousarray asarray average clip concatenate copy cumsum dot exp expand_dims "
    "float32 float64 histogram hstack isfinite isnan log log10 log1p log2 maximum median minimum nanmean percentile "
    "quantile repeat reshape round save sort sqrt square stack transpose unique vstack where"
)
"""Functions of NumPy that convert tensors to arrays; others, such as `sum`, call methods of the tensor."""
_PICTURES = words("ToPILImage to_pil_image")
"""Functions of torchvision that convert a tensor to an image, by way of an array."""
_OTHER_LIBRARIES = words("tensorflow jax paddle mxnet mindspore")
"""Libraries whose arrays have a method of this name, too."""
_OF_PYTORCH = words("cpu detach clone")
_WHOLE = BOOLEAN | INTEGER | words("long int bool byte round")
"""Methods whose results are integers or booleans."""
_OF_SOUNDS = words("stft")
"""Operations on audio, which is float32 by default."""
_WINDOWED = words("stft")
"""Operations that multiply their input by a window, whose dtype can widen the product."""
_BY_PRODUCTS = words("cdist")
"""Operations that large operands let compute by a matrix product, which has kernels for half."""
_REFUSED = (NEVER | LIFTED | FFT | COMPLEX).union(SINGULAR_VALUES)


def words_of(kinds: Set[str]) -> frozenset[str]:
    """The callees of which events of these kinds are emitted."""
    numpy = _PICTURES | words("numpy asarray") if ToNumpy.kind in kinds else frozenset()
    written = _WRITES if Operation.kind in kinds else frozenset()
    return numpy | written | (_REFUSED if HalfRefused.kind in kinds else frozenset())


def to_numpy(machine: Machine, state: State, node: cst.Call, owner: Value) -> None:
    """Report `owner.numpy()`, where `owner` can be half."""
    if ToNumpy.kind not in machine.wanted or not isinstance(node.func, cst.Attribute):
        return
    owner = used_as_tensor(machine, owner)
    why = _why(machine, state, owner)
    if why is not None:
        assumed = why.because is Because.ASSUMED
        if assumed and (_is_raw(machine, node.func.value) or _is_given(machine, node, owner)):
            return
        operand = Operand(node.func.value, owner, why)
        machine.emit(
            state, ToNumpy, node, operand=operand, assumed=assumed, guesses=why.guesses, premises=_unseen(owner, why)
        )  # fmt: skip


def to_array(machine: Machine, state: State, call: Call) -> None:
    """Report a function that converts its first argument to an array, where that can be half."""
    given = call.arguments.given[0] if call.arguments.given else None
    if given is None or ToNumpy.kind not in machine.wanted or not isinstance(call.callee, (Ref, Unknown)):
        return
    key = machine.symbols.key(call.callee.symbol) if isinstance(call.callee, Unknown) else ()
    name = call.callee.name if isinstance(call.callee, Ref) else str(key[1]) if key[:1] == ("call",) else ""
    library, _, op = name.rpartition(".")
    pictures = op in _PICTURES and library.startswith("torchvision.")
    if not pictures and (library != "numpy" or op not in _WITH_ARRAYS):
        return
    value = used_as_tensor(machine, given.value)
    why = _why(machine, state, value)
    assumed = why is not None and why.because is Because.ASSUMED
    if why is None or (assumed and not (isinstance(value, Tensor) if pictures else _leaves_device(given.node.value))):
        return
    if assumed and not pictures and (_is_raw(machine, given.node.value) or _is_given(machine, call.node, value)):
        return
    operand = Operand(given.node.value, value, why)
    machine.emit(
        state, ToNumpy, call.node, operand=operand, by=op, assumed=assumed, guesses=why.guesses,
        premises=_unseen(value, why),
    )  # fmt: skip


def _unseen(value: Value, why: Evidence) -> tuple[Premise, ...]:
    """The premise that a model which is not seen returns what its region computes: norms and losses are float32."""
    known = isinstance(value, Tensor) and (value.dtype is not None or value.among is not None)
    return () if known or why.because is not Because.REGION else (Premise.HALF_THERE,)


def _is_raw(machine: Machine, node: cst.BaseExpression) -> bool:
    """Whether an expression names data or a dtype that is not floating-point, or may be an array of another library."""
    if any(isinstance(inner, cst.Comparison) for inner in walk(node)):
        return True
    names = [inner for inner in walk(node) if isinstance(inner, cst.Name)]
    texts = [inner.raw_value for inner in walk(node) if isinstance(inner, cst.SimpleString)]
    if any(map(RAW.search, (*(name.value for name in names), *texts))):
        return True
    if any(name.value in _WHOLE for name in names) or prepares_data(machine):
        return True
    others = any(not chunk.words.isdisjoint(_OTHER_LIBRARIES) for chunk in machine.program.main.chunks)
    return others and not any(name.value in _OF_PYTORCH for name in names)


def _is_given(machine: Machine, node: cst.Call, value: Value) -> bool:
    """Whether a value that becomes an array holds integers or bytes, or is data that no model computed."""
    if not isinstance(value, (Tensor, Unknown)):
        return False
    return (
        is_whole(machine, value.symbol)
        or was_on_cpu(machine, value.symbol, machine[Seams].left)
        or is_loaded(machine, value)
        or is_read_as_bytes(machine, node)
    )


def _leaves_device(node: cst.BaseExpression) -> bool:
    """Whether an expression must be a tensor, because a method moves it from its device or detaches it."""
    called = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
    return called and node.func.attr.value in ("cpu", "detach")  # type: ignore[attr-defined]


def _why(machine: Machine, state: State, value: Value) -> Evidence | None:
    if isinstance(value, Tensor) and (value.dtype is not None or value.among is not None):
        return evidence(machine, state, value)
    if not isinstance(value, (Tensor, Unknown)) or is_no_tensor(machine, state, value.symbol):
        return None
    if branches_on_dtypes(machine) and not (machine.assumes and unhandled_halves(machine) >= BFLOAT16):
        return None
    lifted = cast_on_a_path(machine, value.symbol) if branches_on_dtypes(machine) else None
    if lifted is None and conversion(machine, value.symbol) not in (None, *BFLOAT16):
        return None
    known = of_output(machine, state, value.symbol)
    if known is None and machine.assumes:
        return Evidence(Because.ASSUMED, HALF_DTYPES, "nothing here tells its dtype, which may be bfloat16", None)
    return known


def runs(machine: Machine, state: State, node: cst.Call, name: str, place: cst.BaseExpression, value: Value) -> None:
    """Report an operation, by qualified or method name, that refuses half, where `value` is half."""
    op = name.rpartition(".")[2]
    region, _ = innermost(machine, state)
    on_cuda = machine.halves if region is None else region.devices == frozenset({"cuda"})
    refused = HALF_DTYPES if _is_of_singular_values(node, name) else lacks(name, on_cuda=on_cuda)
    announced = _announced_by_window(machine, place, value) if op in _WINDOWED else None
    if op in _WINDOWED and announced is None and not _is_half_window(machine, state, node):
        return
    if not refused or HalfRefused.kind not in machine.wanted or not isinstance(value, (Tensor, Unknown)):
        return
    if region is not None and ("cuda" not in (region.devices or ()) or op in LIFTED):
        return  # autocast runs these in float32
    certain = isinstance(value, Tensor) and (value.dtype is not None or value.among is not None)
    if_small = op in _BY_PRODUCTS and not _is_by_elements(machine, state, node)
    if if_small and not certain:
        return
    if not certain and conversion(machine, value.symbol) in (None, *HALF_DTYPES):
        machine[Seams].refusing[node] = Operand(place, value)
    plain = (
        isinstance(value, Tensor)
        or name not in _AMBIGUOUS
        or _is_weight(machine, value.symbol)
        or _takes_dimension(node)
    )
    if not certain and not (machine.assumes and plain):
        return
    why = evidence(machine, state, tensor(machine, value), place) or _converted_model(machine, value)
    why = announced or why or _weight(machine, value)
    if why is None or not (why.dtypes <= refused or (machine.assumes and why.dtypes & refused)):
        return
    guesses: tuple[Guessed, ...] | None = ()
    if not why.dtypes <= refused:
        guesses = _in_forward_pass(machine, symbol_of(machine, value)) if op not in _OF_SOUNDS else None
        guesses = () if announced is not None else guesses
    if guesses is None:
        return
    assumed = not certain or why.because is Because.ASSUMED or not why.dtypes <= refused
    if assumed and _is_retried(machine, node, op):
        return
    if if_small and (assumed or why.because is Because.ANNOUNCED):
        return
    operand = Operand(place, value, replace(why, dtypes=why.dtypes & refused))
    machine.emit(state, HalfRefused, node, op=op, operand=operand, assumed=assumed, if_small=if_small, guesses=guesses)


def _is_retried(machine: Machine, node: cst.Call, op: str) -> bool:
    """Whether a `try` around a call handles its failure by another call of the operation."""
    source = machine.program.source_of(node)
    below: cst.CSTNode = node
    for above in source.ancestors(node) if source is not None else ():
        if isinstance(above, cst.Try) and below is above.body:
            handled = (call for handler in above.handlers for call in every(handler, cst.Call))
            if any(last_name(call.func) == op for call in handled):
                return True
        below = above
    return False


def _is_by_elements(machine: Machine, state: State, node: cst.Call) -> bool:
    """Whether distances are computed element by element: by their mode, or in another norm than the Euclidean one."""
    given = {one.keyword.value if one.keyword is not None else place: one.value for place, one in enumerate(node.args)}
    mode, order = given.get("compute_mode", given.get(3)), given.get("p", given.get(2))
    if mode is not None and str(_literal(mode)).startswith("donot_use_mm"):
        return True
    norm = number(machine.evaluate(state, order)) if order is not None else None
    return norm is not None and norm != 2


def _is_half_window(machine: Machine, state: State, node: cst.Call) -> bool:
    """Whether the window is missing or half; a float32 one widens the product."""
    given = next((one.value for one in node.args if one.keyword is not None and one.keyword.value == "window"), None)
    if given is None:
        return True
    window = machine.evaluate(state, given)
    return isinstance(window, Tensor) and window.dtype in HALF_DTYPES


def _announced_by_window(machine: Machine, place: cst.BaseExpression, value: Value) -> Evidence | None:
    """The evidence that a function takes sounds in half, because it makes their window in their dtype."""
    function = machine.calls[-1] if machine.calls else None
    if not machine.assumes or function is None or not isinstance(value, (Tensor, Unknown)):
        return None
    if branches_on_dtypes(machine) or conversion(machine, value.symbol) is not None:
        return None
    if isinstance(value, Tensor) and value.dtypes is not None:
        return None
    keys = map(machine.symbols.key, machine.symbols.derivation(value.symbol))
    given = {str(key[2]) for key in keys if key[:2] == ("parameter", id(function))}
    given |= {node.value for node in walk(place) if isinstance(node, cst.Name)}
    read = next((node for name, node in _windows_like(function) if name in given), None)
    text = "the window takes the dtype of the signal, which can be half"
    return Evidence(Because.ANNOUNCED, HALF_DTYPES, text, read) if read is not None else None


@cached_per_file
def _windows_like(function: cst.CSTNode) -> tuple[tuple[str, cst.CSTNode], ...]:
    """The variables whose dtype a window of a function takes, each with the call that converts or makes the window."""
    found = []
    for call in every(function, cst.Call):
        if any((last_name(inner.func) or "").endswith("_window") for inner in every(call, cst.Call)):
            read = [node.value for node in every(call, cst.Attribute) if node.attr.value == "dtype"]
            if last_name(call.func) == "type_as":
                read += [argument.value for argument in call.args]
            found += [(node.value, call) for node in read if isinstance(node, cst.Name)]
    return tuple(found)


def _is_of_singular_values(node: cst.Call, name: str) -> bool:
    """Whether a norm is of an order computed from singular values: `torch.linalg.norm(x, "nuc")`."""
    module, _, op = name.rpartition(".")
    orders = SINGULAR_VALUES.get(op)
    if orders is None or module not in ("", "torch", "torch.linalg"):
        return False
    named = (argument for argument in node.args if argument.keyword is None or argument.keyword.value in ("ord", "p"))
    return any(_literal(argument.value) in orders for argument in named)


def _literal(node: cst.BaseExpression) -> str | int | None:
    """The value of a string or integer literal."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        positive = _literal(node.expression)
        return -positive if isinstance(positive, int) else None
    if isinstance(node, cst.Integer):
        return int(node.value, 0)
    return node.raw_value if isinstance(node, cst.SimpleString) else None


def _takes_dimension(node: cst.Call) -> bool:
    """Whether a method takes a dimension, as only those of tensors do; other libraries name theirs by strings."""
    along = (argument for argument in node.args if argument.keyword and argument.keyword.value in ("dim", "keepdim"))
    return any(not isinstance(argument.value, cst.BaseString) for argument in along)


def _is_weight(machine: Machine, symbol: int) -> bool:
    """Whether this is a view of the weight of a layer, or computed from one."""
    symbols = machine.symbols

    def operands(one: int) -> list[int]:
        return [dtype_root(machine, part) for part in symbols.parts(one)] if symbols.key(one)[0] in ARITHMETIC else []

    origin = dtype_root(machine, symbol)
    return any(symbols.key(one)[:2] == ("attribute", "weight") for one in symbols.closure(origin, operands))


def _converted_model(machine: Machine, value: Tensor | Unknown) -> Evidence | None:
    """The assumption that `value`, computed from parameters alone, is half because its model may have been cast."""
    if not machine.assumes or not isinstance(value, Tensor) or value.dtype is not None or value.among is None:
        return None
    if branches_on_dtypes(machine):
        return None
    halves = value.among & HALF_DTYPES
    return Evidence(Because.ASSUMED, halves, "the model may have been converted", None) if halves else None


def _weight(machine: Machine, value: Tensor | Unknown) -> Evidence | None:
    """The assumption that a weight, which a loop over a model gives, is half."""
    if not machine.assumes or branches_on_dtypes(machine) or not is_of_weights(machine, value.symbol):
        return None
    return Evidence(Because.ASSUMED, HALF_DTYPES, "the weights of a model can be half", None)


def _in_forward_pass(machine: Machine, symbol: int) -> tuple[Guessed, ...] | None:
    """The guesses by which `symbol` is computed in a forward pass; None if it is not, or is part of a spectrum.

    Audio and its spectra stay float32.
    """
    found = [guesses for guesses in map(_computes, machine.calls) if guesses is not None]
    if not found:
        return None
    todo, seen = [symbol], set[int]()
    while todo:
        key, parts = machine.symbols.key(todo[-1]), machine.symbols.parts(todo.pop())
        if key[0] == "call" and str(key[1]).startswith(_SPECTRAL):
            return None
        todo += [part for part in parts if part not in seen]
        seen.update(parts)
    return min(found, key=len)


def _computes(function: cst.CSTNode) -> tuple[Guessed, ...] | None:
    """The guesses by which a function is part of a forward pass; None if it is not.

    `forward` is, a method with parameters annotated as tensors, and a function named after a loss.
    """
    if not isinstance(function, cst.FunctionDef):
        return None
    names = [param.name.value for param in function.params.params]
    if function.name.value == "forward" or (names[:1] == ["self"] and annotated_tensors(function)):
        return ()
    return LOSS.guesses(function.name.value) if LOSS.search(function.name.value) else None


def report_late_cast(machine: Machine, state: State, node: cst.Call, dtype: str | None) -> None:
    """Report `op(x).to(torch.float32)` where `op` refuses half: the cast matters only where `x` is half."""
    before = node.func.value if isinstance(node.func, cst.Attribute) else None
    if (
        dtype == "float32"
        and isinstance(before, cst.Call)
        and (operand := machine[Seams].refusing.get(before)) is not None
    ):
        if branches_on_dtypes(machine):
            return
        why = Evidence(Because.ANNOUNCED, HALF_DTYPES, "the result is converted to float32 only here", node)
        name = before.func.attr.value if isinstance(before.func, cst.Attribute) else ""
        machine.emit(state, HalfRefused, before, op=name, operand=Operand(operand.node, operand.value, why), late=node)


class Seams(Tracker):
    """Operations that refuse half and may have a half operand, by call, and the symbols that were moved or detached."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.refusing: dict[cst.CSTNode, Operand] = {}
        self.left: set[int] = set()

    def operation(self, state: State, node: cst.Call, name: str, place: cst.BaseExpression, value: Value) -> None:
        """Check an operation that may refuse half, such as `numpy`."""
        if name == "numpy":
            to_numpy(self.machine, state, node, value)
        runs(self.machine, state, node, name, place, value)

    def unseen_begins(self, state: State, call: Call) -> None:
        """Record what is moved or detached, which leaves an unknown value the same."""
        if call.owner is not None and call.name in LEAVE:
            self.left.add(symbol_of(self.machine, call.owner))

    def handles_library_call(self, name: str) -> bool:
        """Whether this may convert tensors to arrays."""
        return name.startswith(("numpy.", "torchvision."))

    def library_call(self, state: State, call: Call) -> Value | None:
        """Check a function of NumPy or torchvision."""
        to_array(self.machine, state, call)
        return None

    def unseen(self, state: State, call: Call) -> None:
        """Check a call of an object that may convert to an image."""
        if isinstance(call.callee, Unknown):
            to_array(self.machine, state, call)

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """The names of operations and functions that may refuse half."""
        return Words(words_of(self.machine.wanted))
