"""Subclasses of `torch.autograd.Function`: the effect of autocast on forward and backward, compared side by side.

Forward runs in the autocast state of its caller, backward in that of the caller of `backward()`, where it is off.
`custom_fwd` and `custom_bwd` give the second pass the state of the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from amplint.findings import Guessed
from amplint.records import dataclass
from amplint.regex import regex
from amplint.semantics.custom_functions.function_passes import (
    Mixed,
    Passes,
    cast_in_both,
    computes_again,
    differentiable,
    left_out,
    mixed,
    runs_again,
)
from amplint.semantics.custom_functions.kernels import (
    handles_dtypes,
    has_casting_caller,
    leaves_backward,
    uncast_call,
    unprepared,
)
from amplint.semantics.custom_functions.rehearsal import Refusal, refusals
from amplint.semantics.events import (
    DecoratorRefused,
    LeftOut,
    MixedBackward,
    OffInBackward,
    PassRaises,
    RunsAgain,
    UncastKernelCall,
    Unpaired,
)
from amplint.semantics.python.attributes import find_method
from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.modules import evaluate_silently
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.reading.demos import is_of_script
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.regions.callers import is_custom_function
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors.exchanges import exchange
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import MODULE_FRAME, State
from amplint.semantics.values.values import Autocast, Class, Function, Partial, Ref, Unknown, Value
from amplint.semantics.words import LIKE_WEIGHT, MINDS_AUTOCAST, TORCH_MODULES
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Chunk, Source
from amplint.source.tree import bound_by, every, target_names, walk
from amplint.torchlib.methods import FLOATING_CASTS
from amplint.torchlib.names import HALF_DTYPES, LEGACY_TENSORS

KINDS = frozenset(
    event.kind
    for event in (
        DecoratorRefused,
        Unpaired,
        RunsAgain,
        MixedBackward,
        LeftOut,
        UncastKernelCall,
        OffInBackward,
        PassRaises,
    )
)
BASES = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
_SIGNS = regex(r"autocast|GradScaler|custom_[fb]wd|\bamp\b")
_EXCHANGES = regex(r"\.data\s*=[^=]|\bout=")
"""Code that exchanges the storage or shape of a tensor."""
_PAIR = {"custom_fwd": "custom_bwd", "custom_bwd": "custom_fwd"}
_TYPED = frozenset(f"torch.amp.{module}{name}" for module in ("", "autocast_mode.") for name in _PAIR)
"""The decorators that need a device type."""
_CONVERTS = frozenset({"to", "type", "type_as", *FLOATING_CASTS})
_LOWS = (("float16", "bfloat16"), ("bfloat16", "float16"))
_HALF_NAMES = frozenset(
    {"half", *HALF_DTYPES, *(name for name, dtype in LEGACY_TENSORS.items() if dtype in HALF_DTYPES)}
)
"""Names without which code treats both half dtypes alike."""
_VIEWS = frozenset({"view_as", "view", "clone", "contiguous", "reshape"})
_PLAIN = frozenset(
    {"staticmethod", "classmethod", "once_differentiable", "disable", "allow_in_graph", "_disable_dynamo"}
)


@dataclass(frozen=True, slots=True)
class Applied:
    """A call of a custom function's `apply`: whether a region is or can be `on` around it, or is `off`, on `device`."""

    node: cst.Call
    on: bool
    off: bool
    device: str


@dataclass(frozen=True, slots=True)
class Decoration:
    """The autocast decorator of a method; `unclear` if a decorator has an unknown effect.

    `api` is its qualified name, or the bare name for one of another library or of alternative imports. `bound` means
    that `functools.partial` passes arguments.
    """

    node: cst.BaseExpression | None = None
    api: str = ""
    bound: bool = False
    unclear: bool = False

    @property
    def last(self) -> str:
        """`custom_fwd`, `custom_bwd` or empty."""
        return self.api.rpartition(".")[2]


def function_names(chunks: Iterable[Chunk]) -> frozenset[str]:
    """The names of classes that, by their text, derive from a `Function`."""
    classes = (chunk for chunk in chunks if chunk.is_class and "Function)" in chunk.text and "backward" in chunk.words)
    return frozenset(chunk.name for chunk in classes if chunk.name)


def applied(machine: Machine, state: State, node: cst.Call, cls: Class, arguments: Arguments) -> None:
    """Record `cls.apply(...)`, with the regions around it; its arguments may have their storage exchanged."""
    if _EXCHANGES.search(cls.chunk.code):
        for value in arguments.values:
            exchange(machine, state, value, Unknown(machine.fresh()))
    region, _ = innermost(machine, state)
    off = region is None and any(isinstance(one.context, Autocast) for one in state.regions)
    off = off or _is_in_plain_backward(machine, state, node)
    machine[CustomFunctions].applied.setdefault(cls.chunk, []).append(
        Applied(node, region is not None, off, _device(region))
    )


def _is_in_plain_backward(machine: Machine, state: State, node: cst.Call) -> bool:
    """Whether `node` is in the backward pass of a custom function, which runs with autocast off."""
    source = machine.program.source_of(node)
    for above in source.ancestors(node) if source is not None else ():
        if isinstance(above, cst.FunctionDef):
            plain = above.name.value == "backward" and _decoration(machine, state, above).node is None
            return plain and not _mentions_autocast(above)
    return False


def _mentions_autocast(function: cst.FunctionDef) -> bool:
    return any(isinstance(node, cst.Name) and "autocast" in node.value for node in walk(function))


def _device(region: Autocast | None) -> str:
    devices = (region.devices if region is not None else None) or {"cuda"}
    return next(iter(devices)) if len(devices) == 1 else "cuda"


def conclude(machine: Machine, state: State) -> None:
    """Emit the events of every custom function of the linted file."""
    if machine.wanted.isdisjoint(KINDS):
        return
    for chunk in machine.program.main.chunks:
        if chunk in machine.relevant and "Function" in chunk.text and "backward" in chunk.words:
            machine.chunk = chunk
            for node in walk(chunk.module):
                if isinstance(node, cst.ClassDef) and (passes := _passes(machine, state, node)) is not None:
                    _emit_function_events(machine, state, chunk, node, passes)


def _passes(machine: Machine, state: State, cls: cst.ClassDef) -> Passes | None:
    """The two passes of a custom function; None for other classes, and for one without both or with `setup_context`."""
    bases = [evaluate_silently(machine, state, MODULE_FRAME, base.value, {}) for base in cls.bases]
    if not any(isinstance(base, Ref) and base.name in BASES for base in bases):
        return None
    methods = {m.name.value: m for m in cls.body.body if isinstance(m, cst.FunctionDef)}
    forward, backward = methods.get("forward"), methods.get("backward")
    if forward is None or backward is None or "setup_context" in methods:
        return None
    return Passes(forward, backward)


def _decoration(machine: Machine, state: State, method: cst.FunctionDef) -> Decoration:
    found = Decoration()
    for decorator in method.decorators:
        node = decorator.decorator
        name = dotted(node.func if isinstance(node, cst.Call) else node) or ""
        value = evaluate_silently(machine, state, MODULE_FRAME, node.func if isinstance(node, cst.Call) else node, {})
        bound = isinstance(value, Partial)
        value = value.callee if isinstance(value, Partial) else value
        api = value.name if isinstance(value, Ref) else ""
        if api.startswith("torch.") and api.rpartition(".")[2] in _PAIR:
            found = Decoration(node, api, bound)
        elif (
            known := next((kind for kind in _PAIR if name.endswith(kind)), None) or _alias(machine, name)
        ) is not None:
            found = Decoration(node, known)
        elif name.rpartition(".")[2] not in _PLAIN and not _leaves_dtypes(value):
            return Decoration(unclear=True)
    return found


def _alias(machine: Machine, name: str) -> str | None:
    """The decorator that every binding of a variable gives, such as those of branches for versions of PyTorch."""
    source = machine.program.main
    target = machine.program.resolve(source, name) if "." not in name and name not in _PLAIN else ""
    if isinstance(target, str):
        module, _, name = target.rpartition(".")
        if name in _PAIR or not module:
            return name if name in _PAIR else None
        target = machine.program.imported(source, module, "")
    if target is not None:
        if isinstance(target, str):
            return None
        source = target if isinstance(target, Source) else target.source
    kinds = {kind for chunk in source.chunks if chunk.name is None for kind in _bindings(chunk, name)} - {name}
    return kinds.pop() if len(kinds) == 1 and kinds <= _PAIR.keys() else None


def _bindings(chunk: Chunk, name: str) -> Iterator[str]:
    """The decorator, or the name itself, that each binding of `name` mentions; empty for another value."""
    for node in walk(chunk.module) if name in chunk.words else ():
        if isinstance(node, cst.ImportAlias) and bound_by(node) == name:
            yield last_name(node.name)
        elif isinstance(node, cst.Assign) and any(name in target_names(one.target) for one in node.targets):
            mentioned = {last_name(one) for one in every(node.value, cst.Name, cst.Attribute)}
            yield next((kind for kind in (*_PAIR, name) if kind in mentioned), "")


def _leaves_dtypes(decorator: Value) -> bool:
    """Whether a decorator of the tree neither casts nor enters regions, such as one that makes tensors contiguous."""
    return isinstance(decorator, Function) and not handles_dtypes(node_of(decorator))


def _emit_function_events(machine: Machine, state: State, chunk: Chunk, cls: cst.ClassDef, passes: Passes) -> None:
    forward, backward = (_decoration(machine, state, method) for method in (passes.forward, passes.backward))
    calls = machine[CustomFunctions].applied.get(chunk, [])
    details: dict[str, Any] = {
        "name": cls.name.value,
        "announced": any(_SIGNS.search(other.code) for other in machine.program.chunks),
        "applied": next((call.node for call in calls if call.on), None),
        "device": next((call.device for call in calls if call.on), "cuda"),
    }
    machine.statement = cls
    if forward.unclear or backward.unclear:
        return
    for decoration in (forward, backward):
        _check_device_type(machine, state, decoration, details)
    paired = (forward.last, backward.last) == ("custom_fwd", "custom_bwd")
    if not paired:
        _emit_unpaired(machine, state, passes, forward, backward, details)
    if calls and all(call.off for call in calls):
        return
    modules = _torch_guesses(machine, state, cls)
    if paired and not _casts_inputs(forward):
        if _emit_raising(machine, state, Class(chunk, cls, MODULE_FRAME), passes, details, modules, decorated=True):
            return
        if not forward.bound and machine.assumes:
            _emit_uncast(machine, state, cls.name.value, passes, details, modules, decorated=True)
    if forward.node is not None or backward.node is not None:
        return
    if (again := runs_again(passes)) is not None and not (_names_autocast(cls) or _enters_autocast(machine, again[1])):
        guesses = (*again[2], *modules)
        machine.emit(
            state, RunsAgain, again[1], first=again[0], backward=passes.backward, guesses=guesses,
            assumed=not details["announced"], **details,
        )  # fmt: skip
    given = _given_attributes(machine, cls.name.value, passes)
    found = mixed(passes, given, named=not has_casting_caller(machine, cls.name.value))
    raising = _emit_raising(machine, state, Class(chunk, cls, MODULE_FRAME), passes, details, modules, instead=found)
    if found is not None:
        machine.emit(
            state, MixedBackward, found.node, op=found.op, weight=found.weight, product=found.product,
            managed=_names_autocast(cls), forward=passes.forward, backward=passes.backward, certain=raising,
            guesses=(*found.guesses, *modules), **details,
        )  # fmt: skip
    if (missing := left_out(passes)) is not None:
        machine.emit(
            state,
            LeftOut,
            missing.conversion,
            missing=missing.name,
            like=missing.like,
            argument=missing.argument,
            **details,
        )
    elif machine.assumes and found is None and again is None and not raising:
        _emit_assumed(machine, state, cls.name.value, passes, details, modules)


def _emit_raising(
    machine: Machine,
    state: State,
    cls: Class,
    passes: Passes,
    details: dict[str, Any],
    modules: tuple[Guessed, ...],
    *,
    decorated: bool = False,
    instead: Mixed | None = None,
) -> bool:
    """Emit the first operation of the passes that raises under a caller's autocast; whether there is one.

    If another event is emitted `instead`, only its weights are supposed to be float32, and nothing is emitted.
    """
    name = details["name"]
    source = machine.program.source_of(passes.forward)
    is_private = details["applied"] is None and source is not None and is_of_script(source, passes.forward)
    if is_private or has_casting_caller(machine, name):
        return False
    given = _given_attributes(machine, name, passes)
    floating = [one for one in passes.inputs if one in differentiable(passes)]
    weights = tuple(one for one in floating if one in given or LIKE_WEIGHT.search(one))
    converted = _converted(passes)
    floating = [one for one in floating if one in weights or one not in converted]
    named = [one for one in weights if one not in given]
    apart = any(not chunk.words.isdisjoint(_HALF_NAMES) for chunk in machine.program.chunks)
    for wide in (False, True) if machine.assumes and instead is None else (False,):
        wides = floating if wide else weights
        for low, other in _LOWS if apart else _LOWS[:1]:
            dtypes = {one: "float32" if one in wides else low for one in floating}
            found = _refused(machine, state, cls, passes, dtypes, low, details["device"], decorated=decorated)
            if found is None:
                continue
            plain = dict.fromkeys(floating, "float32")
            if _refused(machine, state, cls, passes, plain, None, details["device"], decorated=decorated) is not None:
                return False  # it raises without autocast
            if instead is not None:
                return not found.unsure
            dtypes = {one: "float32" if one in wides else other for one in floating}
            same: Refusal | None = found
            if apart:
                same = _refused(machine, state, cls, passes, dtypes, other, details["device"], decorated=decorated)
            cured = _refused(machine, state, cls, passes, dtypes, other, details["device"], decorated=True) is None
            machine.emit(
                state, PassRaises, found.site, op=found.op, reason=found.reason, in_backward=found.in_backward,
                weights=weights, wide=wide, unsure=found.unsure, low=low if same is None else None,
                curable=cured and not decorated, decorated=decorated, forward=passes.forward, backward=passes.backward,
                guesses=(*(guess for one in named for guess in LIKE_WEIGHT.guesses(one)), *modules), **details,
            )  # fmt: skip
            return True
    return False


def _converted(passes: Passes) -> set[str]:
    """The names in backward of what it converts, whose dtype is then not that of the gradient, and so open."""
    methods = (one.func for one in every(passes.backward, cst.Call) if isinstance(one.func, cst.Attribute))
    owners = (one.value for one in methods if one.attr.value in _CONVERTS)
    return {name.value for owner in owners for name in every(owner, cst.Name)}


def _refused(
    machine: Machine,
    state: State,
    cls: Class,
    passes: Passes,
    dtypes: dict[str, str],
    low: str | None,
    device: str,
    *,
    decorated: bool,
) -> Refusal | None:
    """The first operation of the passes that raises, one that is sure to run if there is any.

    Inputs that are None by default are given, or else all left out.
    """
    optional = dict.fromkeys(_optional(passes.forward))
    for inputs in (dtypes, {**dtypes, **optional}) if optional else (dtypes,):
        found = refusals(machine, state, cls, passes, inputs, low, device, decorated=decorated)
        if found:
            return min(found, key=lambda one: one.unsure)
    return None


def _optional(forward: cst.FunctionDef) -> list[str]:
    """The parameters that are None by default."""
    parameters = (one for one in forward.params.params if isinstance(one.default, cst.Name))
    return [one.name.value for one in parameters if isinstance(one.default, cst.Name) and one.default.value == "None"]


def _check_device_type(machine: Machine, state: State, decoration: Decoration, details: dict[str, Any]) -> None:
    """Emit `DecoratorRefused` for a decorator that is given no device type."""
    if decoration.node is None or decoration.bound or decoration.api not in _TYPED:
        return
    given = decoration.node.args if isinstance(decoration.node, cst.Call) else ()
    names = {one.keyword.value for one in given if one.keyword is not None}
    if "device_type" in names or any(one.star for one in given):
        return
    by_position = next((one for one in given if one.keyword is None), None)
    machine.emit(state, DecoratorRefused, decoration.node, api=decoration.api, by_position=by_position, **details)


def _torch_guesses(machine: Machine, state: State, cls: cst.ClassDef) -> tuple[Guessed, ...]:
    """The guesses by which a class calls functions of PyTorch, where imports do not show it."""
    owners = [node.func.value for node in every(cls, cst.Call) if isinstance(node.func, cst.Attribute)]
    names = dict.fromkeys(name for owner in owners if TORCH_MODULES.search(name := dotted(owner) or ""))
    known = {
        name: evaluate_silently(machine, state, MODULE_FRAME, cst.Name(name.partition(".")[0]), {}) for name in names
    }
    unknown = (n for n, v in known.items() if not (isinstance(v, Ref) and v.name.partition(".")[0] == "torch"))
    return tuple(guessed for name in unknown for guessed in TORCH_MODULES.guesses(name))


def _emit_assumed(
    machine: Machine,
    state: State,
    name: str,
    passes: Passes,
    details: dict[str, Any],
    modules: tuple[Guessed, ...],
) -> None:
    """Emit the first effect of autocast on a function that does not handle dtypes."""
    prepared = not unprepared(machine, name, passes)
    if not prepared and _emit_uncast(machine, state, name, passes, details, modules):
        return
    if not prepared and (same := computes_again(passes)) is not None:
        op, first, node = same
        machine.emit(state, RunsAgain, node, first=first, backward=passes.backward, op=op, assumed=True, **details)
        return
    both = cast_in_both(passes, _helpers(machine, passes)) if leaves_backward(machine, name, passes) else None
    if both is not None:
        op, first, node = both
        machine.emit(
            state, OffInBackward, node, op=op, first=first, forward=passes.forward, backward=passes.backward,
            assumed=True, **details,
        )  # fmt: skip


def _emit_uncast(
    machine: Machine,
    state: State,
    name: str,
    passes: Passes,
    details: dict[str, Any],
    modules: tuple[Guessed, ...],
    *,
    decorated: bool = False,
) -> bool:
    """Emit what forward hands to a kernel as autocast left it, two tensors if `custom_fwd` has `decorated` it."""
    over = uncast_call(machine, state, passes) if unprepared(machine, name, passes) else None
    if over is None or (decorated and over.second is None):
        return False
    machine.emit(
        state, UncastKernelCall, over.node, kernel=over.kernel, first=over.first, second=over.second,
        forward=passes.forward, buffer=over.buffer, with_out=over.with_out, decorated=decorated, assumed=True,
        guesses=(*over.guesses, *modules), **details,
    )  # fmt: skip
    return True


def _helpers(machine: Machine, passes: Passes) -> dict[str, cst.FunctionDef]:
    """The functions of the file called by the passes, by name, and methods with unique names; without those that handle
    dtypes.
    """
    calls = [node for method in (passes.forward, passes.backward) for node in every(method, cst.Call)]
    names = {call.func.value for call in calls if isinstance(call.func, cst.Name)}
    chunks = [chunk for chunk in machine.program.main.chunks if chunk.name in names and not chunk.is_class]
    nodes = [node for chunk in chunks for node in chunk.module.body if isinstance(node, cst.FunctionDef)]
    asked = {call.func.attr.value for call in calls if isinstance(call.func, cst.Attribute)} - {"forward", "backward"}
    classes = [chunk for chunk in machine.program.main.chunks if chunk.is_class and not chunk.words.isdisjoint(asked)]
    methods = [node for chunk in classes for node in every(chunk.module, cst.FunctionDef) if node.name.value in asked]
    counts = Counter(node.name.value for node in methods)
    nodes += [node for node in methods if counts[node.name.value] == 1]
    return {node.name.value: node for node in nodes if not handles_dtypes(node)}


def _emit_unpaired(
    machine: Machine,
    state: State,
    passes: Passes,
    forward: Decoration,
    backward: Decoration,
    details: dict[str, Any],
) -> None:
    for own, other, method, kind in (
        (forward, backward, passes.backward, "custom_fwd"),
        (backward, forward, passes.forward, "custom_bwd"),
    ):
        if own.last == kind and own.node is not None:
            machine.emit(
                state, Unpaired, own.node, api=own.api, decorator=own.node, method=method, instead=other.node,
                casts=_casts_inputs(own), bound=own.bound, **details,
            )  # fmt: skip
            return


def _casts_inputs(decoration: Decoration) -> bool:
    """Whether a decorator casts the inputs of forward."""
    given = decoration.node.args if isinstance(decoration.node, cst.Call) else ()
    return any(argument.keyword is not None and argument.keyword.value == "cast_inputs" for argument in given)


def _names_autocast(cls: cst.ClassDef) -> bool:
    return any(isinstance(node, cst.Name) and MINDS_AUTOCAST.search(node.value) for node in walk(cls))


def _enters_autocast(machine: Machine, call: cst.Call) -> bool:
    """Whether the callee may enter a region: a method of this name is defined in a chunk that mentions autocast."""
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else None
    chunks = machine.program.chunks
    return name is not None and any(f"def {name}(" in chunk.text and "autocast" in chunk.text for chunk in chunks)


def _given_attributes(machine: Machine, name: str, passes: Passes) -> set[str]:
    """The inputs of forward for which some call of `name.apply` in the file passes an attribute."""
    found: set[str] = set()
    for chunk in machine.program.main.chunks:
        if chunk not in machine.relevant or name not in chunk.words:
            continue
        for node in walk(chunk.module):
            if isinstance(node, cst.Call) and dotted(node.func) == f"{name}.apply":
                pairs = zip(passes.inputs, node.args, strict=False)
                found |= {key for key, argument in pairs if (dotted(argument.value) or "").startswith("self.")}
    return found


@cached_per_file
def _returned_input(forward: cst.FunctionDef) -> int | None:
    """The position of the input that forward returns, itself or as a view or copy; None where it computes something.

    Such functions only change gradients, as a gradient reversal does.
    """
    if any(last_name(decorator.decorator) != "staticmethod" for decorator in forward.decorators):
        return None
    names = [parameter.name.value for parameter in forward.params.params]
    found = {_source_name(node.value) for node in every(forward, cst.Return)}
    bound = {
        name for node in every(forward, cst.Assign) for target in node.targets for name in target_names(target.target)
    }
    (name,) = found if len(found) == 1 else (None,)
    return names.index(name) - 1 if name in names[1:] and name not in bound else None


def _source_name(node: cst.BaseExpression | None) -> str | None:
    """`x` for `x`, `x.clone()` and `x.view_as(x)`."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _VIEWS:
        node = node.func.value
    return node.value if isinstance(node, cst.Name) else None


class CustomFunctions(Tracker):
    """Tracks custom autograd functions and their applications."""

    triggers = frozenset({"backward", "custom_fwd", "custom_bwd"})
    methods = frozenset({"apply"})

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.applied: dict[Chunk, list[Applied]] = {}

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """The names of the functions."""
        return Words() if self.machine.wanted.isdisjoint(KINDS) else Words(function_names(chunks))

    def method(self, state: State, call: Call) -> Value | None:
        """Handle `Function.apply(...)`."""
        if call.name != "apply" or not isinstance(call.owner, Class):
            return None
        applied(self.machine, state, call.node, call.owner, call.arguments)
        methods = [find_method(self.machine, state, call.owner, name) for name in ("forward", "setup_context")]
        node = methods[0].node if methods[0] is not None and methods[1] is None else None
        index = _returned_input(node) if isinstance(node, cst.FunctionDef) else None
        return call.arguments.value("", index) if index is not None else None

    def shares_object(self, cls: Class) -> bool:
        """Whether a class is a custom function, whose methods share a context."""
        definition = node_of(cls)
        return isinstance(definition, cst.ClassDef) and is_custom_function(definition)

    def file_ends(self, starts: Sequence[State]) -> None:
        """Emit the events of each function."""
        conclude(self.machine, starts[0])
