"""Checkpoints: the objects whose state is saved and restored, and whether the scaler's is missing.

A resumed run needs the optimizer's state and the scaler's. State counts as saved if it reaches a call that saves
(`torch.save`, or an unseen one with such a name), or is returned by a method that exports state. A scaler passed to
unseen code counts as saved and restored there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace

from amplint.findings import Guessed
from amplint.records import dataclass
from amplint.regex import regex
from amplint.semantics.events import CheckpointLacksApex, CheckpointLacksScaler, Place
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.memory.ledger import Ledger
from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import dotted, last_name, saving_names
from amplint.semantics.reading.uses import is_in_unused_method
from amplint.semantics.values.arguments import Argument, Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    FALSE,
    NONE,
    Const,
    Function,
    Instance,
    Items,
    Method,
    Optimizer,
    Partial,
    Ref,
    Scaler,
    Unknown,
    Value,
)
from amplint.semantics.words import (
    GIVES_STATE,
    LOADS,
    LOOKS_ONLY,
    OPTIMIZER_NAME,
    SAVES,
    SAVES_ONLY,
    SCALING_STATE,
    SPEAKS_OF_OPTIMIZER,
    TRAINING_STEP,
    TRAINS,
)
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk, cached_per_file, cached_per_tree
from amplint.source.source import Chunk, Source
from amplint.source.tree import every, target_names, walk

STATE_OF = "state of"
_PUTS = frozenset({"update", "append", "setdefault", "extend", "insert", "add"})
_ANYTHING = frozenset({"each", "item"})
"""Kinds of symbols that can be any element of a loop's iterable."""
_UNWRAPPED = frozenset({("attribute", "module"), ("attribute", "_orig_mod")})
"""Attributes of wrappers with the wrapped object: code that unwraps models reads them from any object."""

_STATE_OF_APEX = regex(r"\bamp\w*\.(?:load_)?state_dict\b")
_RESTORES = regex(r"(?i)optim\w{0,60}\.load_state_dict\(")


def take(machine: Machine, state: State, node: cst.Call, owner: Value) -> Value:
    """Return `owner.state_dict()`; for a possible scaler, its state counts as restored, too."""
    symbol = symbol_of(machine, owner)
    if _is_scaler(machine, node, owner):
        machine[Ledger].scaler_saved = True
        machine[Ledger].scaler_restored |= not _is_named_scaler(node, owner)
    if _within(machine, "state_dict"):
        machine[Ledger].own.add(node)
    value = machine.unknown(STATE_OF, id(node), parts=(symbol,))
    machine[Ledger].taken.setdefault(value.symbol, _place(machine, state, node))
    return value


def restore(machine: Machine, state: State, node: cst.Call, owner: Value, arguments: Arguments) -> None:
    """Handle `owner.load_state_dict(...)`; state that visible code took does not come from a checkpoint.

    A `load_state_dict` that passes on its argument, or whose object has no scaler, is an alias of its owner's: the
    caller restores the checkpoint.
    """
    if _within(machine, "load_state_dict"):
        own = machine.lookup(state, "self")
        passes_on = any(_is_parameter(machine, value) for value in arguments.values)
        if passes_on or (own is not None and not _holds_scaler(state, own)):
            return
    if any(_states(machine, state, arguments.values)):
        return
    function = machine.calls[-1] if machine.calls else None
    if isinstance(function, cst.FunctionDef) and node in _loads_of_keywords(function):
        return  # the call that gives the keywords restores
    if _is_scaler(machine, node, owner):
        machine[Ledger].scaler_restored = True
    _enter(machine, machine[Ledger].restored, symbol_of(machine, owner), _place(machine, state, node), ())


def restore_keywords(machine: Machine, state: State, call: Call, function: Function) -> None:
    """Handle a call of a function that restores each object among its keyword arguments."""
    if call.node is None or not machine[Ledger].watching or "load_state_dict" not in function.chunk.words:
        return
    body = node_of(function)
    if not isinstance(body, cst.FunctionDef) or not _loads_of_keywords(body):
        return
    own = {one.name.value for one in (*body.params.params, *body.params.kwonly_params)}
    for argument in call.arguments.given:
        if argument.keyword is None or argument.keyword in own:
            continue
        if isinstance(argument.value, Scaler):
            machine[Ledger].scaler_restored = True
        elif isinstance(argument.value, (Optimizer, Unknown)):
            place = _place(machine, state, call.node)
            _enter(machine, machine[Ledger].restored, argument.value.symbol, place, ())


def save_keywords(machine: Machine, call: Call, function: Function) -> None:
    """Handle a call of a function that takes the state of each object among its keyword arguments."""
    if call.node is None or not machine[Ledger].watching or "state_dict" not in function.chunk.words:
        return
    body = node_of(function)
    if not isinstance(body, cst.FunctionDef) or not _calls_over_keywords(body, "state_dict"):
        return
    own = {one.name.value for one in (*body.params.params, *body.params.kwonly_params)}
    given = (one.value for one in call.arguments.given if one.keyword is not None and one.keyword not in own)
    machine[Ledger].scaler_saved |= any(isinstance(value, Scaler) for value in given)


@cached_per_file
def _loads_of_keywords(function: cst.FunctionDef) -> frozenset[cst.Call]:
    """The calls of `load_state_dict` on items of the `**` parameter of a function, in loops over them."""
    return frozenset(
        call
        for loop, call in _calls_over_keywords(function, "load_state_dict")
        if isinstance(call.func, cst.Attribute) and dotted(call.func.value) in {*target_names(loop.target)}
    )


def _calls_over_keywords(function: cst.FunctionDef, method: str) -> list[tuple[cst.For, cst.Call]]:
    """The calls of a `method` in loops over the items of the `**` parameter of a function, each with its loop."""
    keywords = function.params.star_kwarg
    over = f"{keywords.name.value}.items" if keywords is not None else ""
    return [
        (loop, call)
        for loop in every(function, cst.For)
        if isinstance(loop.iter, cst.Call) and dotted(loop.iter.func) == over
        for call in every(loop.body, cst.Call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == method
    ]


def arguments_escape(
    machine: Machine, state: State, node: cst.Call, callee: Value, arguments: Arguments, owner: Value | None
) -> None:
    """Handle arguments that escape to an unseen call."""
    ledger = machine[Ledger]
    if not ledger.watching:
        return
    name, last = dotted(node.func) or "", last_name(node.func)
    loads = LOADS.search(last) is not None
    saves = SAVES.search(name) is not None and not loads
    objects = [value for argument in arguments.values for value in _objects(state, argument)]
    if saves and owner is not None and SAVES.search(last):
        ledger.exports = True
    if _trains_out_of_sight(machine, node, last, arguments):
        return
    if not LOOKS_ONLY.search(last) and any(_holds_scaler(state, value) for value in objects):
        ledger.scaler_saved = ledger.scaler_saved or not loads
        ledger.scaler_restored = ledger.scaler_restored or SAVES_ONLY.search(last) is None
    if saves or loads:
        place = _place(machine, state, node)
        guesses = SAVES.guesses(callee.name if isinstance(callee, Ref) else name) if saves else LOADS.guesses(last)
        for value in objects:
            if isinstance(value, (Optimizer, Unknown)):
                _enter(machine, ledger.saved if saves else ledger.restored, value.symbol, place, guesses)
        if saves:
            _save(machine, _states(machine, state, [*arguments.values, *_named_in(machine, state, node)]), guesses)
            return
    if owner is not None and last in _PUTS:
        for symbol in _states(machine, state, arguments.values):
            state.set_attribute(symbol_of(machine, owner), f"<{STATE_OF} {symbol}>", Unknown(symbol))


def _trains_out_of_sight(machine: Machine, node: cst.Call, last: str, arguments: Arguments) -> bool:
    """Handle a call, of the name `last`, of unseen code that trains an optimizer with a scaler; whether it is one."""
    made = TRAINS.search(last) is not None
    if not made and TRAINING_STEP.search(last) is None:
        return False
    scalers = [value for value in arguments.values if isinstance(value, Scaler)]
    given = [argument for argument in arguments.given if _is_optimizer(argument)]
    if len(scalers) != 1 or not given or machine.entered_from is not None:
        return False
    optimizers = {one.value.symbol for one in given if isinstance(one.value, (Optimizer, Unknown))}
    ledger, (scaler,) = machine[Ledger], scalers
    if optimizers and scaler.symbol not in ledger.training:
        named = [one.node.value for one in given if isinstance(one.value, Unknown)]
        guesses = [guess for one in named for guess in OPTIMIZER_NAME.guesses(last_name(one) or "")]
        machine.record_guesses(node, (*(TRAINS if made else TRAINING_STEP).guesses(last), *guesses))
        ledger.train(scaler, node)
    ledger.trained_unseen.setdefault(scaler.symbol, set()).update(optimizers)
    if made:
        ledger.kept.add(scaler.symbol)
    return True


def _is_optimizer(argument: Argument) -> bool:
    """Whether an argument is an optimizer, or by its name one on another path."""
    if isinstance(argument.value, Unknown) or argument.value == NONE:
        return OPTIMIZER_NAME.search(dotted(argument.node.value) or "") is not None
    return isinstance(argument.value, Optimizer)


def _holds_scaler(state: State, value: Value) -> bool:
    """Whether `value` is a scaler, or an object of the file with one."""
    if isinstance(value, Instance):
        return any(isinstance(held, Scaler) for held in state.heap.get(value.symbol, {}).values())
    return isinstance(value, Scaler)


def _named_in(machine: Machine, state: State, call: cst.Call) -> Iterator[Value]:
    """The values of the variables in the arguments of a call, including those of nested calls."""
    for argument in call.args:
        for node in walk(argument.value):
            found = machine.lookup(state, node.value) if isinstance(node, cst.Name) else None
            if found is not None:
                yield found


def stored(machine: Machine, state: State, target: cst.Subscript | cst.Attribute, owner: Value, value: Value) -> None:
    """Handle `owner[...] = value` and `owner.name = value`."""
    if not machine[Ledger].watching:
        return
    if isinstance(value, Scaler) and not isinstance(owner, (Instance, Items)):
        machine[Ledger].scaler_saved = machine[Ledger].scaler_restored = True
    base = dotted(target.value)
    if base is not None and GIVES_STATE.search(base):
        _save(machine, _states(machine, state, [value]), GIVES_STATE.guesses(base))


def returned(machine: Machine, state: State, value: Value) -> None:
    """Handle a returned `value`; a function with such a name exports it as state to save.

    A `state_dict` that only returns another object's is an alias of that one, unless its own object has a scaler.
    """
    if _within(machine, "state_dict") and machine.symbols.key(symbol_of(machine, value))[0] == STATE_OF:
        own = machine.lookup(state, "self")
        if own is None or not _holds_scaler(state, own):
            return
    function = machine.calls[-1] if machine.calls and machine[Ledger].watching else None
    if isinstance(function, cst.FunctionDef) and GIVES_STATE.search(function.name.value):
        _save(machine, _states(machine, state, [value]), GIVES_STATE.guesses(function.name.value))


def _within(machine: Machine, name: str) -> bool:
    function = machine.calls[-1] if machine.calls else None
    return isinstance(function, cst.FunctionDef) and function.name.value == name


def _is_parameter(machine: Machine, value: Value) -> bool:
    return isinstance(value, Unknown) and machine.symbols.key(value.symbol)[0] == "parameter"


def conclude(machine: Machine) -> None:
    """Emit the state that is missing in the checkpoints of the whole file."""
    ledger = machine[Ledger]
    if not (ledger.watching and machine.complete and (ledger.saved or ledger.restored)):
        return
    for scaler, step in [one for one in ledger.training.values() if one[0].created not in ledger.fleeting]:
        if ledger.exports and scaler.symbol in ledger.kept:
            continue
        stepped = machine[CallIndex].index.partners.get(scaler.symbol, ())
        partners = {*stepped, *ledger.trained_unseen.get(scaler.symbol, ())}
        kin = {known for symbol in partners for known in _identity_keys(machine, symbol)}
        paths = {dotted(node) for symbol in partners for node in machine[CallIndex].index.optimizers.get(symbol, ())}
        saves, restores = (
            [
                (symbol, place)
                for symbol, places in table.items()
                for place in places
                if kin & _identity_keys(machine, symbol)
                or _path(place.node) in paths
                or _optimizers(machine, place.within or place.node) is not None
            ]
            for table in (ledger.saved, ledger.restored)
        )
        restores = [one for one in restores if not is_in_unused_method(machine.program, one[1].within or one[1].node)]
        missing = [] if ledger.scaler_saved else saves
        missing = missing or ([] if ledger.scaler_restored else restores)
        if missing and scaler.enabled != FALSE:
            (symbol, first), *_ = missing
            if _is_reported_in_base(machine, first, scaler):
                continue
            passed = first.node in ledger.own and machine.symbols.key(scaler.symbol)[0] == "parameter"
            wrapped = _wrapper_guesses(machine, symbol, partners) if _path(first.node) not in paths else ()
            listed = _optimizers(machine, first.within or first.node)
            if listed is not None:
                wrapped = (*wrapped, *OPTIMIZER_NAME.guesses(listed))
            machine.statement = first.statement
            ledger.told = True
            machine.emit(
                State(),
                CheckpointLacksScaler,
                first.node,
                scaler=scaler,
                step=step,
                saves=tuple(_spelled(machine, place) for _, place in saves),
                restores=() if ledger.scaler_restored else tuple(_spelled(machine, place) for _, place in restores),
                saved=ledger.scaler_saved,
                resumes=ledger.scaler_restored or bool(restores) or _resumes(machine),
                perhaps_none=scaler.symbol in ledger.perhaps_none
                or any(_is_none_at(machine, place) for _, place in (*saves, *restores)),
                out_of_sight=passed or not stepped,
                guesses=(*machine.guesses_for(first.node), *(() if stepped else machine.guesses_for(step)), *wrapped),
            )
            return


def conclude_apex(machine: Machine) -> None:
    """Emit the optimizers under apex whose state is saved or restored where that of its loss scaler never is."""
    ledger = machine[Ledger]
    if not (ledger.watching and machine.complete and ledger.initialized):
        return
    if any(map(_mentions_apex_state, machine.program.chunks)):
        return
    for optimizer, initialized in ledger.initialized.items():
        kin = _identity_keys(machine, optimizer)
        saves, restores = (
            tuple(
                place for symbol, places in table.items() if kin & _identity_keys(machine, symbol) for place in places
            )
            for table in (ledger.saved, ledger.restored)
        )
        if saves or restores:
            first = (saves or restores)[0]
            machine.statement = first.statement
            machine.emit(
                State(), CheckpointLacksApex, first.node, initialized=initialized, saves=saves, restores=restores,
                guesses=machine.guesses_for(first.node),
            )  # fmt: skip
            return


@cached_per_chunk
def _mentions_apex_state(chunk: Chunk) -> bool:
    """Whether `chunk` saves or restores the state of apex."""
    return _STATE_OF_APEX.search(chunk.code) is not None


def _resumes(machine: Machine) -> bool:
    """Whether the linted file restores the state of an optimizer, on any path, and in no function without uses.

    A function of another file counts where the linted file uses it.
    """
    main = machine.program.main
    own = [chunk for chunk in machine.program.chunks if chunk.source is main]
    return any(
        chunk.source is main and not is_in_unused_method(machine.program, one.call)
        if one.function is None
        else any(one.function in other.words and _gives(other, one) for other in own if other is not chunk)
        for chunk in machine.program.chunks
        for one in _restoring(chunk)
    )


@dataclass(frozen=True, slots=True)
class _Restoring:
    """The `call` that restores the state of an optimizer, and the top-level `function` around it, None for another.

    An `optional` optimizer is one that callers can leave out, by its name and position among the parameters.
    """

    call: cst.Call
    function: str | None
    optional: tuple[str, int] | None = None


def _gives(chunk: Chunk, one: _Restoring) -> bool:
    """Whether `chunk` gives a function the optimizer that callers can leave out, or passes the function on."""
    if one.optional is None:
        return True
    name, position = one.optional
    for call in every(chunk.module, cst.Call):
        if any(last_name(argument.value) == one.function for argument in call.args):
            return True
        if last_name(call.func) == one.function and (
            sum(argument.keyword is None for argument in call.args) > position
            or any(argument.star or (argument.keyword and argument.keyword.value == name) for argument in call.args)
        ):
            return True
    return False


@cached_per_tree
def _restoring(chunk: Chunk) -> tuple[_Restoring, ...]:
    """What restores the state of an optimizer in `chunk`.

    A `load_state_dict` that does so is an alias, which the caller uses to restore.
    """
    found: list[_Restoring] = []
    for call in every(chunk.module, cst.Call) if _RESTORES.search(chunk.code) else ():
        above = [one for one in chunk.source.ancestors(call) if isinstance(one, (cst.FunctionDef, cst.ClassDef))]
        aliased = bool(above) and above[0].name.value == "load_state_dict"
        if not aliased and _RESTORES.search(f"{dotted(call.func)}("):
            function = above[-1] if above and isinstance(above[-1], cst.FunctionDef) else None
            name = function.name.value if function is not None else None
            found.append(_Restoring(call, name, _optional(function, call) if function is not None else None))
    return tuple(found)


def _optional(function: cst.FunctionDef, call: cst.Call) -> tuple[str, int] | None:
    """The parameter whose method is called, if it is None by default."""
    owner = call.func.value if isinstance(call.func, cst.Attribute) else None
    for position, parameter in enumerate(function.params.params):
        default = parameter.default
        if isinstance(owner, cst.Name) and parameter.name.value == owner.value:
            is_none = isinstance(default, cst.Name) and default.value == "None"
            return (owner.value, position) if is_none else None
    return None


def _is_reported_in_base(machine: Machine, place: Place, scaler: Scaler) -> bool:
    """Whether the finding belongs to another file, which both saves the state and constructs the scaler."""
    made_elsewhere = scaler.created is not None and not machine.program.main.owns(scaler.created)
    if made_elsewhere and _constructing_file(machine, scaler) in machine[Ledger].elsewhere.get(place.node, ()):
        return True
    called = place.node.func if isinstance(place.node, cst.Call) else None
    base = called.value if isinstance(called, cst.Attribute) else None
    by_base = isinstance(base, cst.Call) and dotted(base.func) == "super"
    return by_base and scaler.created is not None and not machine.program.main.owns(scaler.created)


def _constructing_file(machine: Machine, scaler: Scaler) -> Source | None:
    """The file that constructs a scaler."""
    return machine.program.source_of(scaler.created) if scaler.created is not None else None


def _is_scaler(machine: Machine, node: cst.Call, owner: Value) -> bool:
    """Whether `owner` is, or may be, a scaler."""
    if isinstance(owner, (Optimizer, Scaler)):
        return isinstance(owner, Scaler)
    if _optimizers(machine, node) is not None:
        return False
    named = not isinstance(node.func, cst.Attribute) or _is_named_scaler(node, owner)
    return named or _is_any_element(machine, symbol_of(machine, owner))


def _optimizers(machine: Machine, call: cst.CSTNode) -> str | None:
    """The name of a list of optimizers whose element's method `call` runs, None if it is of something else."""
    owner = call.func.value if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else None
    whole = owner.value if isinstance(owner, cst.Subscript) else None
    if isinstance(owner, cst.Name):
        source = machine.program.source_of(call)
        loops = [one for one in source.ancestors(call) if isinstance(one, cst.For)] if source is not None else []
        iterated = next((one.iter for one in loops if owner.value in target_names(one.target)), None)
        counts = isinstance(iterated, cst.Call) and dotted(iterated.func) == "enumerate" and iterated.args
        whole = iterated.args[0].value if isinstance(iterated, cst.Call) and counts else iterated
    name = last_name(whole) if whole is not None else ""
    return name if name.endswith("s") and OPTIMIZER_NAME.search(name) else None


def _is_any_element(machine: Machine, symbol: int) -> bool:
    """Whether this can be any element of a container or the result of a lookup by name."""
    symbols = machine.symbols

    def alternatives(one: int) -> tuple[int, ...]:
        key = symbols.key(one)
        return symbols.parts(one) if key[0] in ("either", "if") or key[:2] in _UNWRAPPED else ()

    def looks_up(one: int) -> bool:
        key = symbols.key(one)
        if key[0] == "part":
            (whole,) = symbols.parts(one)
            return symbols.key(whole)[0] == "item" and _lists_items(machine, *symbols.parts(whole))
        return key[0] in _ANYTHING or key[:2] == ("call", "builtins.getattr")

    return any(map(looks_up, symbols.closure(symbol, alternatives)))


def _lists_items(machine: Machine, symbol: int) -> bool:
    """Whether this is `table.items()`."""
    callee = machine.symbols.callee(symbol)
    kind, name = machine.symbols.key(callee)[:2] if callee is not None else ("", "")
    return (name.name if isinstance(name, Method) else name) == "items" and kind in ("attribute", "value")


def _is_named_scaler(node: cst.Call, owner: Value) -> bool:
    """Whether `owner`, whose method `node` calls, is a scaler, or named like one's state."""
    named = isinstance(node.func, cst.Attribute) and SCALING_STATE.search(dotted(node.func.value) or "") is not None
    return isinstance(owner, Scaler) or named


def _place(machine: Machine, state: State, node: cst.Call) -> Place:
    """The place in the linted file where state is saved or restored: `node`, or the call that leads to it."""
    if machine.entered_from is not None:
        machine[Ledger].elsewhere.setdefault(machine.entered_from, set()).add(machine.program.source_of(node))
        return Place(machine.entered_from, machine.entered_from, within=node)
    seen: dict[str, Value] = {}
    for frame in machine.enclosing(state.frame):
        for name, value in state.frames.get(frame, {}).items():
            if isinstance(value, Scaler) or value == NONE:
                seen[name] = value
            elif name == "self" and isinstance(value, Instance):
                members = state.heap.get(value.symbol, {}).items()
                seen |= {f"self.{name}": held for name, held in members if isinstance(held, Scaler) or held == NONE}
    machine[Ledger].spelled.setdefault(node, []).append(seen)
    scalers = {name: value.symbol for name, value in seen.items() if isinstance(value, Scaler)}
    scaler = next(iter(scalers)) if len(set(scalers.values())) == 1 else None
    return Place(node, machine.statement or node, scaler)


def _spelled(machine: Machine, place: Place) -> Place:
    """`place`, without the expression of the scaler if it is unbound there on some path."""
    paths = machine[Ledger].spelled.get(place.node, [])
    bound = place.scaler is not None and all(place.scaler in seen for seen in paths)
    return place if bound else replace(place, scaler=None)


def _is_none_at(machine: Machine, place: Place) -> bool:
    """Whether the expression of the scaler at `place` is None on some path."""
    return any(seen.get(place.scaler or "") == NONE for seen in machine[Ledger].spelled.get(place.node, []))


def _enter(
    machine: Machine, table: dict[int, list[Place]], symbol: int, place: Place, guesses: tuple[Guessed, ...]
) -> None:
    """Record in `table` that state of the object `symbol` is handled at `place`, subject to these `guesses`."""
    machine.record_guesses(place.node, guesses)
    places = table.setdefault(symbol, [])
    if all(known.node is not place.node for known in places):
        places.append(place)


def _save(machine: Machine, states: Iterable[int], guesses: tuple[Guessed, ...]) -> None:
    for symbol in states:
        owner = machine.symbols.parts(symbol)[0]
        _enter(machine, machine[Ledger].saved, owner, machine[Ledger].taken[symbol], guesses)


def _objects(state: State, value: Value) -> Iterator[Value]:
    """`value`, or the elements of a container of the file."""
    if isinstance(value, Items):
        for item in value.values:
            yield from _objects(state, item)
    elif isinstance(value, Partial):
        for given in value.given:
            yield from _objects(state, given[1])
    else:
        yield value
        if isinstance(value, Unknown):
            held = state.heap.get(value.symbol, {}).items()
            yield from (item for name, item in held if name.startswith("[") and isinstance(item, (Optimizer, Scaler)))


def _states(machine: Machine, state: State, values: Iterable[Value], depth: int = 4) -> Iterator[int]:
    """The symbols of the `state_dict()` results that `values` are or were made from."""
    if not machine[Ledger].taken:
        return
    for value in values:
        inside = [*value.values] if isinstance(value, Items) else []
        symbol = symbol_of(machine, value)
        inside += [item for item in state.heap.get(symbol, {}).values() if not isinstance(item, Function)]
        if depth and not isinstance(value, (Instance, Scaler, Optimizer)):
            yield from _states(machine, state, inside, depth - 1)
        yield from _made_from(machine, symbol)


def _made_from(machine: Machine, symbol: int) -> frozenset[int]:
    known = machine[Ledger].made_from
    if symbol not in known:
        kind, *details = machine.symbols.key(symbol)
        parts = machine.symbols.parts(symbol)
        if kind == "value" and isinstance(details[0], Items):
            parts = tuple(symbol_of(machine, item) for item in details[0].values)
        known[symbol] = frozenset()
        if kind == "index" and len(parts) == 2 and _is_hyperparameter(machine, *parts):
            return known[symbol]
        found = [{symbol} if kind == STATE_OF else _made_from(machine, part) for part in parts]
        known[symbol] = frozenset().union(*found)
    return known[symbol]


def _is_hyperparameter(machine: Machine, whole: int, key: int) -> bool:
    """Whether the item `key` of `whole` holds settings of an optimizer, such as the learning rate, and no moments."""
    return machine.symbols.key(whole)[0] == STATE_OF and Const("param_groups") in machine.symbols.key(key)


def _path(call: cst.CSTNode) -> str:
    """The attribute that is the receiver of `call`; empty for a plain name."""
    owner = call.func.value if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else None
    return (dotted(owner) or "") if isinstance(owner, cst.Attribute) else ""


def _wrapper_guesses(machine: Machine, symbol: int, partners: Set[int]) -> tuple[Guessed, ...]:
    """The guesses by which `symbol` is one of `partners` or its wrapper."""
    plain = {known for partner in partners for known in _identity_keys(machine, partner, wrapped=False)}
    if plain & _identity_keys(machine, symbol, wrapped=False):
        return ()
    made = [maker for one in (symbol, *sorted(partners)) if (maker := _wrapper(machine, one)) is not None]
    return SPEAKS_OF_OPTIMIZER.guesses(made[0]) if made else ()


def _wrapper(machine: Machine, symbol: int) -> str | None:
    """The function that constructed a wrapper of optimizers, by its name, if `symbol` is an attribute of one."""
    kind, parts = machine.symbols.key(symbol)[0], machine.symbols.parts(symbol)
    maker = machine.symbols.key(parts[0]) if kind == "attribute" else ("",)
    return str(maker[1]) if maker[0] == "call" and SPEAKS_OF_OPTIMIZER.search(str(maker[1])) else None


def _identity_keys(machine: Machine, symbol: int, *, wrapped: bool = True) -> frozenset[object]:
    """The keys by which a symbol is the same object on other paths: its construction, or its access path.

    An attribute of a wrapper is an alias of the wrapper, if it may be `wrapped`.
    """
    kind, *details = machine.symbols.key(symbol)
    parts = machine.symbols.parts(symbol)
    if kind == "made":
        return frozenset({details[0]})
    if kind == "attribute":
        inner = wrapped and _wrapper(machine, symbol) is not None
        return frozenset({f".{details[0]}"}) | (_identity_keys(machine, parts[0]) if inner else frozenset())
    if kind == "parameter":
        return frozenset({str(details[-1])})
    if kind == "either":
        joined = [one for one in machine.symbols.alternatives(symbol) if one != symbol]
        kin = frozenset[object]().union(*(_identity_keys(machine, one, wrapped=wrapped) for one in joined))
        return kin or frozenset({("symbol", symbol)})
    if kind == "index" and parts:
        whole = _identity_keys(machine, parts[0], wrapped=wrapped)
        name = next((one.value for one in machine.symbols.key(parts[-1]) if isinstance(one, Const)), None)
        return frozenset((name, one) for one in whole) if isinstance(name, str) and len(parts) > 1 else whole
    if kind == "part":
        return frozenset((details[0], whole) for whole in _identity_keys(machine, parts[0], wrapped=wrapped))
    return frozenset({("symbol", symbol)})


class Checkpoints(Tracker):
    """Tracks the state that is saved and restored."""

    methods = frozenset({"state_dict", "load_state_dict"})

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """The names of calls that save and load, if a rule needs them."""
        wanted = not self.machine.wanted.isdisjoint((CheckpointLacksScaler.kind, CheckpointLacksApex.kind))
        watched = saving_names(chunks) if wanted else frozenset[str]()
        self.machine[Ledger].watching = bool(watched)
        return Words(watched=watched)

    def library_call(self, state: State, call: Call) -> Value | None:
        """Handle `torch.save` and other functions of libraries."""
        arguments_escape(self.machine, state, call.node, call.callee, call.arguments, None)
        return None

    def method(self, state: State, call: Call) -> Value | None:
        """Handle `state_dict` and `load_state_dict`."""
        assert call.owner is not None
        if call.name == "state_dict":
            self.machine.idle.add(call.node)
            return take(self.machine, state, call.node, call.owner)
        if call.name == "load_state_dict":
            restore(self.machine, state, call.node, call.owner, call.arguments)
        return None

    def call_resolved(self, state: State, call: Call) -> None:
        """Handle functions that save or restore what their keyword arguments hold."""
        if isinstance(call.callee, Function):
            save_keywords(self.machine, call, call.callee)
            restore_keywords(self.machine, state, call, call.callee)

    def must_follow(self, state: State, function: Function, given: Sequence[Value]) -> bool:
        """Whether this may take the state of a scaler that it is given."""
        takes = not function.chunk.words.isdisjoint(self.methods) and self.machine[Ledger].watching
        return takes and any(isinstance(value, Scaler) for value in given)

    def unseen(self, state: State, call: Call) -> None:
        """Handle unseen code that may save and load."""
        if not isinstance(call.callee, Ref):
            owner = None if call.entered == "super" else call.owner
            arguments_escape(self.machine, state, call.node, call.callee, call.arguments, owner)

    def attribute_set(self, state: State, target: cst.Attribute, owner: Value, value: Value) -> Value | None:
        """Handle an attribute of an object that may be saved."""
        stored(self.machine, state, target, owner, value)
        return None

    def item_set(self, state: State, target: cst.Subscript, owner: Value, value: Value) -> None:
        """Handle an element of a container that may be saved."""
        stored(self.machine, state, target, owner, value)

    def function_returns(self, state: State, value: Value) -> None:
        """Handle the result of a method that may export state."""
        returned(self.machine, state, value)

    def joined(self, left: Value, right: Value, joint: Value) -> None:
        """Record a scaler that may be None."""
        if NONE in (left, right) and isinstance(joint, Scaler):
            self.machine[Ledger].perhaps_none.add(joint.symbol)

    def file_ends(self, starts: Sequence[State]) -> None:
        """Emit the missing state."""
        conclude(self.machine)
        conclude_apex(self.machine)
