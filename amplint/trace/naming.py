"""One name for what the syntax calls `Multiply`, the API `torch.Tensor.__rmul__` and the dispatcher `mul_`."""

from __future__ import annotations

from amplint.torchlib.catalogue import having, valued
from amplint.torchlib.methods import FLOATING_CASTS

_OPERATORS = {operator: op for op, operator in valued("operator").items()}
_ONE_NAME = {
    **_OPERATORS,
    **valued("alias"),
    **{f"{side}{op}": op for op in _OPERATORS.values() for side in "ri"},
    **dict.fromkeys(("truediv", "rtruediv", "itruediv"), "div"),
    **dict.fromkeys(having("limits"), "clamp"),
    **dict.fromkeys((*FLOATING_CASTS, "type_as", "type", "to_copy"), "to"),
    "square": "pow",
    "setitem": "index_put",
}


def names_of(*names: str) -> set[str]:
    """Each of `names` without what leads to it and without underscores around it, by the one name of its kind."""
    plain = (name.rpartition(".")[2].strip("_") for name in names if name)
    return {_ONE_NAME.get(name, name) for name in plain}
