"""Code of installed packages: the line of the user's that calls it, that of the package, and `follow`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

import amplint.trace
from amplint.cli import traced
from amplint.reports.text import display_path
from amplint.trace import frames
from amplint.trace.findings import findings
from amplint.trace.packages import package_path, refusal
from amplint.trace.record import Record
from amplint.trace.showing import text
from tests.trace.test_command import trace, trace_afresh

OPERATIONS = """\
import torch
from torch import nn

class Product(nn.Module):
    def forward(self, x):
        return twice(x.prod(-1))

class Products(nn.Module):
    def forward(self, x):
        x = x * x.prod()
        x = x * x.prod()
        x = x * x.prod()
        x = x * x.prod()
        return x * x.prod()

class Overflow(nn.Module):
    def forward(self, x):
        return x * 300

class Custom(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2

def twice(x):
    return Custom.apply(x)

class Trainer:
    def __init__(self):
        self.network = Network()

    def train(self):
        self.network(torch.ones(2, 4))

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        for _ in range(3):
            self.forward(torch.ones(2, 4))

    def forward(self, x):
        for m in self.layers:
            x = m(x)
        return x

def loop(model, inputs, steps=2):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        model(inputs).float().sum().backward()
        optimizer.step()
"""
PRODUCT, PRODUCTS, TIMES, CUSTOM, BACKWARD, LOOP = 6, 10, 18, 23, 27, 54
"""Rows of OPERATIONS."""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """An installed package with OPERATIONS in a module."""
    folder = tmp_path / "lib" / "site-packages"
    (folder / "halves").mkdir(parents=True)
    (folder / "halves" / "__init__.py").touch()
    (folder / "halves" / "operations.py").write_text(OPERATIONS, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    yield importlib.import_module("halves.operations")
    for name in ("halves", "halves.operations"):
        del sys.modules[name]


def watched(
    package: ModuleType, part: str, *, dtype: torch.dtype = torch.bfloat16, follow: tuple[str, ...] = ()
) -> Record:
    """Steps of a model in half that ends in a module of the package."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), getattr(package, part)()).to(dtype)
    with amplint.trace.watch(follow=follow) as record:
        package.loop(model, torch.ones(2, 4, dtype=dtype) * 300)
    return record


def messages(record: Record, code: str) -> list[str]:
    return [found.message for found in findings(record) if found.code == code]


def test_a_finding_names_the_line_of_the_library_and_the_module(package: ModuleType) -> None:
    record = watched(package, "Product")
    (found,) = [found for found in findings(record) if found.code == "AMP802"]
    assert Path(found.filename) == Path(__file__)
    assert found.message == (
        f"prod ran and stored its result in bfloat16, 2 times (model.1, in halves/operations.py:{PRODUCT})"
    )
    assert [(note.filename, note.span.start.row) for note in found.notes] == [(package.__file__, PRODUCT)]


def test_the_line_of_the_library_is_shown(package: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    record = watched(package, "Product")
    traced.show(record, findings(record), quiet=True, err=False)
    shown = capsys.readouterr().out
    assert f"halves/operations.py, line {PRODUCT}: the line of the library" in shown
    assert f"{PRODUCT} |         return twice(x.prod(-1))" in shown


@pytest.mark.parametrize("follow", ["halves", "halves.operations"])
def test_a_package_that_is_followed_counts_as_the_users_code(package: ModuleType, follow: str) -> None:
    record = watched(package, "Product", follow=(follow,))
    (found,) = [found for found in findings(record) if found.code == "AMP802"]
    assert (found.filename, found.span.start.row, found.notes) == (package.__file__, PRODUCT, ())
    assert found.message.endswith("(model.1)")
    assert {operation.library for operation in record.operations} == {""}
    assert {(held.filename, held.row) for held in record.held} == {(package.__file__, LOOP + 1)}
    assert package.__file__ in record.sources


@pytest.mark.parametrize("follow", ["halve", "halves.other", "torchvision"])
def test_no_other_package_does(package: ModuleType, follow: str) -> None:
    with frames.following([follow]):
        assert not frames.is_own(package.twice.__code__)
    with frames.following(["halves"]):
        assert frames.is_own(package.twice.__code__)
    assert not frames.is_own(package.twice.__code__)


def test_operations_tell_both_lines_in_both_passes(package: ModuleType) -> None:
    record = watched(package, "Product")
    places = {(one.phase, one.op, one.library_row) for one in record.operations if one.library}
    assert {("forward", "prod", PRODUCT), ("backward", "mul", PRODUCT), ("forward", "mul", CUSTOM)} <= places
    assert {package_path(one.library) for one in record.operations if one.library} == {"halves/operations.py"}
    lines = {one.row for one in record.operations if one.filename == __file__}
    assert len(lines - {0}) == 1


def test_a_backward_of_a_package_that_is_followed_has_its_own_line(package: ModuleType) -> None:
    record = watched(package, "Product", follow=("halves",))
    assert BACKWARD in {one.row for one in record.operations if one.phase == "backward" and one.op == "mul"}
    record = watched(package, "Product")
    assert BACKWARD not in {one.library_row for one in record.operations}


def test_modules_are_named_by_variables_of_libraries_where_none_of_the_users_holds_them(package: ModuleType) -> None:
    with amplint.trace.watch() as record:
        trainer = package.Trainer()
    assert {one.module for one in record.operations if one.op == "addmm"} == {"Network.layers.0", "Network.layers.1"}
    with amplint.trace.watch() as record:
        trainer.train()
    assert {one.module for one in record.operations if one.op == "addmm"} == {"network.layers.0", "network.layers.1"}
    with amplint.trace.watch() as record:
        package.Trainer().train()
    names = [one.module for one in record.operations if one.op == "addmm"]
    assert names == ["Network.layers.0", "Network.layers.1", "network.layers.0", "network.layers.1"]


def test_of_many_lines_of_libraries_the_first_are_named(package: ModuleType) -> None:
    told = messages(watched(package, "Products"), "AMP802")
    assert len(told) == 3
    assert f"halves/operations.py:{PRODUCTS})" in told[0]
    assert told[2].endswith("(and 2 more lines of libraries like it)")


def test_where_inf_comes_from_names_it_too(package: ModuleType) -> None:
    (told,) = messages(watched(package, "Overflow", dtype=torch.float16), "AMP803")
    assert f"(model.1, in halves/operations.py:{TIMES})" in told


def test_a_comparison_names_it_too(package: ModuleType) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), package.Overflow()).half()
    with amplint.trace.watch(compare_float32=True) as record:
        package.loop(model, torch.ones(2, 4, dtype=torch.float16) * 300)
    (told,) = messages(record, "AMP811")
    assert told.endswith(f"(model.1, in halves/operations.py:{TIMES})")
    again = Record.from_json(record.to_json())
    assert (again.comparison, again.operations, again.nonfinite) == (
        *(record.comparison, record.operations, record.nonfinite),
    )


def test_the_summary_names_lines_of_libraries(package: ModuleType) -> None:
    record = watched(package, "Overflow", dtype=torch.float16)
    told = text(record, 200)
    (row,) = {one.row for one in record.nonfinite}
    assert f"test_libraries.py:{row} (model.1, in halves/operations.py:{TIMES}) makes inf (mul in float16)" in told
    assert "\n      in halves/operations.py:" in told
    assert told.count(f"forward of mul in float16 (model.1, in halves/operations.py:{TIMES})") == 1


def test_reports_name_files_of_packages_from_the_package_on(package: ModuleType) -> None:
    assert f"halves/operations.py:{PRODUCT}  return twice(x.prod(-1))" in text(
        watched(package, "Product", follow=("halves",)), 100
    )


def test_what_cannot_be_followed_is_refused(package: ModuleType) -> None:
    assert refusal("halves") == refusal("halves.operations") == ""
    assert refusal("nothere.at.all") == "no package nothere.at.all is installed"
    assert refusal("") == refusal(".x").replace(".x", "") == "no package  is installed"
    assert refusal("torch.nn").startswith("torch does not count")
    with pytest.raises(ValueError, match="no package nothere"):
        amplint.trace.watch(follow=["nothere"])


SCRIPT = """\
import torch
import halves.operations as o

o.loop(torch.nn.Sequential(torch.nn.Linear(4, 4), o.Products()), torch.ones(2, 4))
"""


def test_the_option(package: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib" / "site-packages"))
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(SCRIPT, encoding="utf-8")
    ran = trace(project, "--follow", "click", "--follow", "torch", "train.py")
    assert ran.returncode == 2
    assert "Invalid value for '--follow': torch does not count" in ran.stderr
    ran = trace_afresh(project, "--skip", "0", "--steps", "1", "--follow", "halves", "train.py")
    assert f"halves/operations.py:{PRODUCTS}  x = x * x.prod()" in ran.stderr


def test_paths_are_as_short_as_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project" / "scripts").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "scripts")
    assert display_path(f"{tmp_path}/project/scripts/../models/tcn.py") == "../models/tcn.py"
    assert display_path(f"{tmp_path}/project/scripts/x/../train.py") == "train.py"
    assert display_path("/a/../b.py") == "/b.py"
    assert display_path(f"{tmp_path}/project/scripts/.venv/lib/python3.12/site-packages/timm/layers/mlp.py") == (
        "timm/layers/mlp.py"
    )
    assert display_path("") == "elsewhere"
