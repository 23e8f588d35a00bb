"""Questions for the version of PyTorch that all supported versions answer alike."""

from __future__ import annotations

from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Ref, Value
from amplint.torchlib.versions import version

_FIRST = (2, 0)
"""The versions before it are not supported."""
_ASKS = "is_torch_version"
"""The function of Accelerate, Diffusers and Transformers that compares the version, as in `(">=", "1.11.0")`."""
_ANSWERS = {">": True, ">=": True, "!=": True, "<": False, "<=": False, "==": False}
"""Comparison -> what it is for a version before the first that is supported."""


class TorchVersions(Tracker):
    """Decides comparisons with versions that are too old to run."""

    def handles_library_call(self, name: str) -> bool:
        """Whether this compares the version of PyTorch."""
        return name.rpartition(".")[2] == _ASKS

    def library_call(self, state: State, call: Call) -> Value | None:
        """Return the answer, None where it depends on the version that runs."""
        assert isinstance(call.callee, Ref)
        comparison, than = call.arguments.value("operation", 0), call.arguments.value("version", 1)
        if not isinstance(comparison, Const) or not isinstance(than, Const) or not isinstance(than.value, str):
            return None
        answer = _ANSWERS.get(str(comparison.value)) if version(than.value) < _FIRST else None
        return Const(answer) if answer is not None else None
