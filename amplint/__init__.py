"""Static analysis of PyTorch mixed-precision training code."""

TYPE_CHECKING = False  # not `typing.TYPE_CHECKING`: nothing may be imported before `hardening` has run
if TYPE_CHECKING:
    from amplint.api import (
        Applicability,
        ConfigError,
        Converted,
        Edit,
        Finding,
        Fix,
        Guessed,
        Note,
        Position,
        Remark,
        Repaired,
        RuleDescription,
        Settings,
        Severity,
        Span,
        check,
        convert,
        fix,
        rules,
    )

__version__ = "0.1.0"

__all__ = [
    "Applicability",
    "ConfigError",
    "Converted",
    "Edit",
    "Finding",
    "Fix",
    "Guessed",
    "Note",
    "Position",
    "Remark",
    "Repaired",
    "RuleDescription",
    "Settings",
    "Severity",
    "Span",
    "__version__",
    "check",
    "convert",
    "fix",
    "rules",
]


def __getattr__(name: str) -> object:
    """Load the names of `__all__` that lie in `amplint.api`, which imports many modules, on first access."""
    if name in __all__:
        from amplint import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
