"""What `isinstance` and `torch.is_tensor` tell of tensors, and what a path that has asked them knows."""

from __future__ import annotations

from collections.abc import Mapping

from amplint.semantics.python.instances import is_instance, tests
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Handler, Tracker
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Items, Module, Optimizer, Ref, Scaler, Tensor, Value

_TENSOR = "torch.Tensor"
_NO_TENSORS = frozenset(
    {f"builtins.{name}" for name in ("list", "tuple", "dict", "set", "str", "int", "float", "bool")}
    | {"numpy.ndarray", "torch.nn.Module"}
)


def is_no_tensor(machine: Machine, state: State, symbol: int) -> bool:
    """Whether the path has learned by a test of its class that the value `symbol` is no tensor."""
    return any(
        names <= _NO_TENSORS if outcome else _TENSOR in names for names, outcome in tests(machine, state, symbol)
    )


class Kinds(Tracker):
    """Answers tests of the class of tensors."""

    def library(self) -> Mapping[str, Handler]:
        """`torch.is_tensor`."""
        return {"torch.is_tensor": self._is_tensor}

    def _is_tensor(self, state: State, call: Call) -> Value | None:
        given = call.arguments.value("obj", 0)
        return is_instance(self.machine, state, given, Ref(_TENSOR)) if given is not None else None

    def instance_of(self, value: Value, cls: str) -> bool | None:
        """Whether `value` is of PyTorch's class, or, if it is a tensor, of another one."""
        if cls == _TENSOR:
            other = isinstance(value, (Const, Items, Module, Optimizer)) or (
                isinstance(value, Scaler) and value.created is not None
            )
            return True if isinstance(value, Tensor) else False if other else None
        if cls == "torch.nn.Module" and isinstance(value, Module):
            return True
        return False if isinstance(value, Tensor) and cls in _NO_TENSORS else None
