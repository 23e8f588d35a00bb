"""The operations said to lack half precision: run on this CPU, and asked of PyTorch's own list for CUDA."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest
import torch

from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.half_support import COMPLEX, FFT, LIFTED, NEVER, RETURNED, SINGULAR_VALUES, lacks

INFO = Path(torch.__file__).parent / "testing" / "_internal"
HALVES = (torch.float16, torch.bfloat16)
ALIASES = {"inverse": "inv", "orgqr": "householder_product"}


def function(name: str) -> object:
    """`torch.<name>`, or `torch.linalg.<name>` where that is what PyTorch goes on with."""
    return getattr(torch.linalg, name, None) or getattr(torch, name)


def arguments(name: str, dtype: torch.dtype) -> tuple[object, ...]:
    """What the operation can be called with."""
    matrix = torch.eye(4, dtype=dtype)
    if name == "ctc_loss":
        return matrix.view(4, 1, 4), torch.ones(1, 2, dtype=torch.int64), torch.tensor([4]), torch.tensor([2])
    if name == "histogram":
        return torch.arange(4.0).to(dtype), 4
    if name == "histogramdd":
        return matrix, [2] * 4
    if "quantile" in name:
        return torch.arange(4.0).to(dtype), 0.5
    if name in ("solve", "cholesky_solve", "triangular_solve", "lstsq", "polar", "cdist"):
        return matrix, matrix
    if name in ("householder_product", "orgqr", "tensorsolve"):
        return matrix, matrix[0]
    if name == "ormqr":
        return matrix, matrix[0], matrix
    if name == "lu_solve":
        return matrix, torch.arange(1, 5, dtype=torch.int32), matrix
    if name == "tensorinv":
        return (matrix.view(2, 2, 2, 2),)
    return (matrix,)


def ran(name: str, dtype: torch.dtype) -> object:
    """What the operation makes of matrices of this dtype."""
    given = arguments(name, dtype)
    if name == "solve_triangular":
        return torch.linalg.solve_triangular(*given, *given, upper=True)
    return function(name)(*given)  # type: ignore[operator]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", sorted(NEVER | LIFTED))
def test_refused_on_the_cpu(name: str, dtype: torch.dtype) -> None:
    ran(name, torch.float32)
    with pytest.raises((RuntimeError, NotImplementedError)):
        ran(name, dtype)


@pytest.mark.parametrize("name", RETURNED)
def test_what_is_returned(name: str) -> None:
    found = ran(name, torch.float32)
    listed = list(found) if isinstance(found, tuple) else [found]
    alike, count = RETURNED[name]
    assert len(listed) == count
    assert {each.dtype for each in listed[:alike]} == {torch.float32}
    assert not [each for each in listed[alike:] if each.dtype is torch.float32 and each.numel()]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_refused_on_the_cpu_alone(dtype: torch.dtype) -> None:
    assert operations_with("no-half-on-cpu") == {"cdist", "multi_margin_loss"}
    with pytest.raises(RuntimeError, match="not implemented for"):
        torch.nn.functional.multi_margin_loss(torch.ones(4, 4, dtype=dtype), torch.arange(4))


@pytest.mark.parametrize("name", sorted(FFT))
def test_fft_refuses_bfloat16_on_every_device(name: str) -> None:
    run = getattr(torch.fft, name)
    for device in ("cpu", "meta"):
        run(torch.ones(8, 8, device=device))
        with pytest.raises(RuntimeError, match="BFloat16"):
            run(torch.ones(8, 8, dtype=torch.bfloat16, device=device))


@pytest.mark.parametrize("name", sorted(COMPLEX))
def test_complex_numbers_refuse_bfloat16(name: str) -> None:
    pairs, options = torch.ones(8, 2), {}
    wide = (pairs, pairs) if name == "complex" else (pairs,)
    if name == "stft":
        wide, options = (torch.ones(64),), {"n_fft": 16, "return_complex": True}
    getattr(torch, name)(*wide, **options)
    with pytest.raises(RuntimeError):
        getattr(torch, name)(*(each.bfloat16() for each in wide), **options)


@functools.cache
def listed() -> dict[str, list[ast.Call]]:
    """Operation -> its entries in PyTorch's list."""
    found: dict[str, list[ast.Call]] = {}
    for path in (INFO / "common_methods_invocations.py", *(INFO / "opinfo" / "definitions").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                found.setdefault(str(node.args[0].value), []).append(node)
    return found


@pytest.mark.parametrize("name", sorted(NEVER | LIFTED))
def test_refused_on_cuda_by_the_list_of_pytorch(name: str) -> None:
    plain = ALIASES.get(name, name)
    entries = [
        *listed().get(f"linalg.{plain}", ()),
        *listed().get(plain, ()),
        *listed().get(f"nn.functional.{plain}", ()),
    ]
    told = [{k.arg: ast.unparse(k.value) for k in entry.keywords} for entry in entries]
    told = [options for options in told if "dtypes" in options]
    assert told
    for options in told:
        supported = options.get("dtypesIfCUDA", options["dtypes"])
        assert not {"half", "float16"} & set(re.findall(r"\w+", supported)), supported


def test_names_of_other_modules_are_something_else() -> None:
    assert lacks("torch.linalg.svd") == lacks("svd") == {"float16", "bfloat16"}
    assert lacks("torch.fft.rfft") == {"bfloat16"}
    assert not lacks("numpy.linalg.svd") | lacks("torch.linalg.norm") | lacks("torch.nn.functional.solve")


@pytest.mark.parametrize(
    ("name", "order"), [(name, order) for name, orders in SINGULAR_VALUES.items() for order in sorted(orders, key=str)]
)
def test_norms_by_singular_values(name: str, order: str | int) -> None:
    run = getattr(torch.linalg, name)
    run(torch.eye(4), order)
    with pytest.raises(RuntimeError, match="Low precision"):
        run(torch.eye(4).half(), order)
    assert torch.linalg.matrix_norm(torch.eye(4).half()).dtype is torch.float16
