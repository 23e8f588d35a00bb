"""Limits of a dtype: `torch.finfo(dtype)` and the like."""

from __future__ import annotations

from collections.abc import Mapping

from amplint.semantics.python.tracker import Call, Handler, Tracker
from amplint.semantics.tensors.tensors import dtype_of
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Ref, Value
from amplint.torchlib.constants import LIMITS
from amplint.torchlib.names import DTYPES

_OTHER_NAMES = {"builtins.float": "float64", "numpy.double": "float64", "numpy.single": "float32"}


class DtypeLimits(Tracker):
    """Evaluates the classes of limits to a name for each dtype, whose attributes are constants."""

    def library(self) -> Mapping[str, Handler]:
        """PyTorch's and NumPy's classes."""
        return dict.fromkeys(LIMITS, self._limits)

    def _limits(self, state: State, call: Call) -> Value | None:
        assert isinstance(call.callee, Ref)
        values = call.arguments.values
        dtype = self._dtype(values[0]) if values else "float32"
        return Ref(f"{call.callee.name}.{dtype}") if dtype is not None and len(values) <= 1 else None

    def _dtype(self, value: Value) -> str | None:
        if isinstance(value, Const):
            return value.value if isinstance(value.value, str) else None
        if not isinstance(value, Ref):
            return dtype_of(self.machine, value)
        return DTYPES.get(value.name) or _OTHER_NAMES.get(value.name) or value.name.rpartition(".")[2]
