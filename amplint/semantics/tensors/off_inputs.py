"""Functions and blocks that switch autocast off and convert none of the tensors that they are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.regex import regex
from amplint.semantics.events import InputsStayHalf
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.regions.callers import is_custom_function
from amplint.semantics.tensors.conversions import bindings, converts, names_read, sources
from amplint.semantics.tensors.supposed import is_backward
from amplint.semantics.values.state import State
from amplint.semantics.words import FREQUENCY, INDICES, MASK, POSITION, TORCH_MODULES, WHOLE_NUMBERS
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Source
from amplint.source.tree import every, keyword_of, walk

_NO_ACTIVATIONS = (WHOLE_NUMBERS, INDICES, MASK, POSITION, FREQUENCY)
_CONVERTS = regex(
    r"\.float\(|float32|\.double\(|float64|\.half\(|float16|\.to\([^)\n]{0,400}dtype|torch\.float\b|custom_fwd|type_as"
    r"|\b(?:sin|cos|polar)\("
)
"""Code that decides about dtypes itself, or computes with angles, which are float32 from the start."""


class OffInputs(Tracker):
    """Tracks regions that switch autocast off, once the file is read."""

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return InputsStayHalf.kind in self.machine.wanted

    def file_ends(self, starts: Sequence[State]) -> None:
        """Emit what comes into such regions."""
        source, statement = self.machine.program.main, self.machine.statement
        self.machine.statement = None
        for chunk in source.chunks:
            if "autocast" not in chunk.text or "False" not in chunk.text:
                continue
            if not self.machine.assumes and ".float()" not in chunk.text:
                continue
            for node in walk(chunk.module):
                if not isinstance(node, (cst.With, cst.FunctionDef)):
                    continue
                off = next((context for context in _contexts(node) if _is_off(context)), None)
                if off is None:
                    continue
                if _CONVERTS.search(source.code(node)):
                    if isinstance(node, cst.With):
                        self._compare(source, node)
                    continue
                if not self.machine.assumes:
                    continue
                if isinstance(node, cst.FunctionDef) and node.name.value in _called(source):
                    continue  # its callers show what they give it
                name = next(_unconverted(source, node), None)
                if name is not None:
                    self.machine.emit(State(), InputsStayHalf, off, name=name, off=node, assumed=True)
        self.machine.statement = statement

    def _compare(self, source: Source, node: cst.With) -> None:
        """Emit results of layers that come into a region unconverted, where it converts others."""
        function = source.function_around(node)
        if function is None or is_backward(function):
            return
        inside = set(walk(node.body))
        layers = {
            name
            for name, values in bindings(function).items()
            if any(_is_of_layer(value) and value not in inside for value in values)
        }
        dropped = {one.value for one in every(node.body, cst.Expr)}
        calls = [call for call in every(node.body, cst.Call) if _is_of_layer(call) and call not in dropped]
        passed = [one.value for call in calls for one in call.args]
        computed = [*(one.value for one in every(node.body, cst.Assign)), *passed]
        converted = next((one for one in computed if _lifts(one) and layers & names_read(one)), None)
        for call in calls if converted is not None else ():
            given = [list(sources(function, one.value)) for one in call.args]
            if any(converts(value) for before in given for value in before):
                continue
            named = (
                (before[0], name) for before in given for value in before for name in sorted(names_read(value) & layers)
            )
            found = next(((one, name) for one, name in named if not _is_no_activation(name)), None)
            if found is not None:
                self.machine.emit(State(), InputsStayHalf, found[0], name=found[1], off=node, beside=converted)


def _is_no_activation(name: str) -> bool:
    """Whether a variable is named after numbers that no layer computes."""
    return any(guess.search(name) for guess in _NO_ACTIVATIONS)


def _is_of_layer(node: cst.BaseExpression) -> bool:
    """Whether an expression calls a submodule or a method of the object."""
    return isinstance(node, cst.Call) and (dotted(node.func) or "").startswith("self.")


def _lifts(node: cst.BaseExpression) -> bool:
    """Whether an expression converts to float32."""
    return any(last_name(call.func) == "float" and not call.args for call in every(node, cst.Call))


@cached_per_file
def _called(source: Source) -> frozenset[str]:
    """The functions and methods that the file calls, by their names."""
    calls = (call for chunk in source.chunks for call in every(chunk.module, cst.Call))
    return frozenset(last_name(call.func) for call in calls)


def _contexts(node: cst.With | cst.FunctionDef) -> list[cst.BaseExpression]:
    if isinstance(node, cst.With):
        return [item.item for item in node.items]
    return [item.decorator for item in node.decorators]


def _is_off(context: cst.BaseExpression) -> bool:
    """Whether a context is `autocast(enabled=False)`."""
    if not isinstance(context, cst.Call) or last_name(context.func) not in ("autocast", "amp_autocast"):
        return False
    given = {keyword_of(one): dotted(one.value) for one in context.args}
    return given.get("enabled") == "False" or given.get("") == "False"


def _unconverted(source: Source, node: cst.With | cst.FunctionDef) -> Iterator[str]:
    """The tensors from outside that a region computes with, of which none is converted before."""
    function = source.function_around(node) if isinstance(node, cst.With) else node
    if function is None or is_backward(function):
        return
    given = {param.name.value for param in (*function.params.params, *function.params.kwonly_params)} - {"self", "cls"}
    inside = {name for one in every(node.body, cst.Assign) for name in _targets(one)}
    computed = {name for name, values in bindings(function).items() if any(map(names_read, values))}
    outside = given if isinstance(node, cst.FunctionDef) else (given | computed) - inside
    for operand in _operands(source, node.body):
        before = list(sources(function, operand))
        if any(converts(one) or _is_entry(one) for one in before):
            continue
        for name in sorted(frozenset[str]().union(*map(names_read, before)) & outside):
            if not _is_no_activation(name):
                yield name


def _is_entry(node: cst.CSTNode) -> bool:
    """Whether an expression reads an entry of a batch, `batch["image"]`, which no layer has computed."""
    indices = (one.slice for item in every(node, cst.Subscript) for one in item.slice)
    return any(isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString) for index in indices)


def _targets(node: cst.Assign) -> Iterator[str]:
    return (one.target.value for one in node.targets if isinstance(one.target, cst.Name))


@cached_per_file
def _custom_functions(source: Source) -> frozenset[str]:
    """The custom autograd functions of a file whose forward pass converts nothing."""
    found = set[str]()
    for chunk in source.chunks:
        for node in every(chunk.module, cst.ClassDef) if chunk.is_class else ():
            passes = (one for one in every(node.body, cst.FunctionDef) if one.name.value == "forward")
            forward = next(passes, None)
            if is_custom_function(node) and forward is not None and not _CONVERTS.search(source.code(forward)):
                found.add(node.name.value)
    return frozenset(found)


def _operands(source: Source, body: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What is passed to PyTorch's functions, custom ones and layers, and the sides of matrix products."""
    for node in walk(body):
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.MatrixMultiply, cst.Power)):
            yield node.left
        if not isinstance(node, cst.Call) or not node.args:
            continue
        owner, _, last = (dotted(node.func) or "").rpartition(".")
        custom = last == "apply" and owner in _custom_functions(source)
        if custom or TORCH_MODULES.search(owner) or (owner == "self" and not last.startswith("_")):
            yield node.args[0].value
