"""Extension kernels to which forward of a custom autograd function passes tensors in the dtypes that autocast left.

Autocast casts for operations that PyTorch dispatches. A kernel behind an import gets the arguments of forward: tensors
that operations in the region made half, others that are float32, such as parameters, and new buffers.
"""

from __future__ import annotations

import re

from amplint.findings import Guessed
from amplint.records import dataclass
from amplint.semantics.custom_functions.function_passes import Passes, differentiable
from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.modules import evaluate_silently, member
from amplint.semantics.reading.origins import Origins, read
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.state import MODULE_FRAME, State
from amplint.semantics.values.values import Function, Namespace, Ref, Unknown
from amplint.semantics.words import CASTER, KERNEL, KERNEL_WHOLE_NUMBERS, MINDS_AUTOCAST
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.source.tree import walk
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.methods import FLOATING_CASTS
from amplint.torchlib.names import DTYPES
from amplint.torchlib.policy import FLOAT32, LOWER, NOT_CAST_WITH_OUT, words
from amplint.torchlib.promotion import INTEGRAL

_FLOAT32 = "a new float32 buffer"
_FACTORIES = operations_with("creates", "sized") | {"full"}
_COMPUTATIONS = (FLOAT32 | LOWER | operations_with("promotes")) - operations_with("joins") - operations_with("creates")
_OF_TENSORS = words("size shape device contiguous is_cuda is_contiguous new_zeros new_empty")
_LEGACY = {("torch", "FloatTensor"), ("torch.cuda", "FloatTensor")}
_INTEGERS = frozenset(name.removeprefix("torch.") for name, dtype in DTYPES.items() if dtype in INTEGRAL)
_INTEGER_DTYPES = {("torch", name) for name in _INTEGERS}
_CONVERSIONS = FLOATING_CASTS | {"type", "type_as"}
_LIBRARIES = words("torch builtins math numpy np functools itertools warnings logging time os sys random einops typing")


@dataclass(frozen=True, slots=True)
class UncastCall:
    """The call of a kernel, the kernel's name, and two arguments whose dtypes can differ, or one alone.

    `buffer` is the construction of the second one, if that is a new tensor. The callee is a kernel by these `guesses`,
    or an operation of PyTorch `with_out`, which autocast does not cast.
    """

    node: cst.Call
    kernel: str
    first: str
    second: str | None
    buffer: cst.CSTNode | None
    guesses: tuple[Guessed, ...]
    with_out: bool


def unprepared(machine: Machine, name: str, passes: Passes) -> bool:
    """Whether neither the passes of the class `name` nor its callers in the file handle dtypes."""
    return not (handles_dtypes(passes.forward) or handles_dtypes(passes.backward) or has_casting_caller(machine, name))


def leaves_backward(machine: Machine, name: str, passes: Passes) -> bool:
    """Whether nothing prepares backward for the dtype of a gradient: casts in forward and its callers name theirs."""
    casts = (node for node in walk(passes.forward) if _handles_dtypes(node) and not _is_written_cast(node))
    return not (any(casts) or handles_dtypes(passes.backward) or has_casting_caller(machine, name, arguments=False))


def _is_written_cast(node: cst.CSTNode) -> bool:
    """Whether a cast names its dtype, as `x.half()` and `x.to(torch.float16)` do."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    if node.func.attr.value in FLOATING_CASTS:
        return True
    return any(dotted(argument.value) in DTYPES for argument in node.args)


def has_casting_caller(machine: Machine, name: str, *, arguments: bool = True) -> bool:
    """Whether a caller of the class `name` in the file disables autocast around the call, or casts its `arguments`."""
    aliasing = re.compile(rf"\b(\w+)\s*=\s*{name}\.apply\b")
    chunks = [chunk for chunk in machine.program.main.chunks if chunk in machine.relevant and chunk.name != name]
    aliases = {alias for chunk in chunks for alias in aliasing.findall(chunk.text)}
    for chunk in chunks:
        if not chunk.words.isdisjoint({name, *aliases}):
            inside = [node for node in walk(chunk.module) if isinstance(node, cst.FunctionDef)]
            for code in inside if chunk.name is not None else [chunk.module]:
                calls = [node for node in walk(code) if isinstance(node, cst.Call)]
                given = [call for call in calls if dotted(call.func) in {f"{name}.apply", *aliases}]
                wrapped = any(dotted(argument.value) == f"{name}.apply" for call in calls for argument in call.args)
                if ((given or wrapped) and _casts(code)) or (
                    arguments and any(_converts(call, code) for call in given)
                ):
                    return True
    return False


def _casts(code: cst.CSTNode) -> bool:
    """Whether a decorator or wrapper casts, or a region is disabled."""
    nodes = list(walk(code))
    wrapped = any(isinstance(node, cst.Name) and CASTER.search(node.value) for node in nodes)
    return wrapped or any(isinstance(node, cst.Arg) and _switches_off(node) for node in nodes)


def _switches_off(argument: cst.Arg) -> bool:
    value = argument.value.value if isinstance(argument.value, cst.Name) else ""
    return argument.keyword is not None and (argument.keyword.value, value) == ("enabled", "False")


def _converts(call: cst.Call, code: cst.CSTNode) -> bool:
    """Whether an argument is cast in the call, or in the assignment of its name."""
    names = {argument.value.value for argument in call.args if isinstance(argument.value, cst.Name)}
    assigned = [
        node.value
        for node in walk(code)
        if isinstance(node, cst.Assign)
        for target in node.targets
        if isinstance(target.target, cst.Name) and target.target.value in names
    ]
    return any(handles_dtypes(value) for value in (*assigned, *(argument.value for argument in call.args)))


def uncast_call(machine: Machine, state: State, passes: Passes) -> UncastCall | None:
    """The first kernel that forward calls with uncast arguments, one with two of them if there is any."""
    found: list[UncastCall] = []
    singles: list[UncastCall] = []
    gradients, tensors = differentiable(passes), _tensors(passes)
    origins = Origins({name: name for name in passes.inputs}, passes.context, special=_buffer)
    local = {*passes.inputs, passes.context, *_bound(passes.forward)}
    alone = _computes_nothing(passes)
    follows = any(isinstance(node, cst.Attribute) and node.attr.value == "dtype" for node in walk(passes.forward.body))

    def seen(node: cst.CSTNode, inside: bool) -> None:
        for call in walk(node):
            if not isinstance(call, cst.Call):
                continue
            with_out = _is_given_output(call)
            guesses = () if with_out else _kernel_guesses(machine, state, call.func, local)
            unknown = guesses is None
            if guesses is None:
                if not (alone and _is_imported(machine, state, call.func, local)):
                    continue
                guesses = ()
            given = {origins.of(argument.value): argument.value for argument in call.args}
            floats = [name for name in given if name in (gradients & tensors if unknown else gradients)]
            others = [name for name in given if name in tensors - gradients]
            made = given.get(_FLOAT32)
            pair = [*floats, *others] if floats or made is not None else []
            if made is not None and len(floats) < 2:
                pair.insert(1, _FLOAT32)
            if len(pair) > 1:
                buffer = _maker(passes.forward, made) if pair[1] == _FLOAT32 and made is not None else None
                found.append(
                    UncastCall(call, _called(call.func), str(pair[0]), str(pair[1]), buffer, guesses, with_out)
                )
            elif floats and not with_out and not follows:
                singles.append(UncastCall(call, _called(call.func), str(floats[0]), None, None, guesses, with_out))

    read(origins, passes.forward.body, seen)
    return next(iter((*found, *singles)), None)


def _is_given_output(call: cst.Call) -> bool:
    """Whether a call is `torch.mm(..., out=...)` or the like."""
    named = isinstance(call.func, cst.Attribute) and call.func.attr.value in NOT_CAST_WITH_OUT
    given = any(argument.keyword is not None and argument.keyword.value == "out" for argument in call.args)
    return named and given and (dotted(call.func) or "").startswith("torch.")


def _maker(function: cst.FunctionDef, argument: cst.BaseExpression) -> cst.CSTNode:
    """The construction of a buffer passed by its name."""
    for node in walk(function.body):
        if isinstance(node, cst.Assign) and isinstance(argument, cst.Name):
            names = [target.target.value for target in node.targets if isinstance(target.target, cst.Name)]
            if argument.value in names:
                return node.value
    return argument


def _computes_nothing(passes: Passes) -> bool:
    """Whether forward only calls other functions and runs no operation of PyTorch itself."""
    calls = [node.func for node in walk(passes.forward.body) if isinstance(node, cst.Call)]
    called = {func.attr.value.removesuffix("_") for func in calls if isinstance(func, cst.Attribute)}
    operators = (node.operator for node in walk(passes.forward.body) if isinstance(node, cst.BinaryOperation))
    return called.isdisjoint(_COMPUTATIONS) and not any(isinstance(one, cst.MatrixMultiply) for one in operators)


def _kernel_guesses(
    machine: Machine, state: State, func: cst.BaseExpression, local: set[str]
) -> tuple[Guessed, ...] | None:
    """The guesses by which the callee is a kernel; None if it is not.

    An object from an import or a loader is, and a Triton function with its grid.
    """
    grid = isinstance(func, cst.Subscript)
    path = dotted(func.value if isinstance(func, cst.Subscript) else func)
    if path is None or path.partition(".")[0] in local:
        return None
    if path.startswith("torch.ops."):
        return () if not path.startswith(("torch.ops.aten.", "torch.ops.prims.")) else None
    first, *rest = path.split(".")
    value = evaluate_silently(machine, state, MODULE_FRAME, cst.Name(first), {})
    for name in rest:
        value = member(machine, state, value, name) if isinstance(value, Namespace) else value
    if grid and isinstance(value, Function):  # Triton converts what it combines but in products (`triton`)
        return None
    if isinstance(value, Function) and value.chunk.source is not machine.program.main:
        return () if _only_forwards(machine, value) else None
    if isinstance(value, Ref):
        if value.name.partition(".")[0] in _LIBRARIES:
            return None
        if grid or "." in path:
            return ()
        return KERNEL.guesses(value.name) if KERNEL.search(value.name) else None
    return () if isinstance(value, Unknown) and "." in path and not grid else None


def _is_imported(machine: Machine, state: State, func: cst.BaseExpression, local: set[str]) -> bool:
    """Whether the callee is an unseen function imported by its own name.

    It is a kernel if forward does nothing else: a composition of PyTorch's operations needs no explicit backward.
    """
    if not isinstance(func, cst.Name) or func.value in local:
        return False
    value = evaluate_silently(machine, state, MODULE_FRAME, func, {})
    return isinstance(value, Ref) and value.name.partition(".")[0] not in _LIBRARIES


def _only_forwards(machine: Machine, function: Function) -> bool:
    """Whether a function of another file casts nothing and calls an object from an import or a loader there."""
    body = node_of(function)
    if any(_converts_or_casts(node) for node in walk(body)):
        return False
    source = function.chunk.source
    for node in walk(body):
        path = dotted(node.func) if isinstance(node, cst.Call) else None
        first, *rest = (path or "").split(".")
        if not rest or first not in source.names or first in _LIBRARIES:
            continue
        target = machine.program.resolve(source, first)
        outside = isinstance(target, str) and target.partition(".")[0] not in _LIBRARIES
        if outside or (isinstance(target, Chunk) and target.name is None):
            return True
    return False


def _bound(function: cst.FunctionDef) -> set[str]:
    targets = (target.target for node in walk(function.body) if isinstance(node, cst.Assign) for target in node.targets)
    return {node.value for target in targets for node in walk(target) if isinstance(node, cst.Name)}


def handles_dtypes(function: cst.CSTNode) -> bool:
    """Whether code casts tensors, compares dtypes or mentions autocast."""
    return any(_handles_dtypes(node) for node in walk(function))


def _handles_dtypes(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Comparison):
        sides = [node.left, *(target.comparator for target in node.comparisons)]
        names = {side.attr.value for side in sides if isinstance(side, cst.Attribute)}
        return "dtype" in names and names.isdisjoint(_INTEGERS) and not any(map(_is_of_buffer, sides))
    return _converts_or_casts(node)


def _converts_or_casts(node: cst.CSTNode) -> bool:
    """Whether code casts a tensor or mentions autocast; a comparison of dtypes alone can only raise."""
    if isinstance(node, cst.Name):
        return MINDS_AUTOCAST.search(node.value) is not None
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    if node.func.attr.value in _CONVERSIONS:
        return True
    return node.func.attr.value == "to" and not all(_is_place(argument) for argument in node.args)


def _is_of_buffer(side: cst.BaseExpression) -> bool:
    """Whether this is the dtype of a parameter's gradient buffer, which is no operand's."""
    path = (dotted(side) or "").split(".")
    return len(path) > 2 and path[-1] == "dtype" and "grad" in path[-2]


def _is_place(argument: cst.Arg) -> bool:
    """Whether an argument of `.to()` is a device, or the dtype of indices."""
    given = dotted(argument.value)
    if given is not None and given.partition(".")[::2] in _INTEGER_DTYPES:
        return True
    if argument.keyword is not None:
        return argument.keyword.value != "dtype"
    return (given or "device").rpartition(".")[2] == "device"


def _buffer(node: cst.BaseExpression, origins: Origins) -> str | None:
    """A tensor constructed without a dtype, which is float32; None for other expressions."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    if node.func.attr.value in ("to", "contiguous"):
        return _buffer(node.func.value, origins)
    typed = any(argument.keyword is not None and argument.keyword.value == "dtype" for argument in node.args)
    made = (dotted(node.func.value), node.func.attr.value) in _LEGACY or (
        dotted(node.func.value) == "torch" and node.func.attr.value in _FACTORIES
    )
    return _FLOAT32 if made and not typed else None


def _tensors(passes: Passes) -> set[str]:
    """The inputs that forward saves for backward, or whose shape it reads, and that do not sound like integers."""
    found: set[str] = set()
    for node in walk(passes.forward.body):
        if isinstance(node, cst.Call) and dotted(node.func) == f"{passes.context}.save_for_backward":
            found |= {argument.value.value for argument in node.args if isinstance(argument.value, cst.Name)}
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.attr.value in _OF_TENSORS:
            found.add(node.value.value)
    return {name for name in found & set(passes.inputs) if KERNEL_WHOLE_NUMBERS.search(name) is None}


def _called(func: cst.BaseExpression) -> str:
    """The name of a kernel; one of Triton is called through its grid."""
    return dotted(func.value if isinstance(func, cst.Subscript) else func) or "the kernel"
