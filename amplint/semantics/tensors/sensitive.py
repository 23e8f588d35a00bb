"""Operations that should run in float32 and whose operands, as the code shows, can be half."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from amplint.findings import Guessed
from amplint.records import dataclass
from amplint.semantics.events import SQUARES, Because, Evidence, How, Operand, Sensitive
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors import provenance
from amplint.semantics.tensors.masks import branches_on_dtypes, running
from amplint.semantics.tensors.supposed import is_backward
from amplint.semantics.tensors.tensors import Tensors, converts_to, follows, is_number, runs_layers, tensor_guesses
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor, Unknown, Value, number
from amplint.semantics.words import ROUTING
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.policy import LOSSES, words

CURVES = words("exp expm1 log log1p log2 log10 logsumexp softmax log_softmax softmin")
NORMS = words("norm vector_norm")
SUMS = words("sum cumsum cumprod logcumsumexp")
_RUNNING = words("cumsum logcumsumexp")
_SQUARES = words("pow square mul")
_PROBABILITIES = words("softmax softmin")
_DRAWS = words("cumsum multinomial")
"""Operations that depend on small probabilities: cumulative sums, and sampling."""
_OF_WEIGHTS = words("exp expm1 softplus")
_BACK = CURVES | NORMS | words("cumsum cumprod logcumsumexp")
_WATCHED = CURVES | NORMS | SUMS | LOSSES | _OF_WEIGHTS | _SQUARES | _DRAWS
_KEEP = operations_with("keeps") | operations_with("follows") | words("Minus index part")
_WIDENING = words("float float32 double float64")
_OF_SCRIPTS = words("parameters named_parameters item tolist backward")
_SQUARED = words("pow square")
_OF_OUTPUTS = LOSSES | words("log_softmax")
_FAR = 64
"""The limit of values followed backwards."""
_TEXTS = {
    How.CONVERTED_BACK: "the result is converted here to the dtype of another tensor, as if it were wider",
    How.OUTPUT: "half begins here",
    How.ELSEWHERE: "this branch converts it to float32",
    How.NARROWED: "it is converted back here",
    How.DRAWN: "the probabilities are added up or drawn from here",
    How.COMPLEMENT: "this tells apart what is close to 1",
    How.COMPARED: "the divergence, or the logarithm of a probability, is computed here",
}


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of `op` at `node` on `operand`, of unknown dtype; `sources` are the symbols that went into it."""

    node: cst.CSTNode
    op: str
    operand: Operand
    sources: frozenset[int]


def ran(machine: Machine, state: State, node: cst.CSTNode, op: str, operand: Operand, result: Tensor) -> None:
    """Report or record an operation called without a dtype, where nothing casts its operand to float32."""
    value = operand.value
    squares = SQUARES in result.traits and op in _SQUARES
    if op not in _WATCHED or not isinstance(value, Tensor) or (op in _SQUARES and not squares):
        return
    if Sensitive.kind not in machine.wanted or innermost(machine, state)[0] is not None:
        return
    this = Ran(node, op, operand, frozenset())
    if op in _DRAWS and value.dtype not in HALF_DTYPES:
        _report_probabilities(machine, state, node, frozenset(sources(machine, value.symbol)))
    if value.dtype in HALF_DTYPES:
        if operand.half is not None and op in _PROBABILITIES | NORMS | SUMS | _SQUARES:
            _emit_run(machine, state, this, How.HALF)
    elif provenance.is_parameter_or_buffer(machine, value.symbol):
        if op in _OF_WEIGHTS and any(map(runs_layers, machine.calls)) and not branches_on_dtypes(machine):
            _emit_run(machine, state, this, How.WEIGHT)
    elif op in CURVES and (back := _narrowing(machine, value.symbol)) is not None:
        if not branches_on_dtypes(machine):
            _emit_run(machine, state, this, How.NARROWED, back)
    elif (
        value.dtype is None
        and value.among is None
        and operand.half is not None
        and not _widens(operand.node)
        and not is_wide(machine, value.symbol)
    ):
        behind = frozenset(sources(machine, value.symbol))
        machine[SensitiveRuns].add(state, replace(this, sources=behind), result)
        if op in NORMS and _are_given(machine) and any(map(partial(_is_gradient, machine), behind)):
            _emit_run(machine, state, this, How.GRADIENT)
        if op in _RUNNING and _in_backward(machine):
            _emit_run(machine, state, this, How.BACKWARD)
        if op in _OF_OUTPUTS and (cast := _conversion(machine, value.symbol)) is not None:
            _emit_run(machine, state, this, How.OUTPUT, cast)


def _narrowing(machine: Machine, symbol: int) -> cst.CSTNode | None:
    """The call that gave a tensor, which had been cast to float32, the dtype of another one, on some path at least."""
    symbols, narrowed = machine.symbols, machine[Tensors].narrowed

    def operands(one: int) -> list[int]:
        parts = symbols.parts(one) if symbols.key(one)[0] == "either" else ()
        return [provenance.dtype_root(machine, part) for part in parts]

    reached = symbols.closure(provenance.dtype_root(machine, symbol), operands) if narrowed else ()
    return next((narrowed[one] for one in reached if one in narrowed), None)


def _in_backward(machine: Machine) -> bool:
    return bool(machine.calls) and is_backward(machine.calls[-1])


def _report_probabilities(machine: Machine, state: State, node: cst.CSTNode, sources: frozenset[int]) -> None:
    """Report the softmax whose probabilities are summed up or sampled from."""
    known = machine[SensitiveRuns].runs
    for this in (known[source] for source in sources if source in known):
        if this.op in _PROBABILITIES:
            _emit_run(machine, state, this, How.DRAWN, node)


def _conversion(machine: Machine, symbol: int) -> cst.CSTNode | None:
    """The cast to half of something that went into `symbol`, also on some paths only: of a model, mostly."""
    keys = map(machine.symbols.key, machine.symbols.derivation(symbol))
    found = (key[2] for key in keys if key[0] == "converted" and key[1] in HALF_DTYPES)
    return next((node for node in found if isinstance(node, cst.CSTNode)), None)


def _widens(node: cst.CSTNode) -> bool:
    """Whether an expression contains a cast to float32."""
    return not _WIDENING.isdisjoint(inner.attr.value for inner in walk(node) if isinstance(inner, cst.Attribute))


def is_wide(machine: Machine, symbol: int) -> bool:
    """Whether something that went into `symbol`, or was an operand beside it, was cast to float32."""
    keys = [machine.symbols.key(one) for one in machine.symbols.derivation(symbol)]
    keys += [machine.symbols.key(each[1]) for key in keys for each in _operands(key)]
    return any(key[0] in ("cast", "converted") and key[1] == "float32" for key in keys)


def _operands(key: Sequence[object]) -> list[tuple[object, int]]:
    """The operands by which the key of a result tells it from others, each as its dtype and its symbol."""
    given = key[1] if len(key) > 1 and isinstance(key[1], tuple) else ()
    return [each for each in given if isinstance(each, tuple) and len(each) == 2]


def _is_gradient(machine: Machine, symbol: int) -> bool:
    return machine.symbols.key(symbol)[:2] == ("attribute", "grad")


def _are_given(machine: Machine) -> bool:
    """Whether the running function neither trains nor casts to float32, so that gradients may be of any dtype."""
    names = {node.attr.value for node in running(machine) if isinstance(node, cst.Attribute)}
    return bool(machine.calls) and names.isdisjoint(_OF_SCRIPTS | _WIDENING)


def sources(machine: Machine, symbol: int, arithmetic: bool = True) -> Iterator[int]:
    """`symbol` and what went into it by dtype-preserving operations, with or without arithmetic of two tensors."""
    todo = [symbol]
    seen: set[int] = set()
    while todo and len(seen) < _FAR:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        yield current
        key, parts = machine.symbols.key(current), machine.symbols.parts(current)
        name = str(key[1] if key[0] == "attribute" else key[0])
        if (callee := machine.symbols.method(current)) is not None:
            name, parts = callee
        if name == "where":
            todo += [each[1] for each in _operands(key)[1:]]
        elif name in provenance.ARITHMETIC and not arithmetic:
            numbers = [part for part in parts if is_number(machine, Unknown(part))]
            todo += [part for part in parts if part not in numbers] if numbers else ()
        elif name.partition(" ")[0].removesuffix("_") in _KEEP | provenance.ARITHMETIC:
            todo += parts


def emit_sensitive(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    op: str,
    operand: Operand,
    how: How,
    at: cst.CSTNode | None = None,
    guesses: tuple[Guessed, ...] = (),
) -> None:
    """Emit `Sensitive` for an operation that should run in float32, with the node `at` that shows it."""
    half = operand.half
    if at is not None:
        half = Evidence(Because.ANNOUNCED, HALF_DTYPES, _TEXTS[how], at)
    value = operand.value
    names = tensor_guesses(machine, value.symbol) if isinstance(value, Tensor) else ()
    machine.emit(
        state, Sensitive, node, op=op, operand=replace(operand, half=half), how=how, assumed=True,
        guesses=(*names, *guesses),
    )  # fmt: skip


def _emit_run(
    machine: Machine,
    state: State,
    this: Ran,
    how: How,
    at: cst.CSTNode | None = None,
    guesses: tuple[Guessed, ...] = (),
) -> None:
    emit_sensitive(machine, state, this.node, this.op, this.operand, how, at, guesses)


def _in_other_branch(machine: Machine, one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether two nodes stand in different branches of one `if`."""
    sides = _sides(machine, one)
    return any(sides.get(condition, side) is not side for condition, side in _sides(machine, other).items())


def _sides(machine: Machine, node: cst.CSTNode) -> dict[cst.CSTNode, bool]:
    """The `if` statements around `node`, each with whether `node` is in its body."""
    source = machine.program.source_of(node)
    found, below = dict[cst.CSTNode, bool](), node
    for above in source.ancestors(node) if source is not None else ():
        if isinstance(above, cst.FunctionDef):
            break
        if isinstance(above, cst.If):
            found[above] = below is above.body
        below = above
    return found


class SensitiveRuns(Tracker):
    """The recorded runs by result and by source symbol, and the casts to float32 by symbol."""

    methods = frozenset({"float", "to", "type", "type_as", "pow", "square"})

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.runs: dict[int, Ran] = {}
        self.using: dict[int, list[Ran]] = {}
        self.widened: dict[int, list[cst.CSTNode]] = {}

    def add(self, state: State, this: Ran, result: Tensor | None = None) -> None:
        """Record a run."""
        if result is not None:
            self.runs[result.symbol] = this
        for symbol in this.sources:
            self.using.setdefault(symbol, []).append(this)
            for node in self.widened.get(symbol, ()):
                self._elsewhere(state, this, node)
        named = dotted(this.operand.node)
        if named is not None:
            self._routes(state, this, named)

    def assigned(self, state: State, node: cst.Assign, target: cst.BaseExpression, value: Value) -> None:
        """Report a softmax whose result is assigned to a name that says it routes."""
        this = self.runs.get(value.symbol) if isinstance(value, Tensor) else None
        name = dotted(target) if this is not None else None
        if this is not None and name is not None:
            self._routes(state, this, name)

    def _routes(self, state: State, this: Ran, name: str) -> None:
        if this.op in _PROBABILITIES and ROUTING.search(name):
            _emit_run(self.machine, state, this, How.ROUTING, guesses=ROUTING.guesses(name))

    def method(self, state: State, call: Call) -> Value | None:
        """Handle a cast, or the square of a possible tensor."""
        if call.name in _SQUARED:
            self._squared(state, call)
            return None
        changes, dtype = converts_to(self.machine, call.name, call.arguments)
        if not self.machine.assumes or call.owner is None or branches_on_dtypes(self.machine):
            return None
        symbol = symbol_of(self.machine, call.owner)
        if changes and dtype == "float32":
            self.widened.setdefault(symbol, []).append(call.node)
            for this in self.using.get(symbol, ()):
                self._elsewhere(state, this, call.node)
        elif call.name == "type_as" or any(follows(self.machine, one) for one in call.arguments.given):
            for source in sources(self.machine, symbol, arithmetic=False):
                back = self.runs.get(source)
                if back is not None and (back.op in _BACK or (back.op == "sum" and _in_backward(self.machine))):
                    _emit_run(self.machine, state, back, How.CONVERTED_BACK, call.node)
        return None

    def _squared(self, state: State, call: Call) -> None:
        """Record the square of a difference of two unknown values, which another branch may show to be tensors."""
        value = call.owner
        if not isinstance(value, Unknown) or self.machine.symbols.key(value.symbol)[0] != "Subtract":
            return
        squares = call.name == "square" or number(call.arguments.value("exponent", 0)) == 2
        if squares and isinstance(call.node.func, cst.Attribute) and self.machine.assumes:
            operand = Operand(call.node.func.value, value)
            if Sensitive.kind in self.machine.wanted and innermost(self.machine, state)[0] is None:
                self.add(state, Ran(call.node, call.name, operand, frozenset(sources(self.machine, value.symbol))))

    def _elsewhere(self, state: State, this: Ran, node: cst.CSTNode) -> None:
        if _in_other_branch(self.machine, this.node, node):
            _emit_run(self.machine, state, this, How.ELSEWHERE, node)
