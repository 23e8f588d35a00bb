"""Classes that keep and step a scaler and export no state."""

from __future__ import annotations

from amplint.semantics.events import ScalerKept
from amplint.semantics.python.attributes import lineage
from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Class
from amplint.semantics.words import GIVES_STATE, LOADS, SAVES
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Chunk
from amplint.source.tree import every
from amplint.torchlib.names import GRAD_SCALERS

_SCALERS = frozenset(name.rpartition(".")[2] for name in GRAD_SCALERS)


class ScalerOwners(Tracker):
    """Emits the scalers of classes without a method that could save their state."""

    triggers = _SCALERS

    def is_needed(self) -> bool:
        """Whether the rule was selected explicitly: who saves such a scaler is rarely visible."""
        return self.machine.assumes and ScalerKept.kind in self.machine.wanted

    def class_begins(self, state: State, cls: Class) -> None:
        """Report the scaler of a class, unless the class, a base in the tree or other code of the file saves it.

        A file that constructs the class itself shows whether it has checkpoints at all: an object that takes the
        instance along asks it for its state.
        """
        node = node_of(cls)
        assert isinstance(node, cst.ClassDef)
        kept = _kept(node)
        if kept is None or any(map(_exports, lineage(self.machine, state, cls))):
            return
        made, step, name = kept
        cls_name = node.name.value
        chunks = self.machine.program.chunks
        takers = [taker for chunk in chunks for taker in _takers(chunk, cls_name)]
        shown = any(_constructs(chunk, cls_name) for chunk in chunks) and not takers
        if not shown and not any(_saves(chunk, name) for chunk in chunks):
            guesses = SAVES.guesses(takers[0]) if takers else ()
            self.machine.emit(state, ScalerKept, made, step=step, name=cls_name, assumed=True, guesses=guesses)


@cached_per_file
def _kept(cls: cst.ClassDef) -> tuple[cst.Call, cst.Call, str] | None:
    """The construction of a scaler that a class keeps in an attribute, a step of it, and the attribute's name."""
    made: dict[str, cst.Call] = {}
    for node in every(cls, cst.Assign):
        calls = [call for call in every(node.value, cst.Call) if last_name(call.func) in _SCALERS]
        scaler = calls[0] if calls else made.get(dotted(node.value) or "")
        if scaler is not None:
            made |= {name: scaler for target in node.targets if (name := dotted(target.target)) is not None}
    for call in every(cls, cst.Call):
        owner = call.func.value if isinstance(call.func, cst.Attribute) and call.func.attr.value == "step" else None
        name = (dotted(owner) or "") if owner is not None else ""
        if name.startswith("self.") and name in made:
            return made[name], call, name.removeprefix("self.")
    return None


def _exports(cls: Class) -> bool:
    node = node_of(cls)
    return isinstance(node, cst.ClassDef) and any(
        isinstance(member, cst.FunctionDef)
        and any(guess.search(member.name.value) for guess in (GIVES_STATE, SAVES, LOADS))
        for member in node.body.body
    )


def _saves(chunk: Chunk, name: str) -> bool:
    return f"{name}.state_dict" in chunk.text or f"{name}.load_state_dict" in chunk.text


def _constructs(chunk: Chunk, name: str) -> bool:
    return f"{name}(" in chunk.text.replace(f"class {name}(", "")


def _takers(chunk: Chunk, name: str) -> list[str]:
    """The names of classes that save, constructed in a chunk from an instance of the class of this name."""
    if not _constructs(chunk, name):
        return []
    made = {
        path
        for node in every(chunk.module, cst.Assign)
        if isinstance(node.value, cst.Call) and last_name(node.value.func) == name
        for target in node.targets
        if (path := dotted(target.target)) is not None
    }
    calls = [call for call in every(chunk.module, cst.Call) if any(dotted(one.value) in made for one in call.args)]
    names = (last_name(call.func) or "" for call in calls)
    return [one for one in names if one[:1].isupper() and SAVES.search(one)]
