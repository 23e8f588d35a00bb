"""One name for what the syntax calls `Multiply`, the API `torch.Tensor.__rmul__` and the dispatcher `mul_`."""

from __future__ import annotations

_ARITHMETIC = {
    "add": ("Add", "radd", "iadd"),
    "sub": ("Subtract", "subtract", "rsub", "isub"),
    "mul": ("Multiply", "multiply", "rmul", "imul"),
    "div": ("Divide", "divide", "truediv", "rdiv", "rtruediv", "itruediv", "true_divide"),
    "pow": ("Power", "rpow", "square"),
    "matmul": ("rmatmul", "imatmul"),
    "clamp": ("clamp_min", "clamp_max", "clip"),
    "index_put": ("setitem",),
    "to": ("half", "bfloat16", "float", "double", "type_as", "type", "to_copy"),
}
_ONE_NAME = {other: name for name, others in _ARITHMETIC.items() for other in others}


def names_of(*names: str) -> set[str]:
    """Each of `names` without what leads to it and without underscores around it, by the one name of its kind."""
    plain = (name.rpartition(".")[2].strip("_") for name in names if name)
    return {_ONE_NAME.get(name, name) for name in plain}
