"""Memory of model states: parameters, gradients and optimizer state, by their number and precision.

Sources: Micikevicius et al., Mixed Precision Training (ICLR 2018); Rajbhandari et al., ZeRO (SC 2020), section 3.1; for
`torch.autocast`, which keeps weights and gradients in float32, PyTorch itself.
"""

from __future__ import annotations

from amplint.records import dataclass

OPTIMIZERS = {
    "sgd": 0,
    "momentum": 1,
    "rmsprop": 1,
    "adagrad": 1,
    "muon": 1,
    "adafactor": 0,
    "adam": 2,
    "adamw": 2,
    "adamax": 2,
    "nadam": 2,
    "radam": 2,
    "amsgrad": 3,
}
"""Optimizer -> state values per parameter. Adafactor keeps sums of rows and columns, next to nothing."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Bytes per parameter: its weight, its gradient, a float32 master, one value of the optimizer state.

    `copy` is the half copy of a weight during autocast's forward and backward pass.
    """

    name: str
    weight: int
    gradient: int
    master: int
    state: int
    copy: int


RECIPES = (
    Recipe("float32", 4, 4, 0, 4, 0),
    Recipe("AMP (torch.autocast)", 4, 4, 0, 4, 2),
    Recipe("half, float32 masters", 2, 2, 4, 4, 0),
    Recipe("bfloat16 throughout", 2, 2, 0, 2, 0),
)


@dataclass(frozen=True, slots=True)
class States:
    """The model states under `recipe`, in bytes; `copies` are transient and not part of `total`."""

    recipe: str
    weights: int
    gradients: int
    masters: int
    optimizer: int
    copies: int

    @property
    def total(self) -> int:
        """The bytes that persist between steps."""
        return self.weights + self.gradients + self.masters + self.optimizer


def states(parameters: int, optimizer: str) -> list[States]:
    """The states of a model with so many `parameters` under each recipe; `optimizer` is one of `OPTIMIZERS`."""
    kept = OPTIMIZERS[optimizer]
    return [
        States(
            recipe.name,
            parameters * recipe.weight,
            parameters * recipe.gradient,
            parameters * recipe.master,
            parameters * recipe.state * kept,
            parameters * recipe.copy,
        )
        for recipe in RECIPES
    ]
