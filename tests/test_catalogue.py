"""The rows of the table of operations agree with the installed PyTorch, wherever it can be asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from amplint.torchlib import catalogue
from amplint.torchlib.catalogue import (
    FACTS,
    FORMS,
    OPERATIONS,
    fact_values,
    in_place,
    operations_with,
    operations_with_form,
    parameters,
)
from amplint.torchlib.methods import SAME_NUMBERS
from amplint.torchlib.policy import BOOLEAN, INTEGER, KEEPS
from tests import test_policy

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

HOMES: dict[str, Any] = {"f": torch, "m": Tensor, "n": F, "l": torch.linalg, "s": torch.special, "x": torch.fft}
ROWS = torch.arange(4)
NOT_HERE = {"cuda", "index"}
"""What cannot be called on this machine, or not by its name."""
CALLS: dict[str, Callable[[Tensor], Any]] = {
    **test_policy.CALLS,
    **{name: lambda x, name=name: getattr(torch, name)([x, x]) for name in operations_with("joins")},
    **{name: lambda x, name=name: getattr(torch, name)(x, x) for name in operations_with("compares")},
    **{name: lambda x, name=name: getattr(x, name)(0, 1) for name in ("moveaxis", "movedim", "swapaxes", "swapdims")},
    "isin": lambda x: torch.isin(x, x),
    "one_hot": lambda x: F.one_hot(x.long()),
    "bincount": lambda x: x.long().flatten().bincount(),
    "multinomial": lambda x: x.abs().add(1).multinomial(1),
    "fill": lambda x: torch.fill(x, 1.0),
    "heaviside": lambda x: torch.heaviside(x, x),
    "index_add": lambda x: x.index_add(0, ROWS, x),
    "index_copy": lambda x: x.index_copy(0, ROWS, x),
    "index_put": lambda x: x.index_put((ROWS,), x),
    "index_reduce": lambda x: x.index_reduce(0, ROWS, x, "mean"),
    "inner": lambda x: torch.inner(x, x),
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x),
    "max_pool2d_with_indices": lambda x: F.max_pool2d_with_indices(x.view(1, 1, 4, 4), 2),
    "scatter_add": lambda x: x.scatter_add(1, x.argsort(1), x),
    "searchsorted": lambda x: torch.searchsorted(x, x),
    "slice": lambda x: torch.ops.aten.slice(x, 0, 0, 2),
    "sort": lambda x: x.flatten().sort(),
    "stride": lambda x: x.stride(),
    "take": lambda x: x.take(ROWS),
    "tensor_split": lambda x: x.tensor_split(2),
    "tensordot": lambda x: torch.tensordot(x, x, dims=1),
    "threshold": lambda x: F.threshold(x, 0.1, 0.2),
}


def called(op: str, x: Tensor) -> Any:
    """What an operation makes of the matrix `x`; the first tensor where it makes several."""
    form = OPERATIONS[op][0]
    if op in CALLS:
        result = CALLS[op](x)
    elif form == "a":
        result = getattr(x, op)
    elif form == "d":
        result = getattr(torch.ops.aten, op)(x, *([list(x.shape)] if "view" in op else []))
    else:
        return test_policy.called(op, x)
    return result[0] if isinstance(result, tuple | list) and op != "stride" else result


def matrix() -> Tensor:
    return torch.rand(4, 4).mul(0.5).add(0.25)


def kept(result: Any, given: Tensor) -> bool:
    """Whether all numbers of `result` are numbers of `given`."""
    return bool(torch.isin(result, given).all())


def forms_of(name: str) -> set[str]:
    """The forms in which the installed PyTorch has an operation."""
    none = (ModuleType, type(None))
    found = {form for form, home in HOMES.items() if not isinstance(getattr(home, name, None), none)}
    if "m" in found and not callable(getattr(Tensor, name)):
        found = found - {"m"} | {"a"}
    if hasattr(Tensor, f"{name}_"):
        found.add("i")
    return found or ({"d"} if hasattr(torch.ops.aten, name) else {"-"})


@pytest.mark.parametrize("name", OPERATIONS)
def test_forms(name: str) -> None:
    assert forms_of(name) == set(OPERATIONS[name])


def test_the_table_is_whole() -> None:
    assert set("".join(OPERATIONS.values())) == set(FORMS)
    assert all(operations_with(fact) for fact in FACTS)
    assert len(OPERATIONS) == sum(line[:1] not in ("", "#", " ") for line in catalogue._TABLE.splitlines())
    with pytest.raises(KeyError):
        operations_with("products")


@pytest.mark.parametrize("op", sorted(BOOLEAN | INTEGER))
def test_dtypes_that_do_not_follow(op: str) -> None:
    assert called(op, matrix()).dtype is (torch.bool if op in BOOLEAN else torch.int64)


@pytest.mark.parametrize("op", sorted(operations_with("counts")))
def test_integers_are_added_up_in_int64(op: str) -> None:
    assert called(op, torch.ones(4, 4, dtype=torch.int32)).dtype is torch.int64


@pytest.mark.parametrize("op", sorted(KEEPS - NOT_HERE - {"normal_", "uniform_"}))
def test_integers_keep_their_dtype(op: str) -> None:
    x = torch.arange(16, dtype=torch.int32).view(4, 4)
    try:
        found = called(op, x) if op in OPERATIONS else test_policy.called(op, x)
    except (NotImplementedError, RuntimeError):
        return
    assert found.dtype is torch.int32


@pytest.mark.parametrize(("name", "dtype"), fact_values("casts").items())
def test_casts(name: str, dtype: str) -> None:
    assert getattr(matrix(), name)().dtype is getattr(torch, dtype)


MOVED = frozenset[str]().union(*map(operations_with, ("reshapes", "reorders", "selects", "repeats", "copies", "joins")))


@pytest.mark.parametrize("op", sorted((MOVED | operations_with("transfers")) - NOT_HERE - {"to"}))
def test_numbers_stay(op: str) -> None:
    x = matrix()
    found = called(op, x)
    assert kept(found, x)
    if op in operations_with("reshapes") | operations_with("copies") | operations_with("transfers"):
        assert torch.equal(found.flatten(), x.flatten())
    if op in operations_with("reorders") | operations_with("repeats"):
        assert kept(x, found)
        assert found.numel() == x.numel() or op in operations_with("repeats")


@pytest.mark.parametrize("op", sorted(SAME_NUMBERS & operations_with_form("m") - {"cuda", "cpu", "to"}))
def test_one_number_stays(op: str) -> None:
    arguments = {"view": [1], "reshape": [1], "unsqueeze": [0], "unflatten": [0, (1,)]}.get(op, [])
    x = torch.tensor([0.5])
    assert getattr(x, op)(*(arguments or ([x] if op.endswith("_as") else []))).item() == 0.5


@pytest.mark.parametrize("op", sorted(MOVED - NOT_HERE - {"contiguous", "lift"}))
def test_views_share_memory(op: str) -> None:
    x = matrix()
    shared = called(op, x).untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert shared == (op in operations_with("view"))


@pytest.mark.parametrize("op", sorted(operations_with("transposes")))
def test_transposes(op: str) -> None:
    x = matrix()
    assert torch.equal(called(op, x), torch.einsum("ij->ji", x))


@pytest.mark.parametrize(
    "op", sorted((operations_with("same-rank") | operations_with("reduces")) - CALLS.keys() - NOT_HERE - {"logsumexp"})
)
def test_ranks(op: str) -> None:
    if op != "unbind":
        assert called(op, matrix()).dim() == (2 if op in operations_with("same-rank") else 0)


@pytest.mark.parametrize(("op", "rank"), [(op, int(rank)) for op, rank in fact_values("rank").items()])
def test_ranks_of_products(op: str, rank: int) -> None:
    x = matrix()
    found = torch.dist(x, x) if op == "dist" else getattr(x[0], op)(x[0]) if op in ("dot", "vdot") else called(op, x)
    assert found.dim() == rank


@pytest.mark.parametrize("op", sorted(operations_with("matrices")))
def test_products_are_summed_up(op: str) -> None:
    x = torch.ones(4, 4)
    found = getattr(torch, op)(x[0], x[0]) if op in ("dot", "vdot") else called(op, x)
    assert found.min() >= 4


@pytest.mark.parametrize(
    "op", sorted(operations_with("bounded") & (operations_with_form("m") | operations_with_form("n")))
)
def test_bounded(op: str) -> None:
    x = torch.linspace(-1e4, 1e4, 16).view(4, 4)
    assert called(op, x).abs().max() <= 1e4


@pytest.mark.parametrize("op", sorted(operations_with("steps")))
def test_steps(op: str) -> None:
    found = called(op, matrix() * 8)
    assert op == "heaviside" or torch.equal(found, found.round())


@pytest.mark.parametrize("op", sorted(operations_with("asks")))
def test_what_is_no_tensor(op: str) -> None:
    given = torch.ones(1)
    found = given.size() if op == "size" else getattr(given, op)()
    assert not isinstance(found, Tensor)


@pytest.mark.parametrize("op", sorted(operations_with("indices-too") | operations_with("indices-along")))
def test_positions_beside(op: str) -> None:
    values, places = getattr(matrix(), op)(*([1] if op in ("kthvalue", "topk") else [0]))
    assert (values.dtype, places.dtype) == (torch.float32, torch.int64)


MADE: dict[str, tuple[Any, ...]] = {
    "arange": (0.0, 4.0), "as_tensor": ([0.5],), "eye": (4,), "from_numpy": (np.zeros(4, np.float32),),
    "full": ((4,), 0.5), "linspace": (0, 1, 4), "logspace": (0, 1, 4),
    "normal": (0.0, 1.0, (4,)), "randint": (4, (4,)), "tensor": ([0.5],),
}  # fmt: skip
"""Arguments of what makes tensors; others get a size."""


@pytest.mark.parametrize("name", sorted(operations_with("creates") | operations_with("float32")))
def test_new_tensors(name: str) -> None:
    found = getattr(torch, name)(*MADE.get(name, (4,)))
    assert found.dtype is (torch.float32 if name in operations_with("float32") else torch.int64)
    if name in operations_with("sized"):
        assert getattr(torch, name)(2, 3).shape == (2, 3)


@pytest.mark.parametrize("name", sorted(operations_with("creates-like") | operations_with("creates-new")))
def test_new_tensors_follow_others(name: str) -> None:
    x = torch.zeros(4, dtype=torch.float16)
    if name in operations_with("creates-like"):
        assert getattr(torch, name)(x, *([1] if name == "full_like" else [])).dtype is torch.float16
    else:
        arguments = {"new_full": ((4,), 1), "new_tensor": ([0.5],)}.get(name, (4,))
        assert getattr(x, name)(*arguments).dtype is torch.float16


@pytest.mark.parametrize("fact", ["module", "recurrent", "cell", "drops"])
def test_classes(fact: str) -> None:
    assert all(
        issubclass(getattr(nn, name), nn.Module) for names in fact_values(fact).values() for name in names.split(",")
    )


@pytest.mark.parametrize("op", sorted(fact_values("operators")))
def test_operators_of_the_dispatcher(op: str) -> None:
    assert all(hasattr(torch.ops.aten, name) for name in fact_values("operators")[op].split(","))


@pytest.mark.parametrize("name", sorted(fact_values("alias")))
def test_aliases(name: str) -> None:
    op, x = fact_values("alias")[name], matrix()
    y = x.flip(0)
    given: tuple[Any, ...] = {"abs": (x,), "cat": ([x, y],), "clamp": (x, 0.3, 0.6)}.get(op, (x, y))
    given = (x, 0, 1) if op in ("transpose", "movedim") else given
    assert torch.equal(getattr(torch, name)(*given), getattr(torch, op)(*given))


@pytest.mark.parametrize("op", sorted(operations_with("same-rank")))
def test_in_place(op: str) -> None:
    if f"{op}_" in in_place({op}) and op not in CALLS and op not in operations_with("beside"):
        x = matrix().half()
        found = getattr(x, f"{op}_")(*([0] if op in test_policy.ALONG else []))
        assert found is x
        assert x.dtype is torch.float16


def signatures(op: str) -> list[list[str]]:
    """The names of the parameters that an operation takes, for each of its overloads."""
    found = [
        [argument.name for argument in schema.arguments]
        for name in (op, f"{op}_", f"linalg_{op}")
        for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    ]
    function = getattr(F, op, None)
    if inspect.isfunction(function):
        found.append(list(inspect.signature(function).parameters))
    return found


@pytest.mark.parametrize("fact", ["beside", "number"])
def test_parameters(fact: str) -> None:
    for op, listed in parameters(fact).items():
        places = {place for _, place in listed}
        taken = {place for names in signatures(op) for name, place in listed if names[place + 1 :][:1] == [name]}
        assert taken == places, op
