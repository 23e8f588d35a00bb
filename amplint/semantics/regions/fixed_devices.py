"""Regions and scalers for one fixed device type in device-agnostic code."""

from __future__ import annotations

from amplint.premises import Premise
from amplint.semantics.events import DeviceFixed, DisabledForOneDevice
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.reading.chosen_devices import (
    chosen_device,
    device_of_function,
    device_of_regions,
    device_of_work,
    device_premises,
    is_by_availability,
    is_function_by_availability,
    is_listed_or_cpu,
    runs_on_given_device,
    runs_where_called,
)
from amplint.semantics.reading.cuda_needs import has_kernels, is_kept_to_cuda
from amplint.semantics.reading.device_conditions import is_about_devices
from amplint.semantics.reading.scopes import last_name
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import FALSE, Autocast, Const, Ref, Scaler, Value
from amplint.semantics.words import NAMED_DEVICE
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import every
from amplint.torchlib.names import AUTOCASTS, GRAD_SCALERS, SHARDED_SCALER, SUCCESSORS

_ASKS, _ASKS_CUDA = Ref("torch.get_autocast_dtype"), Ref("torch.get_autocast_gpu_dtype")
_CUDA = Const("cuda")
_FLOAT32 = frozenset({"float32"})


class FixedDevices(Tracker):
    """Emits regions and scalers for a fixed device type at their construction."""

    triggers = frozenset({"get_autocast_dtype", "get_autocast_gpu_dtype"})

    def is_needed(self) -> bool:
        """Whether a selected rule handles one of the events."""
        return not self.machine.wanted.isdisjoint((DeviceFixed.kind, DisabledForOneDevice.kind))

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """Check an autocast context or a scaler at its construction, and reads of CUDA's autocast dtype."""
        if call.callee == _ASKS_CUDA or (call.callee == _ASKS and call.arguments.value("device_type", 0) == _CUDA):
            self._asked(state, call)
        if not isinstance(result, (Autocast, Scaler)):
            return
        if result.enabled == FALSE:
            self._disabled(state, call)
            return
        if isinstance(result, Autocast) and result.dtypes == _FLOAT32:
            self._disabled(state, call, casts=True)
            return
        device = _device(call)
        source = self.machine.program.source_of(call.node) if device != "cpu" else None
        if source is None or _may_be_off(self.machine, call.arguments):
            return
        above = source.parent(call.node)
        if isinstance(above, cst.BooleanOperation) and above.left is call.node:
            return  # the left operand of `and` is not entered
        if device is None:
            self._report_availability(state, call, source)
            return
        chosen = chosen_device(source, call.node)
        program = self.machine.program
        if chosen is not None and (is_kept_to_cuda(program) or program.kernels_beside() is not None):
            return
        if chosen is not None:
            name = source.code(chosen)
            last = last_name(chosen) or "device"
            guesses = NAMED_DEVICE.guesses(last) if last != "device" else ()
            self.machine.emit(
                state, DeviceFixed, call.node, device=device, chosen=chosen, name=name, guesses=guesses,
                scaler=isinstance(result, Scaler), premises=device_premises(source),
                to_numpy=not isinstance(result, Scaler) and _goes_to_numpy(source, call.node),
            )  # fmt: skip
        elif self.machine.assumes:
            self._suppose(state, call, source, device, isinstance(result, Scaler))

    def _suppose(self, state: State, call: Call, source: Source, device: str, scaler: bool) -> None:
        """Emit `DeviceFixed` where only parts of a file need CUDA, or code is called with work on any device."""
        chosen = (device_of_regions(source) if scaler else None) or device_of_function(source, call.node)
        name = source.code(chosen) if chosen is not None else None
        if name is None and runs_on_given_device(source, call.node):
            name = _function_around(source, call.node)
        if name is not None:
            self.machine.emit(
                state, DeviceFixed, call.node, device=device, chosen=chosen, name=name, scaler=scaler, assumed=True
            )  # fmt: skip

    def _report_availability(self, state: State, call: Call, source: Source) -> None:
        """Emit `DeviceFixed` for a region whose device type is chosen by availability, unlike the device of the
        work, or is the CPU's for all devices that a list leaves out.
        """
        given = call.arguments.get("device_type", 0)
        if not isinstance(call.callee, Ref) or call.callee.name not in AUTOCASTS or given is None:
            return
        if is_listed_or_cpu(source, given.node.value):
            listed, name = given.node.value, source.code(given.node.value)
            self.machine.emit(
                state, DeviceFixed, call.node, device="cpu", chosen=listed, name=name, listed=True,
                premises=(Premise.ANOTHER_DEVICE,),
            )  # fmt: skip
        if not is_by_availability(source, given.node.value):
            return
        chosen = device_of_work(source, call.node)
        asks = chosen is not None and is_function_by_availability(self.machine.program, source, chosen)
        if chosen is not None and not asks and not is_by_availability(source, chosen):
            name = source.code(chosen)
            guesses = NAMED_DEVICE.guesses(last_name(chosen) or "")
            self.machine.emit(
                state, DeviceFixed, call.node, device="cuda", chosen=chosen, name=name, by_availability=True,
                guesses=guesses, premises=(Premise.ANOTHER_DEVICE,),
            )  # fmt: skip
        elif self.machine.assumes and chosen is None and runs_on_given_device(source, call.node):
            self.machine.emit(
                state, DeviceFixed, call.node, device="cuda", chosen=None, name=_function_around(source, call.node),
                by_availability=True, assumed=True,
            )  # fmt: skip

    def _asked(self, state: State, call: Call) -> None:
        source = self.machine.program.source_of(call.node)
        chosen = chosen_device(source, call.node) if source is not None and not has_kernels(source) else None
        if source is not None and chosen is not None:
            last = last_name(chosen) or "device"
            guesses = NAMED_DEVICE.guesses(last) if last != "device" else ()
            self.machine.emit(
                state, DeviceFixed, call.node, device="cuda", chosen=chosen, name=source.code(chosen), asks=True,
                guesses=guesses, premises=device_premises(source),
            )  # fmt: skip

    def _disabled(self, state: State, call: Call, *, casts: bool = False) -> None:
        """Emit a region that disables autocast, or `casts` to float32, for the one device type it names."""
        source = self.machine.program.source_of(call.node)
        if not isinstance(call.callee, Ref) or source is None:
            return
        device = _device(call)
        if device not in (None, "cpu") and runs_where_called(source, call.node):
            unseen = (Premise.ANOTHER_DEVICE, Premise.REGION_OF_CALLER)
            self.machine.emit(state, DisabledForOneDevice, call.node, device=device, casts=casts, premises=unseen)


def _function_around(source: Source, node: cst.CSTNode) -> str:
    """The name of the innermost function around `node`, with that of its class."""
    functions = [above for above in source.ancestors(node) if isinstance(above, (cst.FunctionDef, cst.ClassDef))]
    names = [above.name.value for above in functions[:2] if above is functions[0] or isinstance(above, cst.ClassDef)]
    return ".".join(reversed(names))


def _goes_to_numpy(source: Source, node: cst.CSTNode) -> bool:
    """Whether the function around a region converts tensors to NumPy, without a conversion to float32 before."""
    function = source.function_around(node)
    calls = every(function, cst.Call) if function is not None else ()
    return any(last_name(call.func) == "numpy" and ".float()" not in source.code(call.func) for call in calls)


def _device(call: Call) -> str | None:
    """The fixed device type of a context or scaler, by its class or a string; None for any other."""
    if not isinstance(call.callee, Ref):
        return None
    name, parameter = call.callee.name, "device_type" if call.callee.name in AUTOCASTS else "device"
    if name in SUCCESSORS:
        return SUCCESSORS[name][1]
    given = call.arguments.get(parameter, 0)
    if given is None:
        return GRAD_SCALERS.get(name) if name != SHARDED_SCALER else None
    written = given.node.value
    return written.raw_value if isinstance(written, cst.SimpleString) else None


def _may_be_off(machine: Machine, arguments: Arguments) -> bool:
    """Whether a flag that tests for the device disables it; the file of a partial can be another than the call's."""
    enabled = next((one for one in arguments.given if one.keyword == "enabled"), None)
    source = machine.program.source_of(enabled.node) if enabled is not None else None
    return enabled is not None and source is not None and is_about_devices(source, enabled.node.value)
