"""Autocast and gradient mode contexts: their construction, entry and exit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from amplint.findings import Guessed
from amplint.semantics.events import AutocastCreated, AutocastEntered, AutocastUnused, NoContext, RegionMissed
from amplint.semantics.python import attributes, functions
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.plain_calls import unseen_result
from amplint.semantics.python.tracker import Call, Handler, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.device_conditions import float32_elsewhere
from amplint.semantics.reading.parts import kept_contexts
from amplint.semantics.reading.scopes import last_name
from amplint.semantics.regions import device_types
from amplint.semantics.regions.callers import may_be_inside
from amplint.semantics.regions.innermost import innermost, innermost_of
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import Region, State
from amplint.semantics.values.values import (
    FALSE,
    NONE,
    TRUE,
    Autocast,
    Const,
    Device,
    Entered,
    Function,
    GradMode,
    Instance,
    Neutral,
    NewThread,
    OneOf,
    Opaque,
    Ref,
    Unknown,
    Value,
)
from amplint.semantics.words import DISABLES_GRADIENTS, HARMLESS_CONTEXT
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.torchlib.names import (
    AMP_MODULES,
    AUTOCAST_PARAMETERS,
    AUTOCASTS,
    DEFAULT_AUTOCAST_DTYPE,
    DTYPES,
    EXIT_STACKS,
    GRAD_MODES,
    NEUTRAL_CONTEXTS,
    NO_CONTEXTS,
)

_SETTINGS = ("with torch.set_default_", "with torch.set_autocast_", "with torch.set_float32_", "with set_default_")
_CACHE = -1
"""The heap key for the dtypes of parameters in autocast's cache."""


def make_autocast(machine: Machine, state: State, node: cst.Call, api: str, arguments: Arguments) -> Autocast:
    """Return the context that a call of an autocast class constructs."""
    device = AUTOCASTS[api]
    order = AUTOCAST_PARAMETERS[device]
    bound = {}
    for position, name in enumerate(order):
        argument = arguments.get(name, position)
        if argument is not None:
            bound[name] = (argument.node, argument.value)
    place, given = bound.get("device_type", (None, None))
    taken = device_types.taken(machine, given, place.value) if place is not None and given is not None else None
    if place is not None and taken is not None and taken.text is None:
        bound["device_type"] = (place, Device(None))
    devices = frozenset({device}) if device else device_types.types(given)
    enabled = bound["enabled"][1] if "enabled" in bound else TRUE
    whole = not any(argument.star for argument in arguments.given)
    if not whole and "enabled" not in bound:
        enabled = machine.unknown("enabled", id(node))
    dtype = bound["dtype"][1] if "dtype" in bound else None
    defaulted = whole and dtype in (None, NONE)
    dtypes = _dtypes(dtype, devices)
    if defaulted and device is None and devices is not None:
        dtypes, usual = _current(machine, state, devices, dtypes), dtypes
        defaulted = dtypes == usual
    context = Autocast(devices, dtypes, enabled, node, defaulted)
    positional = tuple(name for name in order[: sum(not a.keyword and not a.star for a in arguments.given)])
    machine[Regions].made.add(node)
    text = taken.text if taken is not None else None
    machine.emit(
        state, AutocastCreated, node, api=api, arguments=bound, positional=positional, context=context,
        certain=whole, guesses=taken.guesses if taken is not None else (), by_use=taken is not None and taken.by_use,
        indexed=text, torch=machine.program.wanted_torch() if text is not None else None,
        float32_elsewhere=_float32_elsewhere(machine, bound, devices, enabled),
        needs_type=device is None or device_types.is_also_newer(machine, node),
    )  # fmt: skip
    return context


def _float32_elsewhere(
    machine: Machine, bound: Mapping[str, tuple[cst.Arg, Value]], devices: frozenset[str] | None, enabled: Value
) -> cst.BaseExpression | None:
    """The expression that makes the dtype of an enabled region float32 on devices other than CUDA, or None."""
    if devices == frozenset({"cuda"}) or enabled != TRUE or "dtype" not in bound:
        return None
    argument, value = bound["dtype"]
    wide = isinstance(value, Ref) and DTYPES.get(value.name) == "float32"
    if wide and isinstance(argument.value, cst.Attribute):
        return argument.value
    source = machine.program.source_of(argument) if wide or isinstance(value, OneOf) else None
    return float32_elsewhere(source, argument.value) if source is not None else None


def _dtypes(value: Value | None, devices: frozenset[str] | None) -> frozenset[str] | None:
    if isinstance(value, Ref) and value.name in DTYPES:
        return frozenset({DTYPES[value.name]})
    if isinstance(value, OneOf) and all(option in DTYPES for option in value.options):
        return frozenset(DTYPES[option] for option in value.options)
    if (value is None or value == Const(None)) and devices is not None:
        return frozenset(DEFAULT_AUTOCAST_DTYPE.get(device, "float16") for device in devices)
    return None


def _current(
    machine: Machine, state: State, devices: frozenset[str], default: frozenset[str] | None
) -> frozenset[str] | None:
    """The dtype of a region constructed without one: that of the innermost region around, on or off, else `default`."""
    for region in reversed(state.regions):
        context = region.context
        if isinstance(context, NewThread):
            return default
        if isinstance(context, Autocast) and (context.devices is None or context.devices & devices):
            return context.dtypes if context.devices == devices else None
    return None if machine.calls and may_be_inside(machine) else default


def enter(machine: Machine, state: State, value: Value, by: cst.CSTNode) -> None:
    """Enter `value` as a context of the path; `by` is the `with` statement, decorator or call that does so."""
    if isinstance(value, (Autocast, GradMode)):
        if isinstance(value, Autocast):
            machine.emit(state, AutocastEntered, value.node, context=value)
        carry(machine, state, value, by)
        if isinstance(value, Autocast) and value.enabled == FALSE:
            machine[Regions].entered_at.setdefault(by, machine.fresh())
        state.regions = (*state.regions, Region(value, by))
    elif isinstance(value, Entered):
        for context, _ in value.contexts:
            if isinstance(context, Autocast):
                machine.emit(state, AutocastEntered, context.node, context=context)
        state.regions = (*state.regions, *(Region(context, node) for context, node in value.contexts))
    elif isinstance(value, Ref):
        if value.name in AUTOCASTS:
            machine.emit(state, AutocastUnused, by, called=False, api=value.name)
        elif value.name in GRAD_MODES:
            state.regions = (*state.regions, Region(grad_mode(value.name, Arguments(())), by))


def _exit(machine: Machine, state: State, value: Value) -> None:
    """Exit the innermost region that `value` entered."""
    places = [place for place, region in enumerate(state.regions) if region.context == value]
    if places:
        functions.leave(machine, state, (*state.regions[: places[-1]], *state.regions[places[-1] + 1 :]))


def carry(machine: Machine, state: State, value: Value, by: cst.CSTNode) -> None:
    """Record a gradient mode set to that of a caller, from `torch.is_grad_enabled()`."""
    flag = value.enabled if isinstance(value, GradMode) else None
    if isinstance(flag, Unknown) and machine.symbols.key(flag.symbol)[:2] == ("call", "torch.is_grad_enabled"):
        machine[Regions].carried.append(by)


def report_missed_region(machine: Machine, state: State, node: cst.CSTNode, guesses: tuple[Guessed, ...] = ()) -> None:
    """Report an operation that autocast would cast, in a thread started within a region and without one of its own.

    `guesses` are those by which it is such an operation.
    """
    regions = state.regions
    border = next((i for i in range(len(regions) - 1, -1, -1) if isinstance(regions[i].context, NewThread)), None)
    if border is None or any(isinstance(region.context, (Autocast, Opaque)) for region in regions[border + 1 :]):
        return
    lost, entered_by = innermost_of(machine, state, regions[:border])
    start = regions[border]
    assert isinstance(start.context, NewThread)
    if entered_by is not None:
        machine.emit(
            state, RegionMissed, start.entered_by, work=node, lost=lost, lost_with=entered_by, thread=start.context,
            guesses=guesses,
        )  # fmt: skip


def leave(state: State, regions: tuple[Region, ...]) -> None:
    """Exit to `regions`; the exit of the outermost region, on or off, clears autocast's cache."""
    if any(isinstance(region.context, Autocast) for region in regions):
        for dtypes in _dtypes_on(state.regions):
            state.set_attribute(_CACHE, dtypes, TRUE)
    else:
        for dtypes in state.heap.get(_CACHE, ()):
            state.set_attribute(_CACHE, dtypes, FALSE)


def remembers_other_dtypes(state: State) -> bool:
    """Whether autocast's cache can hold a parameter in another dtype than the region's.

    Until the outermost region ends, autocast reuses cached copies of parameters, whatever the dtype of the present
    region.
    """
    left = {dtypes for dtypes, emptied in state.heap.get(_CACHE, {}).items() if emptied != FALSE}
    return len(left | _dtypes_on(state.regions)) > 1


def _dtypes_on(regions: tuple[Region, ...]) -> set[str]:
    """The dtypes of the regions that can be on, each a string of its alternatives."""
    contexts = [region.context for region in regions if isinstance(region.context, Autocast)]
    return {" or ".join(sorted(context.dtypes or ())) for context in contexts if context.enabled != FALSE}


def context_name(node: cst.BaseExpression) -> str:
    """The last name of a context expression: `ema_scope` for `self.model.ema_scope()`."""
    while isinstance(node, (cst.Call, cst.Subscript)):
        node = node.func if isinstance(node, cst.Call) else node.value
    return last_name(node).lstrip("_")


def grad_mode(name: str, arguments: Arguments) -> GradMode:
    """Return the value of `torch.no_grad()` and the like."""
    if name.endswith("inference_mode") and arguments.given:
        given = arguments.values[0]
        return GradMode(FALSE if given == TRUE else TRUE if given == FALSE else given, inference=True)
    return GradMode(Const(GRAD_MODES[name]), name.endswith("inference_mode"))


class Regions(Tracker):
    """Tracks autocast regions, gradient modes and what hides them.

    `carried` are nodes that set the gradient mode of a caller, `entered_at` is the symbol counter when a disabled
    region was entered, `made` are the calls that constructed autocast contexts.
    """

    triggers = frozenset({"autocast", "no_grad", "inference_mode", "nullcontext", "enter_context", "contextmanager"})
    methods = frozenset({"enter_context", "close", "__enter__", "__exit__"})

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.carried: list[cst.CSTNode] = []
        self.entered_at: dict[cst.CSTNode, int] = {}
        self.made: set[cst.CSTNode] = set()

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Names that hold contexts, and settings entered as if they were contexts."""
        ours = (chunk for chunk in chunks if chunk.source is self.machine.program.main)
        names = frozenset().union(*map(kept_contexts, ours))
        if any(sign in chunk.text for chunk in chunks for sign in _SETTINGS):
            names |= frozenset(name.rpartition(".")[2] for name in NO_CONTEXTS)
        return Words(names, frozenset({"amp"} if any("amp(" in chunk.text for chunk in chunks) else ()))

    def describe(self, state: State) -> Mapping[str, object]:
        """The innermost autocast region, and the node that entered it."""
        region, entered_by = innermost(self.machine, state)
        return {"region": region, "region_with": entered_by}

    def library(self) -> Mapping[str, Handler]:
        """Functions that construct regions and modes, or read their state."""
        return {
            "torch.is_autocast_enabled": self._is_enabled,
            **dict.fromkeys(NEUTRAL_CONTEXTS | EXIT_STACKS, self._neutral),
            "torch.set_grad_enabled": self._set_grad_enabled,
            **dict.fromkeys(GRAD_MODES, self._grad_mode),
            **dict.fromkeys(AUTOCASTS, self._autocast),
        }

    def _autocast(self, state: State, call: Call) -> Value | None:
        assert isinstance(call.callee, Ref)
        return make_autocast(self.machine, state, call.node, call.callee.name, call.arguments)

    def _grad_mode(self, state: State, call: Call) -> Value | None:
        assert isinstance(call.callee, Ref)
        return grad_mode(call.callee.name, call.arguments)

    def _set_grad_enabled(self, state: State, call: Call) -> Value | None:
        return GradMode(call.arguments.values[0] if call.arguments.given else TRUE)

    def _neutral(self, state: State, call: Call) -> Value | None:
        assert isinstance(call.callee, Ref)
        return Neutral(stack=call.callee.name in EXIT_STACKS)

    def _is_enabled(self, state: State, call: Call) -> Value | None:
        assert isinstance(call.callee, Ref)
        return unseen_result(
            self.machine, state, call.callee.name, call.arguments, callee=tuple(_symbols(self.machine, state))
        )

    def method(self, state: State, call: Call) -> Value | None:
        """Handle `stack.enter_context(...)`, `stack.close()`, `context.__enter__()` and `context.__exit__()`."""
        assert call.owner is not None
        if call.name == "enter_context" and call.arguments.given:
            enter(self.machine, state, call.arguments.values[0], call.node)
            return call.arguments.values[0]
        if call.name == "close":
            if isinstance(call.owner, Neutral) and call.owner.stack:
                kept = (region for region in state.regions if not isinstance(region.entered_by, cst.Call))
                functions.leave(self.machine, state, tuple(kept))
            return None
        if call.name == "__enter__":
            enter(self.machine, state, call.owner, call.node)
            return call.owner
        if call.name == "__exit__":
            _exit(self.machine, state, call.owner)
        return None

    def unseen_begins(self, state: State, call: Call) -> None:
        """Report a context called without a function to decorate, or a module called for the class in it."""
        if isinstance(call.callee, Ref) and call.callee.name in AMP_MODULES:
            self.machine.emit(state, NoContext, call.node, api=call.callee.name, called=True, module=True)
        elif isinstance(call.callee, (Autocast, GradMode)) and not call.arguments.given:
            api = "autocast" if isinstance(call.callee, Autocast) else "gradient mode"
            self.machine.emit(state, NoContext, call.node, api=api, called=True)

    def context_entered(self, state: State, value: Value, by: cst.CSTNode, item: cst.BaseExpression | None) -> None:
        """Handle the begin of a region, perhaps by an unseen context."""
        if item is not None and isinstance(value, Unknown):
            kind, *names = self.machine.symbols.key(value.symbol)
            if kind == "call" and names[0] in NO_CONTEXTS:
                self.machine.emit(state, NoContext, item, api=names[0], called=False)
        for lost in _left_of_and(item):
            if lost in self.made:
                self.machine.emit(state, AutocastUnused, lost, called=True)
        unused = item is not None and isinstance(value, Ref) and value.name in AUTOCASTS
        enter(self.machine, state, value, item if unused and item is not None else by)
        decorator = by.decorator if isinstance(by, cst.Decorator) and isinstance(value, (Function, Unknown)) else None
        if decorator is not None and DISABLES_GRADIENTS.search(context_name(decorator)):
            mode = GradMode(self.machine.unknown("disables gradients", id(by)))
            state.regions = (*state.regions, Region(mode, by))
        if (
            item is not None
            and (
                isinstance(value, Unknown)
                or (isinstance(value, Instance) and not _is_visible(self.machine, state, value))
            )
            and not HARMLESS_CONTEXT.search(name := context_name(item))
        ):
            state.regions = (*state.regions, Region(Opaque(name), by))

    def contexts_exited(self, state: State, regions: tuple[Region, ...]) -> None:
        """Handle the end of regions."""
        leave(state, regions)

    def result_discarded(self, state: State, node: cst.BaseExpression, value: Value) -> None:
        """Report a region that is constructed and not entered."""
        carry(self.machine, state, value, node)
        if isinstance(value, Autocast) and value.node is node:
            self.machine.emit(state, AutocastUnused, node, called=True)


def _is_visible(machine: Machine, state: State, value: Instance) -> bool:
    """Whether the context method of an object is defined in visible code."""
    return attributes.find_method(machine, state, value.cls, "__enter__") is not None


def _left_of_and(item: cst.BaseExpression | None) -> Iterator[cst.BaseExpression]:
    """The contexts in `with a and b` that are not entered: a context is true, so only the last one is."""
    while isinstance(item, cst.BooleanOperation) and isinstance(item.operator, cst.And):
        yield item.left
        item = item.left


def _symbols(machine: Machine, state: State) -> Iterator[int]:
    """A symbol for each autocast region around."""
    for region in state.regions:
        if isinstance(region.context, Autocast):
            enabled = symbol_of(machine, region.context.enabled)
            yield machine.symbols.intern("region", region.entered_by, parts=(enabled,))
