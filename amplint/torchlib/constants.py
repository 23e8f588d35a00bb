"""Numerical constants defined by libraries."""

from __future__ import annotations

import math
import sys

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
