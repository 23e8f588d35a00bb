"""Outputs of models that compute in half: the values they flow into unchanged, and the losses computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from amplint.semantics.events import Because, Evidence, LossOfOutput, Operand, OutputInHalf
from amplint.semantics.models.model_states import Model, ModelStates
from amplint.semantics.models.models import Models, model_guesses, runs_forward
from amplint.semantics.models.origins import root
from amplint.semantics.models.parameters import path_in_model
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.origins import KEEPS_DTYPE
from amplint.semantics.reading.scopes import called_names, dotted
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.regions.ran import without_gradients
from amplint.semantics.tensors.masks import branches_on_dtypes
from amplint.semantics.tensors.provenance import ARITHMETIC
from amplint.semantics.tensors.tensors import Tensors, is_number
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import FALSE, TRUE, Function, Items, Module, Ref, Tensor, Unknown, Value
from amplint.semantics.words import LOSS, NO_LOSS, OUTPUT_FIELD, PIPELINE, SPEAKS_OF_LOSS, SUBMODEL
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.policy import LOSSES
from amplint.torchlib.sharding import SHARDERS

_TAKEN = frozenset({"index", "to", "cpu"})
_NORMALISED = frozenset({"softmax", "log_softmax", "exp", "log"})
_LOG_PROBABILITIES = "log_softmax"
_NORMALISER = "logsumexp"
_CHECKED = LOSSES | {_LOG_PROBABILITIES, _NORMALISER}
_OF_LANGUAGE = frozenset({"cross_entropy", "nll_loss", _LOG_PROBABILITIES, _NORMALISER})
_OF_LOG_PROBABILITIES = frozenset({"nll_loss"})
"""Losses of log-probabilities, which a region computes in float32."""
_LOADERS = frozenset({"from_pretrained", "from_config"})
_CONVERT_OUTPUTS = frozenset({"Accelerator", "Fabric"})
_COMBINES = operations_with("joins") | operations_with("matrices") | {"MatrixMultiply"}
"""Operations of tensors of one dtype, which outside of any region is that of the result."""
_SIDES_KEPT = 4
_SHARDERS = frozenset(name.rpartition(".")[2] for name in SHARDERS) | {"deepspeed"}
_HANDED = _TAKEN | {"part", "wrapped"}
_NOT_HALF = "<not half>"


def _is_pipeline(machine: Machine, model: Value) -> bool:
    """Whether an object comes from the `from_pretrained` of a class that is named a pipeline."""
    key = machine.symbols.key(symbol_of(machine, model))
    return key[0] == "call" and PIPELINE.search(str(key[1])) is not None


def ran(machine: Machine, state: State, model: Value, path: cst.BaseExpression, result: Value) -> None:
    """Record the output of `model`, named by `path`.

    It can have been computed in half, and the dtype of the result is unknown.
    """
    region, entered_by = innermost(machine, state)
    if not isinstance(result, (Tensor, Unknown)) or getattr(result, "dtype", None) is not None:
        return
    if state.heap.get(result.symbol, {}).get(_NOT_HALF) == FALSE or _is_pipeline(machine, model):
        return
    weights = state[ModelStates].known.get(root(machine, symbol_of(machine, model)), Model())
    cast = weights.bfloat16 or weights.half
    taken = model_guesses(machine, state, model, path)
    if machine.assumes:
        state.set_attribute(result.symbol, _NOT_HALF, FALSE)
    if cast is not None:
        taken = (*taken, *machine.guesses_for(cast))
        dtype = "bfloat16" if weights.bfloat16 is not None else "float16"
        text = f"the weights of the model are {dtype} from here on"
        machine[HalfOutputs].known[result.symbol] = Evidence(Because.PARAMETERS, frozenset({dtype}), text, cast, taken)
    elif region is not None and region.dtypes is not None and region.dtypes & HALF_DTYPES:
        dtypes = region.dtypes & HALF_DTYPES
        text = f"the {' or '.join(sorted(dtypes))} autocast region of the model begins here"
        machine[HalfOutputs].known[result.symbol] = Evidence(Because.REGION, dtypes, text, entered_by, taken)
    elif weights.shards is not None and weights.shards.returns in HALF_DTYPES:
        dtype = weights.shards.returns
        text = f"the policy lets the model compute in {dtype}, and its output stays so"
        node = weights.shards.node
        machine[HalfOutputs].known[result.symbol] = Evidence(Because.POLICY, frozenset({dtype}), text, node, taken)
    elif machine.assumes or result.symbol in machine[HalfOutputs].known:
        state.set_attribute(result.symbol, _NOT_HALF, TRUE)


def ran_in_part(machine: Machine, state: State, part: int, result: Unknown) -> None:
    """Record the output of a `part` of a model whose weights are half, outside of any region."""
    names, whole = path_in_model(machine, part)
    stored = state[ModelStates].known.get(whole, Model()).stored if names else None
    if stored is None or not all(map(SUBMODEL.search, names)) or innermost(machine, state)[0] is not None:
        return
    dtype, cast = stored
    guesses = (*(one for name in names for one in SUBMODEL.guesses(name)), *machine.guesses_for(cast))
    text = f"the weights of the model are {dtype} from here on"
    record(machine, state, result.symbol, Evidence(Because.PARAMETERS, frozenset({dtype}), text, cast, guesses))


def record(machine: Machine, state: State, output: int, evidence: Evidence) -> None:
    """Record why the output of a framework's model is half."""
    machine[HalfOutputs].known[output] = evidence
    state.set_attribute(output, _NOT_HALF, FALSE)


def of_output(
    machine: Machine, state: State, symbol: int, passed: frozenset[str] = _TAKEN | _NORMALISED
) -> Evidence | None:
    """The evidence that a model output can be half, where `symbol` is a view or a copy of it in the same dtype."""
    todo, seen = [symbol], set[int]()
    fields: dict[int, str] = {}
    while todo:
        symbol = todo.pop()
        if symbol in machine[HalfOutputs].known:
            known = machine[HalfOutputs].known[symbol] if state.heap.get(symbol, {}).get(_NOT_HALF) != TRUE else None
            named = OUTPUT_FIELD.guesses(fields[symbol]) if symbol in fields else ()
            return replace(known, guesses=(*known.guesses, *named)) if known is not None and named else known
        if symbol not in seen:
            seen.add(symbol)
            sides = _sides(machine, symbol)
            if sides:
                whys = [of_output(machine, state, side, passed) for side in sides[:_SIDES_KEPT]]
                return whys[0] if all(whys) and len(sides) <= _SIDES_KEPT else None
            found, key = _unchanged(machine, symbol, passed), machine.symbols.key(symbol)
            if key[0] == "attribute" or symbol in fields:
                fields.update(dict.fromkeys(found, fields.get(symbol, str(key[1]))))
            todo += found
    return None


def _sides(machine: Machine, symbol: int) -> list[int]:
    """The alternatives that a join or a conditional expression combined in `symbol`."""
    todo, sides, seen = [symbol], list[int](), set[int]()
    while todo:
        side = todo.pop()
        if side not in seen:
            seen.add(side)
            kind = machine.symbols.key(side)[0]
            if kind == "either":
                todo += machine.symbols.parts(side)
            elif kind == "if":
                todo += machine.symbols.parts(side)[1:]
            else:
                sides.append(side)
    return sides if sides != [symbol] else []


def _unchanged(machine: Machine, symbol: int, passed: frozenset[str]) -> tuple[int, ...]:
    """The operands from which `symbol` has its dtype."""
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    callee = str(key[1]) if key[0] == "call" and len(key) > 1 else ""
    if (method := machine.symbols.method(symbol)) is not None:
        name, parts = method
        follows = name in KEEPS_DTYPE
    elif callee.rpartition(".")[2][:1].isupper() and not callee.startswith("torch."):
        return parts if "wrapped" in passed else ()
    elif key[0] in _COMBINES:
        return parts[:1]
    elif key[0] in ARITHMETIC:
        tensors = tuple(part for part in parts if not is_number(machine, Unknown(part)))
        return tensors if len(tensors) == 1 else ()
    else:
        field = key[0] == "attribute" and OUTPUT_FIELD.search(str(key[1])) is not None
        follows = field or key[0] in passed or key[0] in KEEPS_DTYPE
    return parts[:1] if follows else ()


@cached_per_chunk
def _losses_called(chunk: Chunk) -> frozenset[str]:
    return frozenset(filter(is_loss, called_names(chunk)))


def loss_names(chunks: Iterable[Chunk]) -> frozenset[str]:
    """The names of callees in a file that compute losses."""
    return frozenset().union(*map(_losses_called, chunks))


def is_loss(name: str) -> bool:
    """Whether a function or an object computes losses, by its name."""
    return LOSS.search(name) is not None and NO_LOSS.search(name) is None


def report_loss_call(machine: Machine, state: State, node: cst.Call, callee: Value, arguments: Arguments) -> None:
    """Report an unseen call that computes a loss from a half output."""
    if (
        not machine.assumes
        or machine.muted
        or LossOfOutput.kind not in machine.wanted
        or isinstance(callee, (Function, Module))
    ):
        return
    func = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    name = func.value if isinstance(func, cst.Name) else ""
    if not is_loss(name) or (isinstance(callee, Ref) and callee.name.startswith(("torch.", "builtins."))):
        return
    if branches_on_dtypes(machine):
        return
    for argument in arguments.given:
        for value in _members(argument.value):
            why = _why(machine, state, value)
            if why is not None:
                output = Operand(argument.node.value, value, why)
                guesses = (*LOSS.guesses(name), *why.guesses)
                machine.emit(
                    state, LossOfOutput, node, loss=name, output=output, seen=False, assumed=True, guesses=guesses
                )
                return


def computed(machine: Machine, state: State, node: cst.Call, op: str, place: cst.BaseExpression, value: Value) -> None:
    """Report a loss of PyTorch, or log-probabilities, computed from a half output without autocast."""
    if LossOfOutput.kind not in machine.wanted or op not in _CHECKED:
        return
    if innermost(machine, state)[0] is not None or branches_on_dtypes(machine):
        return
    unknown = isinstance(value, Unknown) or (isinstance(value, Tensor) and value.dtypes is None)
    why = of_output(machine, state, symbol_of(machine, value), _TAKEN | {"part"}) if unknown else None
    if why is None or any(argument.keyword and argument.keyword.value == "dtype" for argument in node.args):
        return
    if op in _OF_LOG_PROBABILITIES and why.because is Because.REGION:
        return
    known = _is_loaded(machine, state, why) or _left_region(machine, state, why)
    plain = why.because is Because.POLICY or (op in _OF_LANGUAGE and known)
    if plain or machine.assumes:
        output, assumed = Operand(place, value, why), not plain
        machine.emit(state, LossOfOutput, node, loss=op, output=output, seen=True, assumed=assumed, guesses=why.guesses)


def _is_loaded(machine: Machine, state: State, why: Evidence) -> bool:
    """Whether a model that is trained or learnt from was loaded as half, and no framework converts what it returns."""
    if why.because is not Because.PARAMETERS or machine[HalfOutputs].managed or without_gradients(state):
        return False
    return isinstance(why.node, cst.Call) and (dotted(why.node.func) or "").rpartition(".")[2] in _LOADERS


def _left_region(machine: Machine, state: State, why: Evidence) -> bool:
    """Whether a model that is trained ran in a region that has ended, and no framework converts what it returns."""
    return why.because is Because.REGION and not machine[HalfOutputs].managed and not without_gradients(state)


def _members(value: Value) -> Iterator[Value]:
    if isinstance(value, Items):
        for member in value.values:
            yield from _members(member)
    else:
        yield value


def _why(machine: Machine, state: State, value: Value) -> Evidence | None:
    if not isinstance(value, (Tensor, Unknown)) or (isinstance(value, Tensor) and value.dtypes is not None):
        return None
    return of_output(machine, state, value.symbol, _HANDED)


def _halved(machine: Machine, state: State, value: Value, node: cst.Call, dtype: str) -> Value | None:
    """`value`, the output of a model at `node`, in `dtype` where it can be a tensor of it; of a tuple, each element."""
    source = machine.program.source_of(node)
    above = source.parent(node) if source is not None else None
    targets = above.targets if isinstance(above, cst.Assign) else ()
    target = targets[0].target if len(targets) == 1 else None
    if not isinstance(target, (cst.Tuple, cst.List)):
        return None if _is_of_loss(target) else _converted_to(machine, state, value, node, dtype)
    names = [element.value for element in target.elements]
    if isinstance(value, Items) and len(value.values) == len(names):
        parts = list(value.values)
    elif isinstance(value, Unknown):
        parts = [machine.unknown("part", place, parts=(value.symbol,)) for place in range(len(names))]
    else:
        return None
    given = [
        None if _is_of_loss(name) else _converted_to(machine, state, part, node, dtype, name)
        for part, name in zip(parts, names, strict=True)
    ]
    return Items(tuple(half or part for half, part in zip(given, parts, strict=True)))


def _converted_to(
    machine: Machine,
    state: State,
    value: Value,
    node: cst.Call,
    dtype: str,
    target: cst.BaseExpression | None = None,
) -> Value | None:
    """`value` in `dtype`; None if it has another one, or is no tensor."""
    known = value.dtypes if isinstance(value, Tensor) else None
    if not isinstance(value, (Tensor, Unknown)) or known not in (None, {dtype}):
        return None
    machine[Tensors].half_because[node] = Because.REGION
    if isinstance(value, Tensor):
        half: Tensor | Unknown = replace(value, dtype=dtype, why_half=node)
    else:
        half = machine.unknown("converted", dtype, node, parts=(value.symbol,))
    is_tensor = isinstance(value, Tensor)
    machine.emit(state, OutputInHalf, node, output=half.symbol, target=target, is_tensor=is_tensor)
    return half


def _is_of_loss(target: cst.CSTNode | None) -> bool:
    return target is not None and SPEAKS_OF_LOSS.search(dotted(target) or "") is not None


def _loads_half(chunk: Chunk) -> bool:
    return not chunk.words.isdisjoint(_LOADERS) and not chunk.words.isdisjoint(HALF_DTYPES)


class HalfOutputs(Tracker):
    """The evidence for half outputs of models, by symbol."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.known: dict[int, Evidence] = {}
        self.managed = False

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Calls of losses, where dtypes are assumed or a model may return half without a region."""
        self.managed = any(not chunk.words.isdisjoint(_CONVERT_OUTPUTS) for chunk in chunks)
        returns_half = any(not chunk.words.isdisjoint(_SHARDERS) or _loads_half(chunk) for chunk in chunks)
        follows = (self.machine.assumes or returns_half) and self.machine[Models].follows
        names = loss_names(chunks) | ({_LOG_PROBABILITIES, _NORMALISER} if returns_half else set())
        return Words(calls=names if follows else frozenset())

    def must_follow(self, state: State, function: Function, given: Sequence[Value]) -> bool:
        """Whether a function computes a loss, or log-probabilities, of what a model returns in half by itself."""
        if not self.known or function.chunk.words.isdisjoint(_OF_LANGUAGE):
            return False
        found = (of_output(self.machine, state, value.symbol) for value in given if isinstance(value, Unknown))
        return any(why is not None and why.because is not Because.REGION for why in found)

    def computation(self, state: State, node: cst.Call, op: str, place: cst.BaseExpression, value: Value) -> None:
        """Check an operation of PyTorch that may be a loss."""
        computed(self.machine, state, node, op, place, value)

    def comprehension_value(self, element: Value) -> Value | None:
        """A list of outputs, as one of them."""
        if not isinstance(element, Unknown) or element.symbol not in self.known:
            return None
        return self.machine.unknown("part", "each", parts=(element.symbol,))

    def unseen_begins(self, state: State, call: Call) -> None:
        """Check an unseen call that may be a loss."""
        report_loss_call(self.machine, state, call.node, call.callee, call.arguments)

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """Record the output of a model, or of a possible one, but not what it generates, such as numbers of tokens."""
        model = call.notes.get(Models)
        if model is not None and call.entered in (None, "object") and runs_forward(call, model[1]):
            ran(self.machine, state, model[0], model[1], result)
        if isinstance(call.callee, Unknown) and isinstance(result, Unknown) and result.symbol not in self.known:
            ran_in_part(self.machine, state, call.callee.symbol, result)

    def call_returned(self, state: State, call: Call, result: Value) -> Value | None:
        """The output of a model in a region as half, where that is asked for and its dtype is unknown."""
        model = call.notes.get(Models) if self.machine.halves else None
        if model is None or call.entered not in (None, "object"):
            return None
        region, _ = innermost(self.machine, state)
        dtypes = (region.dtypes or frozenset()) & HALF_DTYPES if region is not None else frozenset()
        return _halved(self.machine, state, result, call.node, *dtypes) if len(dtypes) == 1 else None
