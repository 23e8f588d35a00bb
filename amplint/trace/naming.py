"""One name for `Multiply` of the syntax, `torch.Tensor.__rmul__` of the API and `mul_` of the dispatcher."""

from __future__ import annotations

from amplint.torchlib.catalogue import fact_values, operations_with
from amplint.torchlib.methods import FLOATING_CASTS

_OPERATORS = {operator: op for op, operator in fact_values("operator").items()}
_ONE_NAME = {
    **_OPERATORS,
    **fact_values("alias"),
    **{f"{side}{op}": op for op in _OPERATORS.values() for side in "ri"},
    **dict.fromkeys(("truediv", "rtruediv", "itruediv"), "div"),
    **dict.fromkeys(operations_with("limits"), "clamp"),
    **dict.fromkeys((*FLOATING_CASTS, "type_as", "type", "to_copy"), "to"),
    "square": "pow",
    "setitem": "index_put",
}


def names_of(*names: str) -> set[str]:
    """The common name of each of `names`, without qualifiers and surrounding underscores."""
    plain = (name.rpartition(".")[2].strip("_") for name in names if name)
    return {_ONE_NAME.get(name, name) for name in plain}
