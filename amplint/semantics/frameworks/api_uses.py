"""Uses of library APIs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from amplint.regex import regex
from amplint.semantics.events import ApiUse
from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Class, Ref, Value
from amplint.source import syntax as cst
from amplint.source.fallback import is_fallback
from amplint.source.source import Chunk
from amplint.source.tree import bound_by, walk
from amplint.torchlib.legacy import APEX_MODULES, is_mmcv
from amplint.torchlib.names import AUTOCASTS, GRAD_SCALERS, SUCCESSORS
from amplint.torchlib.versions import Wanted

_NATIVE_IMPORT = regex(r"from torch(?:\.cuda)?\.amp\b|import torch\.(?:cuda\.)?amp\b|from torch import autocast\b")


class ApiUses(Tracker):
    """Tracks the names of libraries, and emits each use once."""

    triggers = frozenset(name.rpartition(".")[2] for name in SUCCESSORS)

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.reported: set[tuple[cst.CSTNode, str]] = set()

    def library_name(self, state: State, node: cst.CSTNode, name: str) -> None:
        """Emit the use of a name once; a deprecated one only if it is no fallback for older versions."""
        machine = self.machine
        if machine.module(state) is not machine.program.main or (node, name) in self.reported:
            return
        if not machine.muted:
            self.reported.add((node, name))
            if self._is_fallback(node, name):
                return
        machine.emit(state, ApiUse, node, name=name, required=self._required(name))

    def file_ends(self, starts: Sequence[State]) -> None:
        """Report the deprecated names on no interpreted path, such as behind a disabled switch."""
        if ApiUse.kind not in self.machine.wanted:
            return
        chunks = [one for one in self.machine.program.main.chunks if one.words & self.triggers and "amp" in one.words]
        known = {node for node, _ in self.reported}
        importing = [one for one in self.machine.program.main.chunks if chunks and "import" in one.words]
        modules = {bound: name for one in importing for _, bound, name in _imports(one) if name not in SUCCESSORS}
        for chunk in chunks:
            found: list[tuple[cst.CSTNode, str]] = [(node, name) for node, _, name in _imports(chunk)]
            found += ((node, name) for node in walk(chunk.module) if (name := _qualified(node, modules)) is not None)
            for node, name in found:
                if name in SUCCESSORS and node not in known and not self._is_fallback(node, name):
                    self.machine.chunk = chunk
                    self.machine.statement = None
                    self.machine.emit(State(), ApiUse, node, name=name, required=self._required(name))

    def _required(self, name: str) -> Wanted | None:
        """The versions of PyTorch or mmcv that the project requires, for a name that newer ones discourage."""
        if ApiUse.kind not in self.machine.wanted:
            return None
        if is_mmcv(name):
            return self.machine.program.wanted_mmcv()
        return self.machine.program.wanted_torch() if name in SUCCESSORS else None

    def _is_fallback(self, node: cst.CSTNode, name: str) -> bool:
        """Whether `name` is a fallback, used only where its successor is missing."""
        source = self.machine.program.main
        if name.startswith(APEX_MODULES):
            return is_fallback(source, node, _NATIVE_IMPORT)
        if name not in SUCCESSORS:
            return False
        successor = SUCCESSORS[name][0]
        call = re.escape(successor) + (r"\([\"']" if "_enabled" in successor else r"\b")
        imported = rf"from torch(?:\.amp)? import [^\n]*\b{successor.rpartition('.')[2]}\b"
        return is_fallback(source, node, re.compile(rf"{call}|{imported}"))

    def join(self, left: Value, right: Value) -> Value | None:
        """Join a name imported from two libraries, or imported or else defined, as the one of PyTorch."""
        if not isinstance(left, (Ref, Class)) or not isinstance(right, (Ref, Class)):
            return None
        libraries = [one for one in (left, right) if isinstance(one, Ref)]
        known = [ref for ref in libraries if ref.name in AUTOCASTS or ref.name in GRAD_SCALERS]
        return known[0] if _last(left) == _last(right) and len(known) == 1 else None


def _imports(chunk: Chunk) -> Iterator[tuple[cst.ImportAlias, str, str]]:
    """The names bound by imports in `chunk`: node, bound name and qualified name in PyTorch."""
    for node in walk(chunk.module):
        if isinstance(node, (cst.Import, cst.ImportFrom)) and not isinstance(node.names, cst.ImportStar):
            module = f"{dotted(node.module)}." if isinstance(node, cst.ImportFrom) and node.module else ""
            for alias in node.names:
                name = f"{module}{dotted(alias.name)}"
                bound = bound_by(alias)
                if name.partition(".")[0] == "torch":
                    yield alias, bound, name if module or alias.asname is not None else "torch"


def _qualified(node: cst.CSTNode, modules: Mapping[str, str]) -> str | None:
    """The qualified name of an attribute of one of these `modules`."""
    root, _, rest = ((dotted(node) or "") if isinstance(node, cst.Attribute) else "").partition(".")
    return f"{modules[root]}.{rest}" if rest and root in modules else None


def _last(named: Ref | Class) -> str:
    if isinstance(named, Ref):
        return named.name.rpartition(".")[2]
    node = node_of(named)
    assert isinstance(node, cst.ClassDef)
    return node.name.value
