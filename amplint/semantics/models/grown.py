"""Lists of parameters, or of parameter groups, that a script fills one by one."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.regex import regex
from amplint.semantics.models.origins import DISPLAY, GROUP, GROWN, parameter_of, sources
from amplint.semantics.python.expressions import assign
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Items, Unknown, Value
from amplint.source import syntax as cst
from amplint.source.source import Chunk

_OVER_PARAMETERS = regex(r"\bfor [^\n]{1,200}parameters\(")
_GROWS = regex(r"\b(\w{1,80})\.(?:append|extend)\(")
_MATTERS = frozenset({"half", "float16", "bfloat16", "fully_shard", "FullyShardedDataParallel"})
"""Words without which it is of no interest which model's parameters an optimizer gets."""


class GrownLists(Tracker):
    """Tracks lists to which parameters of models are added.

    The variable becomes a value that names the models, so that the second iteration of a loop changes nothing.
    """

    methods = frozenset({"append", "extend"})

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """The names of lists that grow in functions with a loop over parameters."""
        if all(chunk.words.isdisjoint(_MATTERS) for chunk in chunks):
            return Words()
        filling = [chunk.text for chunk in chunks if "append" in chunk.words and _OVER_PARAMETERS.search(chunk.text)]
        return Words(watched=frozenset(name for text in filling for name in _GROWS.findall(text)))

    def method(self, state: State, call: Call) -> Value | None:
        """Handle `parameters.append(parameter)` and `groups.append({"params": parameters})`."""
        held = self._held(call.owner)
        place = call.node.func.value if isinstance(call.node.func, cst.Attribute) else None
        if held is None or len(call.arguments.given) != 1 or not isinstance(place, (cst.Name, cst.Attribute)):
            return None
        kind, added = self._models(call.arguments.values[0], call.name)
        if added:
            symbols = (self.machine.symbols.intern("parameters", parts=(model,)) for model in sorted(held | added))
            assign(self.machine, state, place, self.machine.unknown(kind, parts=tuple(symbols)))
        return None

    def _held(self, owner: Value | None) -> set[int] | None:
        """The models whose parameters a list already has; None if it has others, or is no list."""
        if isinstance(owner, Items):
            return sources(self.machine, owner) if owner.keys is None else None
        grown = isinstance(owner, Unknown) and self._is_list(owner.symbol)
        return sources(self.machine, owner) if grown else None

    def _is_list(self, symbol: int) -> bool:
        """Whether this is a list that has grown, also on one of two paths that joined."""
        kind, *joined = self.machine.symbols.key(symbol)
        if kind != "either":
            return kind in (GROWN, DISPLAY)
        parts = (*self.machine.symbols.parts(symbol), *(one.symbol for one in joined if isinstance(one, Unknown)))
        return any(self.machine.symbols.key(part)[0] in (GROWN, DISPLAY) for part in parts)

    def _models(self, value: Value, name: str) -> tuple[str, set[int]]:
        """The models of which `value` is a parameter, a group, or, for `extend`, a list of them.

        A list that grows one by one is empty only where the loop does not run.
        """
        keys = value.keys or () if isinstance(value, Items) else ()
        alone = value.values[keys.index(GROUP)] if isinstance(value, Items) and GROUP in keys else value
        one = parameter_of(self.machine, alone) if name == "append" and isinstance(alone, Unknown) else None
        if one is not None:
            return GROWN, {one}
        group = name == "extend" or (isinstance(value, Items) and value.keys is not None)
        return DISPLAY, (sources(self.machine, value) or set()) if group else set()
