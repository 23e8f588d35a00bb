"""Numerical constants of libraries, and functions of numbers."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

_LIMITS = {
    "float16": {"max": 65504.0, "tiny": 2.0**-14, "eps": 2.0**-10},
    "bfloat16": {"max": 2.0**128 - 2.0**120, "tiny": 2.0**-126, "eps": 2.0**-7},
    "float32": {"max": 2.0**128 - 2.0**104, "tiny": 2.0**-126, "eps": 2.0**-23},
    "float64": {"max": sys.float_info.max, "tiny": sys.float_info.min, "eps": sys.float_info.epsilon},
}

CONSTANTS: dict[str, float] = {
    "math.inf": math.inf,
    "numpy.inf": math.inf,
    "numpy.Inf": math.inf,
    "torch.inf": math.inf,
    "sys.maxsize": 2**63 - 1,
    "sys.float_info.max": sys.float_info.max,
    "sys.float_info.min": sys.float_info.min,
    "sys.float_info.epsilon": sys.float_info.epsilon,
}
"""Qualified name -> value."""

for _dtype, _known in _LIMITS.items():
    _finfo = f"torch.finfo.{_dtype}"
    CONSTANTS.update({f"{_finfo}.{_name}": _value for _name, _value in _known.items()})
    CONSTANTS.update({f"{_finfo}.min": -_known["max"], f"{_finfo}.smallest_normal": _known["tiny"]})
    CONSTANTS.update({f"numpy.finfo.{_dtype}.{_name}": CONSTANTS[f"{_finfo}.{_name}"] for _name in (*_known, "min")})
for _bits in (8, 16, 32, 64):
    for _library in ("torch", "numpy"):
        CONSTANTS[f"{_library}.iinfo.int{_bits}.max"] = 2 ** (_bits - 1) - 1
        CONSTANTS[f"{_library}.iinfo.int{_bits}.min"] = -(2 ** (_bits - 1))

FUNCTIONS: dict[str, Callable[..., float]] = {
    **{f"math.{name}": getattr(math, name) for name in ("exp", "floor", "ceil", "log", "log2", "log10", "pow", "sqrt")},
    **{f"numpy.{name}": getattr(math, name) for name in ("exp", "log", "log2", "log10", "sqrt")},
    **dict.fromkeys(("numpy.power", "numpy.float_power", "builtins.pow"), math.pow),
    **dict.fromkeys(("builtins.abs", "math.fabs", "numpy.abs"), abs),
    **dict.fromkeys(("builtins.max", "numpy.maximum"), max),
    **dict.fromkeys(("builtins.min", "numpy.minimum"), min),
    **dict.fromkeys(("numpy.float32", "numpy.float64", "numpy.double"), float),
    **dict.fromkeys(("builtins.int", "numpy.int32", "numpy.int64"), int),
}
"""Qualified name of a function -> the function that computes its result for numbers."""
LIMITS = frozenset({"torch.finfo", "torch.iinfo", "numpy.finfo", "numpy.iinfo"})
"""Classes that hold the limits of a dtype."""


def computed(name: str, numbers: list[float]) -> float | None:
    """The finite result of a function of numbers, None for any other."""
    function = FUNCTIONS.get(name)
    if function is None or not numbers:
        return None
    try:
        result = function(*numbers)
    except (ArithmeticError, TypeError, ValueError):
        return None
    return result if isinstance(result, (int, float)) and math.isfinite(result) else None
