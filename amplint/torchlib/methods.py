"""Names of methods and functions by effect, whatever the receiver."""

from __future__ import annotations

from amplint.torchlib.catalogue import called_as, having, valued
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
"""Methods in unseen code that leave gradients, scalers and optimizers of their object alone."""

FLOAT32_BY_DEFAULT = tuple(sorted(having("float32")))
"""Functions that make float32 tensors where they are given no dtype, some of them depending on the content."""

CASTS = valued("casts")
"""Method of tensors -> the dtype it converts to."""
DISCARDED_CAST = (
    r"(?m)^[ \t]+[\w.]+\.(?:(half|float|bfloat16|double)\(\)|(to|type|type_as)\([^()\n]*(?:dtype|float|half)[^\n]*\))"
    r"[ \t\r]*(?:#[^\n]*)?$"
)
"""The pattern of a statement in a function that is a conversion and nothing else, as far as a line says it."""
FLOATING_CASTS = frozenset(name for name, dtype in CASTS.items() if dtype in FLOATING)
CLEARING = ("zero_", "detach_", "requires_grad_")
"""Methods of `parameter.grad` after which it holds no gradient that was added up before."""
SAME_NUMBERS = called_as("m") & FLOATING_CASTS.union(*map(having, ("reshapes", "copies", "transfers")))
"""Methods of tensors that give all its numbers in the same order, perhaps in another shape or dtype, or elsewhere."""

CHANGES_WEIGHTS = frozenset(
    {"copy_", "mul_", "add_", "sub_", "div_", "lerp_", "zero_", "fill_", "set_", "normal_", "uniform_"}
)
"""Methods that change a parameter in place."""
LOADS_WEIGHTS = "load_state_dict"
"""The method that changes all parameters of a model in place, unless it is asked to `assign`."""
TAKES_VECTOR = "torch.nn.utils.vector_to_parameters"
"""What gives parameters, its second argument, other values: their `data` is replaced."""
CLEARS_COPIES = "torch.clear_autocast_cache"
"""What makes autocast forget the half copies of weights that it keeps until its outermost region ends."""
COMPILES = frozenset({"torch.compile", "torch._dynamo.optimize"})
"""What compiles a model or a function; its backward pass is traced together with its forward pass."""
OF_BACKWARD = "backward_pass_autocast"
"""The setting for the autocast of a compiled backward pass, "same_as_forward" by default.

Source: `torch/_functorch/config.py` of PyTorch 2.8 to 2.13; versions before trace it in the same way.
"""
