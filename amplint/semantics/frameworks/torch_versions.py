"""Questions for the version of PyTorch that all supported versions answer alike."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Function, Ref, Unknown, Value
from amplint.source import syntax as cst
from amplint.torchlib.policy import words
from amplint.torchlib.versions import version

_FIRST = (2, 0)
"""The versions before it are not supported."""
_ASKS = "is_torch_version"
"""The function of Accelerate, Diffusers and Transformers that compares the version, as in `(">=", "1.11.0")`."""
_PARSES = words("parse Version parse_version LooseVersion StrictVersion")
"""What `packaging.version`, `pkg_resources` and `distutils.version` parse versions with."""
_TEXT, _PARSED = Ref("torch.__version__"), "version"
_SPLIT = "torch.__version__.split"
_ANSWERS = {">": True, ">=": True, "!=": True, "<": False, "<=": False, "==": False}
"""Comparison -> what it is for a version before the first that is supported."""
_SIGNS: dict[type[cst.CSTNode], str] = {
    cst.GreaterThan: ">",
    cst.GreaterThanEqual: ">=",
    cst.NotEqual: "!=",
    cst.LessThan: "<",
    cst.LessThanEqual: "<=",
    cst.Equal: "==",
}
_TURNED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
"""Comparison -> the same one with its sides exchanged."""


class TorchVersions(Tracker):
    """Decides comparisons with versions that are too old to run."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._first = symbol_of(machine, Const(0))

    def handles_library_call(self, name: str) -> bool:
        """Whether this compares the version of PyTorch, or parses a version."""
        module, _, last = name.rpartition(".")
        return (
            last == _ASKS
            or name == _SPLIT
            or (last in _PARSES and module.rpartition(".")[2] in ("version", "pkg_resources"))
        )

    def library_call(self, state: State, call: Call) -> Value | None:
        """Return the answer, None where it depends on the version that runs; or the parsed version."""
        assert isinstance(call.callee, Ref)
        if call.callee.name.rpartition(".")[2] == _ASKS:
            return _asked(call.arguments.value("operation", 0), call.arguments.value("version", 1))
        given = call.arguments.values[0] if call.arguments.given else None
        if call.callee.name == _SPLIT:
            given = _TEXT
        text = self._version(given)
        return self.machine.unknown(_PARSED, text) if text is not None else None

    def unfollowed_value(self, function: Function, given: Sequence[Value]) -> Value | None:
        """The answer of a copy of the function that compares the version."""
        return _asked(*given) if function.chunk.name == _ASKS and len(given) == 2 else None

    def compared(self, state: State, node: cst.Comparison, left: Value, right: Value) -> Value | None:
        """Return the answer to a comparison of PyTorch's version with an old one."""
        if not isinstance(left, (Unknown, Ref)) and not isinstance(right, (Unknown, Ref)):
            return None
        sign = _SIGNS.get(type(node.comparisons[0].operator))
        if self._version(right) == _TEXT.name:
            left, right, sign = right, left, _TURNED.get(sign or "", sign)
        than = self._version(right) if self._version(left) == _TEXT.name else None
        return _answer(sign, than) if than is not None and than != _TEXT.name and sign is not None else None

    def _version(self, value: Value | None) -> str | None:
        """The text of a version or of a parsed one, `torch.__version__` for that of PyTorch; None for another value."""
        if isinstance(value, Const):
            return value.value if isinstance(value.value, str) else None
        if not isinstance(value, Unknown):
            return _TEXT.name if value == _TEXT else None
        key, parts = self.machine.symbols.key(value.symbol), self.machine.symbols.parts(value.symbol)
        if key[:2] == ("attribute", "base_version") or (key[0] == "index" and parts[1:] == (self._first,)):
            return self._version(Unknown(parts[0]))
        return str(key[1]) if key[0] == _PARSED else None


def _asked(comparison: Value | None, than: Value | None) -> Value | None:
    """The answer to a comparison with a version, both given as strings."""
    if not isinstance(comparison, Const) or not isinstance(than, Const) or not isinstance(than.value, str):
        return None
    return _answer(str(comparison.value), than.value)


def _answer(comparison: str, than: str) -> Value | None:
    answer = _ANSWERS.get(comparison) if () != version(than) < _FIRST else None
    return Const(answer) if answer is not None else None
