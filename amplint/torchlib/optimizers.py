"""PyTorch's optimizers: the epsilon of each denominator, and the effect of autocast on their steps."""

from __future__ import annotations

EPSILONS = {
    "Adam": (1e-8, 3),
    "AdamW": (1e-8, 3),
    "Adamax": (1e-8, 3),
    "NAdam": (1e-8, 3),
    "RAdam": (1e-8, 3),
    "RMSprop": (1e-8, 3),
    "Adagrad": (1e-10, 5),
}
"""Class -> default and position of the `eps` that it adds, in the dtype of the parameters, to denominators."""
ELEMENTWISE = frozenset(
    {"SGD", "ASGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "Rprop"}
)
"""The classes whose step has no operation that autocast casts to half."""
OF_PRODUCTS = frozenset({"Adafactor", "LBFGS", "Muon", "Shampoo", "DistributedShampoo", "SOAP"})
"""The classes, of any library, whose step multiplies matrices, or runs the model again on weights it has changed."""
ELSEWHERE_COMPUTED = ("fused", "capturable")
"""Options under which the denominator is computed differently."""
KEEPS_COPIES = "master_weights"
"""The option under which the optimizers of apex and Transformer Engine update float32 copies of half parameters."""
DECAYS = {"AdamW": (("lr", 1, 1e-3), ("weight_decay", 4, 1e-2))}
"""Class -> the factors, each with position and default, whose product is the share of each weight that a step
subtracts.

Others add the decay to the gradient, which Adam then divides by its size.
"""
NORMALISING = frozenset({"Adam", "AdamW", "Adamax", "NAdam", "RMSprop", "Adagrad", "Adadelta", "Rprop"})
"""The classes whose steps a constant factor of all gradients does not change, apart from epsilon and weight decay.

RAdam begins with steps that it does not divide.
"""
