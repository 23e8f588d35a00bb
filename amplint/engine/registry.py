"""All rules: amplint's diagnostics and whatever the entry points bring."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

from amplint.engine.diagnostics import DIAGNOSTICS
from amplint.rule import Registry


def load_registry() -> Registry:
    """A registry with the diagnostics and the rules of every plug-in that can be loaded."""
    _defer("libcst")
    registry = Registry()
    for diagnostic in DIAGNOSTICS:
        registry.add(diagnostic)
    return registry.load()


class _Deferred(ModuleType):
    """A package whose code runs when something in it, or a module below it, is asked for."""

    def __getattr__(self, name: str) -> Any:
        self.__class__ = ModuleType  # type: ignore[assignment]
        if self.__spec__ is not None and self.__spec__.loader is not None:
            self.__path__ = self.__spec__.submodule_search_locations or []
            self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _defer(name: str) -> None:
    """Let `import name` cost nothing yet: rules mention syntax nodes, which most runs have no use for."""
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    if spec is not None:
        module = importlib.util.module_from_spec(spec)
        module.__class__ = _Deferred
        del module.__path__
        sys.modules[name] = module
