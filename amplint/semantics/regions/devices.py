"""Values of `torch.device`: their construction, type and text, and the joins of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.tracker import Call, Handler, Tracker
from amplint.semantics.reading.chosen_devices import returns_device
from amplint.semantics.regions import device_types
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Device, Function, OneOf, Value
from amplint.source import syntax as cst


class Devices(Tracker):
    """Tracks the type of a device as far as the script shows it."""

    def library(self) -> Mapping[str, Handler]:
        """Classes that make a device."""
        return {"torch.device": self._made, "torch.cuda.device": self._made}

    def _made(self, state: State, call: Call) -> Value | None:
        arguments = call.arguments
        return Device(device_types.types(arguments.value("type", 0) or arguments.value("device", 0)))

    def text_value(self, value: Value) -> Value | None:
        """The type of a device of known type."""
        return self._type(value) if isinstance(value, Device) and value.types is not None else None

    def annotated_value(self, symbol: int, name: str) -> Value | None:
        """The value of a parameter annotated as a device."""
        return Device(None) if name == "torch.device" else None

    def unfollowed_value(self, function: Function, given: Sequence[Value]) -> Value | None:
        """The device that a function chooses."""
        body = node_of(function) if "torch.device" in function.chunk.text else None
        return Device(None) if isinstance(body, cst.FunctionDef) and returns_device(body) else None

    def attribute_value(self, state: State, owner: Value, name: str) -> Value | None:
        """The type of a device, one of several, or unknown."""
        return self._type(owner) if isinstance(owner, Device) and name == "type" else None

    def _type(self, device: Device) -> Value:
        if device.types is None:
            return self.machine.unknown("device type")
        return Const(next(iter(device.types))) if len(device.types) == 1 else OneOf(device.types)

    def join(self, left: Value, right: Value) -> Value | None:
        """A device of the types of either."""
        if not isinstance(left, Device) or not isinstance(right, Device):
            return None
        if left.types is None or right.types is None:
            return Device(None)
        return Device(left.types | right.types)
