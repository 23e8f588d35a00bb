"""Threads: their target functions, which start without the autocast regions and gradient modes of the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amplint.regex import regex
from amplint.semantics.events import RegionMissed
from amplint.semantics.models import models
from amplint.semantics.python import attributes
from amplint.semantics.python.containers import each
from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.functions import call_function
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.reading.scopes import dotted, thread_targets
from amplint.semantics.regions.tracker import Regions
from amplint.semantics.values.arguments import Argument, Arguments
from amplint.semantics.values.state import Region, State
from amplint.semantics.values.values import (
    Const,
    Function,
    Instance,
    Items,
    Method,
    NewThread,
    Partial,
    Ref,
    Unknown,
    Value,
)
from amplint.semantics.words import MINDS_AUTOCAST
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.source.tree import walk
from amplint.torchlib.policy import words

STARTERS = {
    "threading.Thread": ("target", 1),
    "threading.Timer": ("function", 1),
    "multiprocessing.dummy.Process": ("target", 1),
    "asyncio.to_thread": ("func", 0),
    "asyncio.threads.to_thread": ("func", 0),
    "_thread.start_new_thread": ("function", 0),
    "fastapi.concurrency.run_in_threadpool": ("func", 0),
    "starlette.concurrency.run_in_threadpool": ("func", 0),
}
"""Callable that starts or constructs a thread -> name and position of the parameter for its target."""
POOLS = (
    "concurrent.futures.ThreadPoolExecutor",
    "concurrent.futures.thread.ThreadPoolExecutor",
    "multiprocessing.pool.ThreadPool",
    "multiprocessing.dummy.Pool",
)
_REGIONS = regex(r"autocast|\bamp\b")
_CALLS_ONCE = words("submit")
_CALLS_WITH_TUPLE = words("apply apply_async")
_CALLS_PER_ITEM = words("map map_async imap imap_unordered")
_CALLS_PER_TUPLE = words("starmap starmap_async")
_ON_POOLS = _CALLS_ONCE | _CALLS_WITH_TUPLE | _CALLS_PER_ITEM | _CALLS_PER_TUPLE


def start(machine: Machine, state: State, node: cst.Call, name: str, arguments: Arguments) -> None:
    """Run the target of a call of a `STARTERS` function."""
    keyword, position = STARTERS[name]
    target = arguments.get(keyword, position)
    if target is None:
        return
    if name.endswith(("to_thread", "run_in_threadpool")):
        rest = [a for a in arguments.given if a is not target]
        positional = [a.value for a in rest if a.keyword is None and not a.star]
        keywords = {a.keyword: a.value for a in rest if a.keyword is not None}
    else:
        positional = _tuple(arguments.value("args", position + 1 if position == 0 else 3 if "Timer" not in name else 2))
        keywords = _named(arguments.value("kwargs", position + 2 if position == 0 else 4 if "Timer" not in name else 3))
    _run(machine, state, node, target, positional, keywords)


def submit(machine: Machine, state: State, node: cst.Call, owner: Value, name: str, arguments: Arguments) -> None:
    """Run the target of `owner.name(...)`, if `owner` is a thread pool."""
    if name == "run_in_executor":
        executor = arguments.value("executor", 0)
        if executor == Const(None) or _is_pool(machine, executor):
            given = arguments.given[1:]
            if given:
                _run(machine, state, node, given[0], [a.value for a in given[1:]], {})
    elif name in _ON_POOLS and arguments.given and _is_pool(machine, owner):
        rest = arguments.given[1:]
        positional = [a.value for a in rest if a.keyword is None and not a.star]
        keywords = {a.keyword: a.value for a in rest if a.keyword is not None}
        if name in _CALLS_WITH_TUPLE:
            positional, keywords = _tuple(arguments.value("args", 1)), _named(arguments.value("kwds", 2))
        elif name in _CALLS_PER_ITEM:
            positional = [each(state, value) or Unknown(machine.fresh()) for value in positional]
        elif name in _CALLS_PER_TUPLE:
            inner = each(state, positional[0]) if positional else None
            positional = _tuple(inner)
        _run(machine, state, node, arguments.given[0], positional, keywords)


def start_instance(machine: Machine, state: State, node: cst.Call, thread: Instance) -> None:
    """Run the `run` method of a thread defined in the file."""
    run = attributes.find_method(machine, state, thread.cls, "run")
    bases = (b for cls in attributes.lineage(machine, state, thread.cls) for b in attributes.bases(machine, state, cls))
    if run is not None and any(isinstance(base, Ref) and base.name == "threading.Thread" for base in bases):
        twin = _inside(machine, state, node, NewThread("run"))
        machine.outcomes(twin, lambda s: call_function(machine, s, run, [thread], {}, node))


def _is_pool(machine: Machine, value: Value | None) -> bool:
    """Whether `value` is a thread pool whose threads inherit nothing from the caller."""
    if not isinstance(value, Unknown):
        return False
    key = machine.symbols.key(value.symbol)
    return key[0] == "call" and key[1] in POOLS


def _tuple(value: Value | None) -> list[Value]:
    return list(value.values) if isinstance(value, Items) and value.keys is None else []


def _named(value: Value | None) -> dict[str, Value]:
    if not isinstance(value, Items) or value.keys is None:
        return {}
    pairs = zip(value.keys, value.values, strict=True)
    return {key.value: item for key, item in pairs if isinstance(key, Const) and isinstance(key.value, str)}


def _inside(machine: Machine, state: State, node: cst.Call, thread: NewThread) -> State:
    """The initial state of a thread that `node` starts."""
    twin = state.copy()
    machine.forget(twin)
    twin.regions = (*twin.regions, Region(thread, node))
    return twin


def _run(
    machine: Machine,
    state: State,
    node: cst.Call,
    target: Argument,
    positional: Sequence[Value],
    keywords: Mapping[str, Value],
) -> None:
    value, given = target.value, list(positional)
    if isinstance(value, Partial):
        given = [*(v for _, v, keyword, star in value.given if keyword is None and not star), *given]
        keywords = {**{k: v for _, v, k, _ in value.given if k is not None}, **keywords}
        value = value.callee
    path = target.node.value
    thread = NewThread(dotted(path) or "its target", path)
    twin = _inside(machine, state, node, thread)
    model = models.called(machine, state, path, value)
    if model is not None:
        models.forward(machine, twin, node, *model)
        return
    if isinstance(value, Method) and value.function is not None:
        static = any(
            isinstance(d.decorator, cst.Name) and d.decorator.value == "staticmethod"
            for d in getattr(value.function.node, "decorators", ())
        )
        given = given if static else [value.owner, *given]
        value = value.function
    if isinstance(value, Function):
        function, before = value, len(machine[Regions].carried)
        machine.outcomes(twin, lambda s: call_function(machine, s, function, given, keywords, node))
        carried = machine[Regions].carried[before:]
        if carried and not _mentions_autocast(function):
            regions = any(_REGIONS.search(chunk.code) for chunk in machine.program.chunks)
            machine.emit(
                state, RegionMissed, node, work=carried[0], lost=None, lost_with=None, thread=thread,
                assumed=not regions,
            )  # fmt: skip


def _mentions_autocast(function: Function) -> bool:
    return any(isinstance(n, cst.Name) and MINDS_AUTOCAST.search(n.value) for n in walk(node_of(function)))


class Threads(Tracker):
    """Tracks functions run in new threads."""

    methods = _ON_POOLS | {"run_in_executor", "start"}

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """The names of thread targets, if models are tracked."""
        return Words(thread_targets(chunks)) if self.machine[models.Models].follows else Words()

    def handles_library_call(self, name: str) -> bool:
        """Whether this starts or constructs a thread."""
        return name in STARTERS

    def library_call(self, state: State, call: Call) -> Value | None:
        """Handle the construction or start of a thread."""
        assert isinstance(call.callee, Ref)
        if call.callee.name in STARTERS:
            start(self.machine, state, call.node, call.callee.name, call.arguments)
        return None

    def method(self, state: State, call: Call) -> Value | None:
        """Handle `thread.start()` and `pool.submit(...)`."""
        assert call.owner is not None
        if call.name == "start" and isinstance(call.owner, Instance):
            start_instance(self.machine, state, call.node, call.owner)
        submit(self.machine, state, call.node, call.owner, call.name, call.arguments)
        return None
