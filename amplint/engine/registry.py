"""All rules: amplint's diagnostics and the rules of installed entry points."""

from __future__ import annotations

import importlib.util
import re
import sys
from types import ModuleType
from typing import Any

from amplint.engine.diagnostics import DIAGNOSTICS
from amplint.findings import Severity
from amplint.regex import Regex
from amplint.rule import BrokenPlugin, Registry, Rule


def load_registry() -> Registry:
    """A registry with the diagnostics and the rules of every plug-in that can be loaded."""
    _defer("libcst")
    registry = Registry()
    for diagnostic in DIAGNOSTICS:
        registry.add(diagnostic)
    registry.load()
    for rule in list(registry.rules.values()):
        flaw = _invalid_attribute(rule)
        if flaw:
            del registry.rules[rule.code]
            registry.broken.append(BrokenPlugin(rule.__module__, f"{rule.__qualname__} has no valid `{flaw}`"))
    return registry


def _invalid_attribute(rule: type[Rule]) -> str | None:
    """The name of a class variable that is missing or has the wrong type."""
    kinds = {"code": str, "name": str, "severity": Severity, "screen": tuple, "default": bool}
    for name, kind in kinds.items():
        if not isinstance(getattr(rule, name, None), kind):
            return name
    patterns = [pattern for item in rule.screen for pattern in (item if isinstance(item, tuple) else (item,))]
    return None if all(isinstance(pattern, (bytes, re.Pattern, Regex)) for pattern in patterns) else "screen"


class _Deferred(ModuleType):
    """A package whose code runs on first access to an attribute or a submodule."""

    def __getattr__(self, name: str) -> Any:
        self.__class__ = ModuleType  # type: ignore[assignment]
        if self.__spec__ is not None and self.__spec__.loader is not None:
            self.__path__ = self.__spec__.submodule_search_locations or []
            self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _defer(name: str) -> None:
    """Defer the import of a package: rules import syntax nodes, which most runs do not need."""
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    if spec is not None:
        module = importlib.util.module_from_spec(spec)
        module.__class__ = _Deferred
        del module.__path__
        sys.modules[name] = module
