"""Names of methods that are known to be harmless whatever they are called on."""

from __future__ import annotations

IDLE_METHODS = frozenset(
    [
        "item",
        "append",
        "extend",
        "update",
        "step",
        "add",
        "set_description",
        "set_postfix",
        "info",
        "debug",
        "warning",
        "log",
        "write",
        "format",
        "join",
        "items",
        "keys",
        "values",
        "get",
        "add_scalar",
        "print",
        "train",
        "eval",
        "set_epoch",
        "next",
        "close",
        "flush",
        "state_dict",
        "tolist",
        "numpy",
        "reset",
    ]
)
"""Methods that do no tensor work."""

INHERITED_HARMLESS = frozenset(
    [
        "log",
        "log_dict",
        "print",
        "train",
        "eval",
        "parameters",
        "named_parameters",
        "modules",
        "children",
        "state_dict",
        "load_state_dict",
        "to",
        "cuda",
        "cpu",
        "register_buffer",
        "register_parameter",
        "add_module",
        "save_hyperparameters",
        "apply",
        "requires_grad_",
        "half",
        "float",
    ]
)
"""Methods out of sight that leave gradients, scalers and optimizers of their object alone."""

FLOAT32_BY_DEFAULT = (
    *("zeros", "ones", "empty", "full", "rand", "randn", "eye", "normal", "linspace", "logspace", "arange"),
    *("tensor", "as_tensor", "Tensor", "FloatTensor"),
)
"""Functions that make float32 tensors where they are given no dtype, some of them depending on the content."""
