"""Calls: who is called, and what that does."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from amplint.semantics import (
    apex,
    attributes,
    callees,
    checkpoints,
    clashes,
    contexts,
    copies,
    custom_functions,
    frameworks,
    half_models,
    half_outputs,
    layers,
    methods,
    models,
    numerics,
    outside,
    parameters,
    penalties,
    protocol,
    ran,
    readings,
    segments,
    threads,
    trainers,
    weights,
)
from amplint.semantics.arguments import Argument, Arguments, evaluated
from amplint.semantics.events import ScalerCreated
from amplint.semantics.functions import call_function
from amplint.semantics.gradients import CLEARED
from amplint.semantics.machine import Machine, PathEnds
from amplint.semantics.plain_calls import builtin, same_again
from amplint.semantics.reads import never_read
from amplint.semantics.state import State
from amplint.semantics.truth import symbol_of
from amplint.semantics.values import (
    TRUE,
    Class,
    Const,
    Function,
    GradMode,
    Instance,
    Method,
    Module,
    Neutral,
    Optimizer,
    Partial,
    Ref,
    Scaler,
    Tensor,
    Unknown,
    Value,
)
from amplint.semantics.words import CHANGES_PARAMETERS, RUNS_BACKWARD
from amplint.torchlib.frameworks import MANAGERS
from amplint.torchlib.methods import IDLE_METHODS, INHERITED_HARMLESS
from amplint.torchlib.names import (
    AUTOCASTS,
    CLIPPERS,
    EXIT_STACKS,
    GRAD_MODES,
    GRAD_SCALERS,
    NEUTRAL_CONTEXTS,
    SHARDING_WRAPPERS,
    derives_optimizer,
    is_optimizer,
)

ENDS = frozenset({"builtins.exit", "builtins.quit", "sys.exit", "os._exit", "os.abort"})
WRAPPERS = frozenset({"DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "compile", "script"})


def call(machine: Machine, state: State, node: cst.Call) -> Value:
    """The value of a call."""
    result = _called(machine, state, node)
    if state.regions and isinstance(result, (Tensor, Unknown)) and numerics.can_be_half(machine, state):
        machine.in_float16.add(result.symbol)
    return result


def _called(machine: Machine, state: State, node: cst.Call) -> Value:
    owner: Value | None = None
    name = ""
    if isinstance(node.func, cst.Attribute):
        name = node.func.attr.value
        if _is_super(node.func.value):
            return _super_call(machine, state, node, name)
        owner = machine.evaluate(state, node.func.value)
        callee = attributes.get(machine, state, node.func, owner, name)
    else:
        callee = machine.evaluate(state, node.func)
    arguments = evaluated(machine, state, node)
    if isinstance(callee, Method) and owner is None:
        owner, name = callee.owner, callee.name
    model = _follow_model(machine, state, node, callee, owner, name, arguments)
    if models.is_unwrapped(machine, callee) and not ran.without_gradients(state):
        machine.rhythm.bypassed = True
    if isinstance(callee, Partial):
        arguments = Arguments((*(Argument(*given) for given in callee.given), *arguments.given))
        callee = callee.callee
    readings.handed(machine, state, node, arguments)
    if isinstance(callee, Function):
        return _enter(machine, state, node, callee, [], arguments)
    if isinstance(callee, Method) and callee.function is not None:
        if callee.name == "zero_grad" and isinstance(callee.owner, Instance) and callee.owner.symbol in state.gradients:
            state.gradients[callee.owner.symbol] = CLEARED  # an optimizer that wraps another one
        result = _enter(machine, state, node, callee.function, _receiver(callee), arguments)
        if isinstance(result, Unknown) and _holds_scaler(state, callee.owner):
            machine.handed_out.add(result.symbol)
        return result
    if isinstance(callee, Class):
        return _instantiate(machine, state, node, callee, arguments)
    if isinstance(callee, Instance):
        result = _call_instance(machine, state, node, callee, arguments)
        outside.produced(machine, state, node, result, known_model=model is not None)
        if model is not None:
            half_outputs.ran(machine, state, model, result)
        return result
    half_outputs.handed(machine, state, node, callee, arguments)
    callees.leaves(machine, state, node, callee, owner)
    result = _out_of_sight(machine, state, node, callee, owner, name, arguments)
    if state.regions and node not in machine.idle:
        ran.note(machine, state, result)
        outside.worked(machine, node, callee, result)
    if model is not None:
        outside.produced(machine, state, node, result)
        half_outputs.ran(machine, state, model, result)
    return result


def _out_of_sight(
    machine: Machine, state: State, node: cst.Call, callee: Value, owner: Value | None, name: str, arguments: Arguments
) -> Value:
    if isinstance(callee, Ref):
        return _library(machine, state, node, callee.name, arguments)
    if isinstance(callee, Module):
        return _call_module(machine, state, node, callee, arguments)
    if isinstance(owner, Instance):
        found = frameworks.call_lightning(machine, state, node, owner, name, arguments)
        if found is not None:
            return found
    if owner is not None:
        if name == "apply" and isinstance(owner, Class):
            custom_functions.applied(machine, state, node, owner, arguments)
        if name == "start" and isinstance(owner, Instance):
            threads.start_instance(machine, state, node, owner)
        threads.submit(machine, state, node, owner, name, arguments)
        found = methods.call_method(machine, state, node, owner, name, arguments)
        if found is not None:
            return found
    return _unseen(machine, state, node, callee, owner, name, arguments)


def _follow_model(
    machine: Machine, state: State, node: cst.Call, callee: Value, owner: Value | None, name: str, arguments: Arguments
) -> Value | None:
    """Note what the call tells of a model, and its forward pass; the model that runs, if one does."""
    if owner is not None:
        models.note_use(machine, state, owner, name, arguments)
    model = models.called(machine, state, node.func, callee) if machine.follows_models else None
    if model is not None:
        models.forward(machine, state, node, *model, arguments.values)
        half_models.fed(machine, state, node, *model, arguments)
    return model[0] if model is not None else None


def _receiver(method: Method) -> list[Value]:
    function = method.function.node if method.function else None
    decorators = function.decorators if isinstance(function, cst.FunctionDef) else ()
    names = {d.decorator.value for d in decorators if isinstance(d.decorator, cst.Name)}
    if "staticmethod" in names or (isinstance(method.owner, Class) and "classmethod" not in names):
        return []
    return [method.owner]


def _enter(
    machine: Machine, state: State, node: cst.Call, function: Function, first: list[Value], arguments: Arguments
) -> Value:
    positional = list(first)
    keywords: dict[str, Value] = {}
    for argument in arguments.given:
        if argument.star == "*":
            break
        if argument.star:
            continue
        if argument.keyword is None:
            positional.append(argument.value)
        else:
            keywords[argument.keyword] = argument.value
    return call_function(machine, state, function, positional, keywords, node)


def _is_super(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "super"


def _super_call(machine: Machine, state: State, node: cst.Call, name: str) -> Value:
    arguments = evaluated(machine, state, node)
    me = state.frames[state.frame].get("self")
    if isinstance(me, Instance):
        above = attributes.lineage(machine, state, me.cls)[1:]
        for cls in above:
            function = attributes.find_method(machine, state, cls, name)
            if function is not None and function.node not in machine.calls:
                return _enter(machine, state, node, function, [me], arguments)
        if name not in INHERITED_HARMLESS and name != "__init__":
            protocol.forget(machine, state, [me])
    checkpoints.out_of_sight(machine, state, node, arguments, None)
    protocol.forget(machine, state, arguments.values)
    return Unknown(machine.fresh())


def _holds_scaler(state: State, owner: Value) -> bool:
    held = state.heap.get(owner.symbol, {}).values() if isinstance(owner, Instance) else ()
    return any(isinstance(value, Scaler) for value in held)


def _instantiate(machine: Machine, state: State, node: cst.Call, cls: Class, arguments: Arguments) -> Value:
    for candidate in attributes.lineage(machine, state, cls):
        for base in attributes.bases(machine, state, candidate):
            if isinstance(base, Ref) and (base.name in GRAD_SCALERS or derives_optimizer(base.name)):
                if base.name in GRAD_SCALERS and attributes.find_method(machine, state, cls, "step") is not None:
                    return Unknown(machine.identity(state, node))
                return _subclassed(machine, state, node, base.name, arguments)
    if len(arguments.given) == 1 and attributes.is_enumeration(machine, state, cls):
        return arguments.values[0]
    made = Instance(machine.identity(state, node), cls)
    initialise(machine, state, made, arguments, node)
    return made


def _subclassed(machine: Machine, state: State, node: cst.Call, base: str, arguments: Arguments) -> Value:
    if base in GRAD_SCALERS:
        return Scaler(machine.identity(state, node), machine.unknown("enabled", id(node)), node, machine.loops, base)
    owner = _parameters_of(machine, arguments.value("params", 0))
    optimizer = Optimizer(machine.identity(state, node), owner=owner, loops=machine.loops)
    machine.owners[optimizer.symbol] = owner
    return optimizer


def initialise(machine: Machine, state: State, made: Instance, arguments: Arguments, node: cst.Call | None) -> None:
    """Run the constructor of an object of the file."""
    function = attributes.find_method(machine, state, made.cls, "__init__")
    if function is None:
        for name, value in zip(_dataclass_fields(made.cls), arguments.values, strict=False):
            state.set_attribute(made.symbol, name, value)
        for argument in arguments.given:
            if argument.keyword is not None:
                state.set_attribute(made.symbol, argument.keyword, argument.value)
        return
    keywords = {argument.keyword: argument.value for argument in arguments.given if argument.keyword}
    positional = [argument.value for argument in arguments.given if not argument.keyword and not argument.star]
    call_function(machine, state, function, [made, *positional], keywords, node)


def _dataclass_fields(cls: Class) -> list[str]:
    return [name for name, member in attributes.members(cls).items() if not isinstance(member, cst.FunctionDef)]


def _call_instance(machine: Machine, state: State, node: cst.Call, owner: Instance, arguments: Arguments) -> Value:
    for name in ("__call__", "forward"):
        function = attributes.find_method(machine, state, owner.cls, name)
        if function is not None:
            return _enter(machine, state, node, function, [owner], arguments)
    checkpoints.out_of_sight(machine, state, node, arguments, owner)
    protocol.forget(machine, state, [owner, *arguments.values])
    ran.note(machine, state, owner)
    return Unknown(machine.fresh())


def _call_module(machine: Machine, state: State, node: cst.Call, owner: Module, arguments: Arguments) -> Value:
    """The call of a `torch.nn` object; a `Sequential` runs its parts one after the other."""
    if not owner.parts or not arguments.given:
        return layers.call(machine, state, node, owner, arguments)
    first = arguments.given[0]
    value = first.value
    for part in owner.parts:
        handed_on = Arguments((Argument(first.node, value, None, ""),))
        if isinstance(part, Instance):
            value = _call_instance(machine, state, node, part, handed_on)
        elif isinstance(part, Module):
            value = _call_module(machine, state, node, part, handed_on)
        else:
            value = Unknown(machine.fresh())
    return replace(value, traits=value.traits - {"sigmoid"}) if isinstance(value, Tensor) else value


def _library(machine: Machine, state: State, node: cst.Call, name: str, arguments: Arguments) -> Value:
    if name in AUTOCASTS:
        return contexts.make_autocast(machine, state, node, name, arguments)
    if name in GRAD_SCALERS:
        scaler = Scaler(
            machine.identity(state, node), arguments.value("enabled") or TRUE, node, _loops(machine, state), name
        )
        machine.emit(
            state, ScalerCreated, node, call=node, scaler=scaler, never_read=never_read(machine, node),
            for_bfloat16=ran.asks_for_bfloat16(machine, state, scaler.enabled),
        )  # fmt: skip
        return scaler
    if name in MANAGERS:
        return frameworks.make(machine, node, name, arguments)
    if (loop := trainers.make(machine, state, node, name, arguments)) is not None:
        return loop
    if is_optimizer(name):
        owner = _parameters_of(machine, arguments.value("params", 0))
        optimizer = Optimizer(machine.identity(state, node), name, owner, machine.loops)
        machine.owners[optimizer.symbol] = owner
        machine.index.made[optimizer.symbol] = node
        if owner is not None:
            machine.owners.setdefault(owner, owner)
        parameters.train(machine, state, optimizer, arguments)
        return optimizer
    if name in GRAD_MODES:
        return contexts.grad_mode(name, arguments)
    if name == "torch.set_grad_enabled":
        return GradMode(arguments.values[0] if arguments.given else TRUE)
    if name in NEUTRAL_CONTEXTS or name in EXIT_STACKS:
        return Neutral(stack=name in EXIT_STACKS)
    if name == "functools.partial" and arguments.given:
        return Partial(arguments.values[0], tuple((a.node, a.value, a.keyword, a.star) for a in arguments.given[1:]))
    if name in threads.STARTERS:
        threads.start(machine, state, node, name, arguments)
    if name in CLIPPERS:
        return methods.clip(machine, state, node, name, arguments)
    if name == "torch.autograd.backward" and arguments.given:
        if arguments.get("grad_tensors", 1) is None:
            return _backward_of(machine, state, node, arguments.values[0])
        protocol.forget_gradients(state)
        return Const(None)
    if name == "torch.autograd.grad":
        return penalties.gradients(machine, node, arguments)
    if name in ("torch.device", "torch.cuda.device"):
        return contexts.device_of(arguments)
    if name in ENDS:
        raise PathEnds
    if name == "typing.cast" and len(arguments.values) == 2:
        return arguments.values[1]
    if name.startswith("builtins."):
        return builtin(machine, state, node, name, arguments)
    return _torch(machine, state, node, name, arguments)


def _loops(machine: Machine, state: State) -> tuple[cst.CSTNode, ...]:
    """The loops that make an object anew each round: none for one that is made only where there is none yet."""
    decision = state.trail.step[0] if state.trail is not None and state.trail.branch else None
    first_time = isinstance(decision, cst.Comparison) and isinstance(decision.comparisons[0].operator, cst.Is)
    return () if first_time or machine.makes_once() else machine.loops


def _torch(machine: Machine, state: State, node: cst.Call, name: str, arguments: Arguments) -> Value:
    last = name.rpartition(".")[2]
    if name in SHARDING_WRAPPERS and arguments.given:
        parameters.wrap(machine, state, node, arguments.values[0], arguments)
        return arguments.values[0]
    checkpoints.out_of_sight(machine, state, node, arguments, None)
    if name in segments.CHECKPOINTS:
        segments.checkpointed(machine, state, node, name, arguments)
    if name in segments.TRACES:
        segments.traced(machine, state, node, arguments)
    if last in WRAPPERS and name.startswith("torch.") and arguments.given:
        parameters.forget_places(machine, state, arguments.values[:1])
        if last == "DistributedDataParallel":
            machine.rhythm.parallel.append(node)
        return arguments.values[0]
    if name.startswith("torch.utils.data.") and last == "DataLoader":
        loader = same_again(machine, state, name, arguments)
        machine.rhythm.loaders.setdefault(symbol_of(machine, loader), node)
        return loader
    if name.startswith("torch.nn.") and last[:1].isupper() and ".utils." not in name:
        return layers.make(machine, state, node, name, arguments)
    if name.startswith("torch."):
        found = numerics.function(machine, state, node, name, arguments)
        if found is not None:
            return found
        return same_again(machine, state, name, arguments)
    if name == "copy.deepcopy" and arguments.given and isinstance(arguments.values[0], (Instance, Module)):
        return copies.copied(machine, state, node, arguments.values[0])
    if (known := apex.called(machine, state, node, name, arguments)) is not None:
        return known
    if RUNS_BACKWARD.search(last):
        protocol.forget_gradients(state)
    clashes.handed(machine, state, node, arguments)
    protocol.forget(machine, state, arguments.values, last)
    parameters.forget_dtypes(machine, state, arguments.values)
    weights.handed(machine, arguments.values)
    if not name.startswith("."):
        machine.idle.add(node)
    made = same_again(machine, state, name, arguments, node)
    if last == "from_pretrained":
        parameters.load(machine, state, node, made, arguments)
    return made


def _parameters_of(machine: Machine, value: Value | None) -> int | None:
    if isinstance(value, Unknown) and machine.symbols.key(value.symbol)[0] == "parameters":
        return machine.symbols.parts(value.symbol)[0]
    return None


def _backward_of(machine: Machine, state: State, node: cst.Call, tensors: Value) -> Value:
    values = getattr(tensors, "values", (tensors,))
    scaled = [value for value in values if isinstance(value, Tensor) and value.scaled]
    protocol.backward(machine, state, node, scaled[0] if scaled else values[0] if values else tensors)
    return Const(None)


def _unseen(
    machine: Machine, state: State, node: cst.Call, callee: Value, owner: Value | None, name: str, arguments: Arguments
) -> Value:
    """A call of something that cannot be looked into."""
    if RUNS_BACKWARD.search(name):
        protocol.forget_gradients(state)
    if isinstance(owner, Unknown) and machine.symbols.made_of(owner.symbol, machine.handed_out):
        machine.contacts += 1
        protocol.forget_everything(state)
    if isinstance(owner, Instance) and name not in INHERITED_HARMLESS and _is_inherited(machine, state, owner, name):
        protocol.forget(machine, state, [owner])
    checkpoints.out_of_sight(machine, state, node, arguments, owner)
    protocol.forget(machine, state, arguments.values, name)
    parameters.forget_dtypes(machine, state, arguments.values)
    weights.handed(machine, arguments.values)
    if owner is not None and CHANGES_PARAMETERS.search(name):
        parameters.forget_dtypes(machine, state, [owner])
    if name in IDLE_METHODS:
        machine.idle.add(node)
    clashes.handed(machine, state, node, arguments)
    clashes.supplied(machine, state, node, arguments)
    symbol = symbol_of(machine, callee)
    result = same_again(machine, state, f"of {symbol}", arguments, node, (symbol,))
    if isinstance(owner, Instance) and _is_inherited(machine, state, owner, name):
        machine.rhythm.opaque.add(symbol_of(machine, result))
    return result


def _is_inherited(machine: Machine, state: State, owner: Instance, name: str) -> bool:
    known = state.heap.get(owner.symbol, {})
    return name not in known and not attributes.is_assigned(machine, state, owner.cls, name)
