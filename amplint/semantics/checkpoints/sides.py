"""Files whose checkpoints save the scaler's state and do not restore it, or the reverse, or leave it out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.semantics.events import CheckpointOneSided
from amplint.semantics.memory.ledger import Ledger
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.values.state import State
from amplint.semantics.words import LOADS, OPTIMIZER_NAME, SAVES, SCALER
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.source.tree import every, target_names
from amplint.torchlib.names import GRAD_SCALERS

SAVED, RESTORED = "saved", "restored"
_METHODS = {"state_dict": SAVED, "load_state_dict": RESTORED}
_SCALERS = frozenset(name.rpartition(".")[2] for name in GRAD_SCALERS)


class _Sides:
    """The calls of a chunk that save and restore the state of optimizers and of scalers, and what may do so unseen.

    `kept` are the scalers that classes keep, and the parameters for one of functions that save or restore the state of
    an optimizer, by what such a function does.
    """

    def __init__(self) -> None:
        self.optimizers: dict[str, list[cst.Call]] = {SAVED: [], RESTORED: []}
        self.scalers: dict[str, list[cst.Call]] = {SAVED: [], RESTORED: []}
        self.unseen: set[str] = set()
        self.kept: list[tuple[str, cst.CSTNode]] = []


class OneSidedCheckpoints(Tracker):
    """Emits the state of an optimizer that is saved or restored without that of the scaler beside it."""

    def is_needed(self) -> bool:
        """Only for the rule of checkpoints."""
        return CheckpointOneSided.kind in self.machine.wanted

    def file_ends(self, starts: Sequence[State]) -> None:
        """Compare what the linted file saves with what it restores, unless its own training shows what is missing."""
        if self.machine[Ledger].told:
            return
        chunks = self.machine.program.main.chunks
        if all(chunk.words.isdisjoint(_METHODS) for chunk in chunks):
            return
        sides = [_sides(chunk) for chunk in chunks if SCALER.search(chunk.code) or not chunk.words.isdisjoint(_METHODS)]
        for done, other in ((SAVED, RESTORED), (RESTORED, SAVED)):
            optimizers = [call for one in sides for call in one.optimizers[done]]
            if not optimizers or any(one.scalers[done] or done in one.unseen for one in sides):
                continue
            counterparts = [call for one in sides for call in one.scalers[other]]
            if counterparts:
                self._emit(optimizers[0], done, counterparts[0], assumed=False)
                return
        if self.machine.assumes:
            self._report_left_out(sides)

    def _report_left_out(self, sides: Sequence[_Sides]) -> None:
        """Report an optimizer's state without that of a scaler which its class keeps, or its function is given."""
        if any(one.scalers[done] for one in sides for done in (SAVED, RESTORED)):
            return
        for one in sides:
            for done, kept in one.kept:
                if one.optimizers[done] and not any(done in each.unseen for each in sides):
                    self._emit(one.optimizers[done][0], done, kept, assumed=True)
                    return

    def _emit(self, call: cst.Call, done: str, other: cst.CSTNode, *, assumed: bool) -> None:
        owner = call.func.value if isinstance(call.func, cst.Attribute) else call
        self.machine.emit(
            State(),
            CheckpointOneSided,
            call,
            saves=done == SAVED,
            other=other,
            assumed=assumed,
            guesses=OPTIMIZER_NAME.guesses(dotted(owner) or ""),
        )


@cached_per_chunk
def _sides(chunk: Chunk) -> _Sides:
    """What the code of `chunk` saves and restores."""
    found = _Sides()
    for call in every(chunk.module, cst.Call):
        done = _METHODS.get(last_name(call.func))
        owner = dotted(call.func.value) if isinstance(call.func, cst.Attribute) else None
        if done is None:
            _pass_on(call, found)
        elif owner is None or _is_element(chunk, call, owner):
            found.unseen.add(done)
        elif SCALER.search(owner):
            if not _is_alias(chunk, call):
                found.scalers[done].append(call)
        elif OPTIMIZER_NAME.search(owner):
            found.optimizers[done].append(call)
    for entry in every(chunk.module, cst.DictElement):
        if SCALER.search(dotted(entry.value) or ""):
            found.unseen.add(SAVED)
    for function in every(chunk.module, cst.FunctionDef):
        found.kept.extend(_given(function))
    for cls in every(chunk.module, cst.ClassDef):
        found.kept.extend((done, made) for made in _made(cls) for done in (SAVED, RESTORED))
    return found


def _pass_on(call: cst.Call, found: _Sides) -> None:
    """Record a call that may save or restore a scaler that it is given."""
    if any(SCALER.search(dotted(argument.value) or "") for argument in call.args):
        name = last_name(call.func)
        if SAVES.search(name):
            found.unseen.add(SAVED)
        if LOADS.search(name):
            found.unseen.add(RESTORED)


def _is_element(chunk: Chunk, call: cst.Call, owner: str) -> bool:
    """Whether the owner of a method is the variable of a loop, which may be a scaler."""
    around = list(chunk.source.ancestors(call))
    loops = [above for above in around if isinstance(above, (cst.For, cst.CompFor))]
    loops += [
        loop
        for above in around
        if isinstance(above, (cst.DictComp, cst.ListComp))
        for loop in every(above, cst.CompFor)
    ]
    return any(owner in target_names(loop.target) for loop in loops)


def _is_alias(chunk: Chunk, call: cst.Call) -> bool:
    """Whether a call only hands on the method of the same name of a wrapper of a scaler."""
    functions = (one for one in chunk.source.ancestors(call) if isinstance(one, cst.FunctionDef))
    function = next(functions, None)
    if function is None or function.name.value not in _METHODS:
        return False
    return not any(
        OPTIMIZER_NAME.search(dotted(one.func.value) or "")
        for one in every(function, cst.Call)
        if isinstance(one.func, cst.Attribute) and one.func.attr.value in _METHODS
    )


def _given(function: cst.FunctionDef) -> Iterator[tuple[str, cst.CSTNode]]:
    """The parameter for a scaler of a function that saves or restores the state of an optimizer."""
    parameters = [*function.params.params, *function.params.kwonly_params]
    given = next((one for one in parameters if SCALER.search(one.name.value)), None)
    if given is not None:
        for call in every(function, cst.Call):
            owner = dotted(call.func.value) if isinstance(call.func, cst.Attribute) else None
            if owner is not None and last_name(call.func) in _METHODS and OPTIMIZER_NAME.search(owner):
                yield _METHODS[last_name(call.func)], given.name


def _made(cls: cst.ClassDef) -> Iterator[cst.CSTNode]:
    """The constructions of scalers that a class keeps in attributes."""
    for node in every(cls, cst.Assign):
        kept = any((dotted(target.target) or "").startswith("self.") for target in node.targets)
        yield from (call for call in every(node.value, cst.Call) if kept and last_name(call.func) in _SCALERS)
