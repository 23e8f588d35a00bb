"""The rows of the table of operations agree with the installed PyTorch, wherever it can be asked."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from amplint.torchlib import catalogue
from amplint.torchlib.catalogue import FACTS, FORMS, OPERATIONS, having

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

HOMES: dict[str, Any] = {"f": torch, "m": Tensor, "n": F, "l": torch.linalg, "s": torch.special, "x": torch.fft}


def forms_of(name: str) -> set[str]:
    """The forms in which the installed PyTorch has an operation."""
    found = {
        form for form, home in HOMES.items() if not isinstance(getattr(home, name, None), (ModuleType, type(None)))
    }
    if "m" in found and not callable(getattr(Tensor, name)):
        found = found - {"m"} | {"a"}
    if hasattr(Tensor, f"{name}_"):
        found.add("i")
    return found or ({"d"} if hasattr(torch.ops.aten, name) else {"-"})


@pytest.mark.parametrize("name", OPERATIONS)
def test_forms(name: str) -> None:
    assert forms_of(name) == set(OPERATIONS[name])


def test_rows_are_told_by_what_is_known() -> None:
    assert set("".join(OPERATIONS.values())) == set(FORMS)
    assert all(having(fact) for fact in FACTS)
    assert len(OPERATIONS) == sum(line[:1] not in ("", "#", " ") for line in catalogue._TABLE.splitlines())


def test_unknown_facts_are_no_empty_sets() -> None:
    with pytest.raises(KeyError):
        having("products")
