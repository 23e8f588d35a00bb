"""Names of methods and functions by effect, whatever the receiver."""

from __future__ import annotations

from amplint.torchlib.catalogue import fact_values, operations_with, operations_with_form
from amplint.torchlib.promotion import FLOATING

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
"""Methods that compute no tensors."""

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
"""Unseen methods that do not affect gradients, scalers and optimizers of their object."""

FLOAT32_BY_DEFAULT = tuple(sorted(operations_with("float32")))
"""Functions that create float32 tensors when called without a dtype, some of them depending on the content."""

CASTS = fact_values("casts")
"""Method of tensors -> the dtype it casts to."""
DISCARDED_CAST = (
    r"(?m)^[ \t]+[\w.]+\.(?:(half|float|bfloat16|double)\(\)|(to|type|type_as)\([^()\n]*(?:dtype|float|half)[^\n]*\))"
    r"[ \t\r]*(?:#[^\n]*)?$"
)
"""The pattern of a statement in a function that is only a cast, as far as one line shows it."""
FLOATING_CASTS = frozenset(name for name, dtype in CASTS.items() if dtype in FLOATING)
CLEARING = ("zero_", "detach_", "requires_grad_")
"""Methods of `parameter.grad` that drop the accumulated gradient."""
SAME_NUMBERS = operations_with_form("m") & FLOATING_CASTS.union(
    *map(operations_with, ("reshapes", "copies", "transfers"))
)
"""Methods of tensors whose result has the same numbers in the same order, perhaps in another shape, dtype or device."""

CHANGES_WEIGHTS = frozenset(
    {"copy_", "mul_", "add_", "sub_", "div_", "lerp_", "zero_", "fill_", "set_", "normal_", "uniform_"}
)
"""Methods that update a parameter in place."""
LOADS_WEIGHTS = "load_state_dict"
"""The method that updates all parameters of a model in place, unless called with `assign`."""
TAKES_VECTOR = "torch.nn.utils.vector_to_parameters"
"""The function that replaces the `data` of the parameters in its second argument."""
CLEARS_COPIES = "torch.clear_autocast_cache"
"""The function that clears autocast's cache of half copies of weights."""
SWITCHES_COPIES = "torch.set_autocast_cache_enabled"
"""The function that switches that cache off, or on."""
COMPILES = frozenset({"torch.compile", "torch._dynamo.optimize"})
"""Functions that compile a model or a function, whose backward pass is traced together with the forward pass."""
OF_BACKWARD = "backward_pass_autocast"
"""The setting for the autocast of a compiled backward pass, "same_as_forward" by default.

Source: `torch/_functorch/config.py` of PyTorch 2.8 to 2.13; versions before trace it in the same way.
"""
