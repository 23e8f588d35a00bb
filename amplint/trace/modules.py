"""The running module: paths such as `model.layers.0`, tracked by hooks on every module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from types import FrameType
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import nn
from torch.nn.modules import module as hooks
from torch.utils.weak import WeakIdKeyDictionary

from amplint.trace.frames import is_library, is_own

_CALLS = 4
"""So often a module that is called is looked for in variables."""


class Modules:
    """The running modules, innermost last, and the paths of modules and parameters.

    A model is named by the variable that holds it where it is called: a local or global one of the user's code, or an
    attribute of `self`, else one of the library code in between. A model in no variable is named by its class, or
    that of the enclosing module, until a variable holds it in one of the next calls. `on_return` is called with the
    path of a module that returned, its output, and `outermost`: that no other module is running.
    """

    def __init__(self) -> None:
        self._running: list[str] = []
        self._paths: dict[int, tuple[ReferenceType[nn.Module], str]] = {}
        self._parameters: MutableMapping[torch.Tensor, str] = WeakIdKeyDictionary()
        self._handles: list[Any] = []
        self._classed: MutableMapping[nn.Module, int] = WeakIdKeyDictionary()
        self.on_return: Callable[..., None] | None = None

    def attach(self) -> None:
        """Install the hooks."""
        self._handles = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
        ]

    def detach(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._running.clear()

    @property
    def current(self) -> str:
        """The path of the innermost running module, empty outside of any."""
        return self._running[-1] if self._running else ""

    def parameter(self, tensor: torch.Tensor) -> str:
        """The path of a parameter, empty if its module never ran."""
        return self._parameters.get(tensor, "")

    def parameters(self) -> Iterator[torch.Tensor]:
        """The parameters of modules that ran."""
        return iter(list(self._parameters))

    def _enter(self, module: nn.Module, inputs: object) -> None:
        known = self._paths.get(id(module))
        again = self._classed and not self._running and self._classed.get(module)
        if known is None or known[0]() is not module or again:
            self._name_all(module)
            known = self._paths[id(module)]
        self._running.append(known[1])

    def _leave(self, module: nn.Module, inputs: object, output: object) -> None:
        if self._running:
            path = self._running.pop()
            if self.on_return is not None:
                self.on_return(path, output, outermost=not self._running)

    def _name_all(self, module: nn.Module) -> None:
        """Name `module` and the rest of its model after the variable that holds them."""
        holders = (held for held in _holders() if any(part is module for part in held[1].modules()))
        name, root = next(holders, ("", module))
        if name:
            self._forget([part for part in root.modules() if part in self._classed])
        for path, part in root.named_modules():
            known = self._paths.get(id(part))
            if known is None or known[0]() is not part:
                self._paths[id(part)] = ref(part), f"{name or type(root).__name__}.{path}".rstrip(".")
        for path, parameter in root.named_parameters():
            self._parameters.setdefault(parameter, f"{name or type(root).__name__}.{path}")
        if not name:
            for part in root.modules():
                self._classed.setdefault(part, _CALLS)
            self._classed[module] -= 1

    def _forget(self, parts: Iterable[nn.Module]) -> None:
        for part in parts:
            del self._classed[part], self._paths[id(part)]
            for parameter in part.parameters(recurse=False):
                self._parameters.pop(parameter, None)


def _holders() -> Iterator[tuple[str, nn.Module]]:
    """The modules in variables, with the variables' names: of calling user code, then of libraries.

    A running module of a library comes without a name.
    """
    frame: FrameType | None = sys._getframe(1)
    between = []
    while frame is not None and not is_own(frame.f_code):
        if is_library(frame.f_code):
            between.append(frame)
        frame = frame.f_back
    while frame is not None:
        yield from _variables(frame)
        if frame.f_locals is not frame.f_globals:
            yield from _modules(frame.f_globals)
        frame = frame.f_back
    for frame in reversed(between):
        yield from _variables(frame)
        if isinstance(frame.f_locals.get("self"), nn.Module):
            yield "", frame.f_locals["self"]


def _variables(frame: FrameType) -> Iterator[tuple[str, nn.Module]]:
    yield from _modules(frame.f_locals)
    owner = frame.f_locals.get("self")
    if owner is not None and not isinstance(owner, nn.Module):
        yield from _modules(getattr(owner, "__dict__", {}))


def _modules(names: Mapping[str, object]) -> Iterator[tuple[str, nn.Module]]:
    for name, value in list(names.items()):
        if isinstance(value, nn.Module) and name != "self":
            yield name, value
