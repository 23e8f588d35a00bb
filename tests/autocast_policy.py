"""Derives the autocast policy from the dispatcher of the installed PyTorch. No accelerator is needed.

python -m tests.autocast_policy

writes it to amplint/torchlib/autocast/, in a file named after PyTorch's version. Below the autocast kernel of a device
type lies its autograd kernel; there a recorder is put that ends the call and tells in which dtypes the operands have
arrived. The operands are fake tensors of that device, so that no shape has to be right and nothing is computed.

Builds with cuDNN know one operator more, `_cudnn_rnn`, which runs LSTM, GRU and RNN modules. Its kernel casts to
float16 whatever the region's dtype is, and needs a GPU to do so. It is left out, so that all builds of a version have
the same tables.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

FOLDER = Path(__file__).parents[1] / "amplint" / "torchlib" / "autocast"
DEVICES = ("cuda", "cpu", "xpu", "mps")
WIDE, HALF = torch.float32, torch.float16
ONLY_WITH_CUDNN = "_cudnn_rnn"
_SCALARS = {"int": 1, "SymInt": 1, "float": 1.0, "number": 1.0, "bool": False, "str": "dimname::any"}
"""Type of an argument -> a value of it; strings are the names of dimensions, too, where PyTorch has named tensors."""


class _Arrived(Exception):
    """A call has got through autocast: to which operator, with which dtypes."""

    def __init__(self, operator: OpOverload, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.operator = operator
        self.floating = {x.dtype for x in _tensors(list(arguments.values())) if x.is_floating_point()}
        self.dtype_argument = arguments.get("dtype")


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _tensors(inner)


class _Caller:
    """Calls operators with made-up arguments; tensors get the next of `dtypes`, the last one from then on."""

    def __init__(self, device: str, *dtypes: torch.dtype) -> None:
        self._mode = FakeTensorMode()
        self._device = torch.device(device)
        self._dtypes = list(dtypes)

    def arrival(self, operator: OpOverload) -> _Arrived:
        """What the recorder sees of a call. Raises RuntimeError where autocast refuses to run `operator`."""
        arguments = operator._schema.arguments
        values = {one.name: None if one.name == "dtype" else self._value(str(one.type)) for one in arguments}
        try:
            operator(
                *(values[one.name] for one in arguments if not one.kwarg_only),
                **{one.name: values[one.name] for one in arguments if one.kwarg_only},
            )
        except _Arrived as arrived:
            return arrived
        raise AssertionError(f"{operator} did not get to the recorder")

    def _value(self, kind: str) -> Any:
        if kind == "List[Optional[Tensor]]":  # indices
            return [torch.empty(2, dtype=torch.int64)]
        optional = re.fullmatch(r"Optional\[(.*)\]", kind)
        if optional is not None:
            return self._value(optional[1]) if "Tensor" in kind else None
        several = re.fullmatch(r"List\[(.*)\]", kind)
        if several is not None:
            return [self._value(several[1]), self._value(several[1])]
        return self._tensor() if kind == "Tensor" else _SCALARS[kind]

    def _tensor(self) -> FakeTensor:
        dtype = self._dtypes.pop(0) if len(self._dtypes) > 1 else self._dtypes[0]
        return FakeTensor(self._mode, torch.empty(2, 2, dtype=dtype, device="meta"), self._device)


def treatment(operator: OpOverload, device: str) -> str:
    """What autocast does with `operator`: the name of a field of `amplint.torchlib.tables.Policy`."""
    try:
        wide = _Caller(device, WIDE).arrival(operator)
    except RuntimeError as refusal:
        if "unsafe to autocast" in str(refusal):
            return "banned"
        raise
    half = _Caller(device, HALF).arrival(operator)
    mixed = _Caller(device, WIDE, HALF).arrival(operator)
    if half.dtype_argument is WIDE:
        return "float32_set_dtype" if half.operator is operator else "float32_append_dtype"
    if wide.floating == half.floating == {HALF}:
        return "lower"
    if wide.floating == half.floating == {WIDE}:
        return "float32"
    if (wide.floating, half.floating, mixed.floating) == ({WIDE}, {HALF}, {WIDE}):
        return "promote"
    raise AssertionError(f"{operator} on {device}: autocast does what has no name here")


def operators(key: str) -> Iterator[OpOverload]:
    """The operators of PyTorch itself that have a kernel under a dispatch key."""
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        space, _, operator = name.partition("::")
        packet, _, overload = operator.partition(".")
        known = space == "aten" and torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
        if known and packet != ONLY_WITH_CUDNN:
            yield getattr(getattr(torch.ops.aten, packet), overload or "default")


def of_device(device: str) -> dict[str, list[str]]:
    """Treatment -> full names of the operators that autocast for a device type treats so."""
    listed = list(operators(f"Autocast{device.upper()}"))
    found: dict[str, list[str]] = {}
    with (
        warnings.catch_warnings(),
        torch.library._scoped_library("aten", "IMPL", f"Autograd{device.upper()}") as library,
    ):
        warnings.simplefilter("ignore")
        for packet in dict.fromkeys(operator.overloadpacket for operator in listed):
            for overload in packet.overloads():
                _record(library, getattr(packet, overload))
        before = torch.get_autocast_dtype(device)
        torch.set_autocast_enabled(device, True)
        torch.set_autocast_dtype(device, HALF)
        torch.set_autocast_cache_enabled(False)
        try:
            for operator in listed:
                name = operator._schema.name.removeprefix("aten::")
                overload = operator._schema.overload_name
                found.setdefault(treatment(operator, device), []).append(f"{name}.{overload}".rstrip("."))
        finally:
            torch.set_autocast_cache_enabled(True)
            torch.set_autocast_dtype(device, before)
            torch.set_autocast_enabled(device, False)
    return {kind: sorted(names) for kind, names in sorted(found.items())}


def _record(library: torch.library.Library, operator: OpOverload) -> None:
    def recorder(*positional: Any, **named: Any) -> None:
        names = (argument.name for argument in operator._schema.arguments)
        raise _Arrived(operator, {**dict(zip(names, positional, strict=False)), **named})

    library.impl(operator, recorder)


def derive() -> dict[str, Any]:
    """The policy of every device type of `DEVICES`, as it is stored."""
    default_dtype = {device: str(torch.get_autocast_dtype(device)).removeprefix("torch.") for device in DEVICES}
    return {
        "torch": torch.__version__.partition("+")[0],
        "default_dtype": default_dtype,
        "operators": {device: of_device(device) for device in DEVICES},
    }


def path(version: str) -> Path:
    """Where the policy of a version of PyTorch is stored."""
    return FOLDER / f"torch-{'.'.join(version.split('.')[:2])}.json"


def main() -> None:
    """Derive and write."""
    found = derive()
    path(found["torch"]).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
