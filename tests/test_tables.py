"""The stored autocast policy is the installed PyTorch's, and versions live side by side."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from amplint.torchlib import tables
from tests import autocast_policy

STORED = json.loads(autocast_policy.path(torch.__version__).read_text(encoding="utf-8"))


@pytest.fixture
def two_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Made-up tables of two versions; in the newer one the overloads of `f` are treated differently."""
    for version, lower in {"3.9": ["f.a", "f.b", "g"], "3.10": ["f.a", "g"]}.items():
        table = {
            "torch": f"{version}.1",
            "default_dtype": {"cuda": "float16", "cpu": "bfloat16"},
            "operators": {"cuda": {"lower": lower, "float32": ["f.b"] if version == "3.10" else []}, "cpu": {}},
        }
        (tmp_path / f"torch-{version}.json").write_text(json.dumps(table), encoding="utf-8")
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    tables.policy.cache_clear()
    yield
    tables.policy.cache_clear()


@pytest.mark.parametrize("device", autocast_policy.DEVICES)
def test_the_dispatcher_says_the_same(device: str) -> None:
    assert STORED["operators"][device] == autocast_policy.of_device(device), "run `python -m tests.autocast_policy`"
    assert STORED["default_dtype"][device] == str(torch.get_autocast_dtype(device)).removeprefix("torch.")


@pytest.mark.parametrize("device", autocast_policy.DEVICES)
def test_every_operator_with_an_autocast_kernel_is_there(device: str) -> None:
    listed = [name for names in STORED["operators"][device].values() for name in names]
    assert len(listed) == len(set(listed)) == len(list(autocast_policy.operators(f"Autocast{device.upper()}")))


@pytest.mark.parametrize("version", tables.versions())
def test_overloads_are_treated_alike(version: str) -> None:
    policy = tables.policy(version)
    for treatment in tables.TREATMENTS:
        assert set(getattr(policy, treatment)) == set(policy.default_dtype) == set(autocast_policy.DEVICES)
        for names in getattr(policy, treatment).values():
            assert not [name for name in names if "." in name]


def macro(name: str) -> set[str]:
    """The full names of the operators in one of the lists of PyTorch's header."""
    header = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
    (body,) = re.findall(rf"#define {name}\(_\)((?:.*\\\n)*.*)", header.read_text(encoding="utf-8"))
    named = re.findall(r'"(\w+\.\w+)"', body)  # the lists with signatures name their operators in quotes
    return set(named or (".".join(re.split(r",\s*", one)) for one in re.findall(r"\b_\(([\w, ]+)\)", body)))


@pytest.mark.parametrize(
    ("name", "treatment"),
    [
        ("AT_FORALL_LOWER_PRECISION_FP", "lower"),
        ("AT_FORALL_FP32", "float32"),
        ("AT_FORALL_FP32_SET_OPT_DTYPE", "float32_set_dtype"),
        ("AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE", "float32_append_dtype"),
        ("AT_FORALL_PROMOTE", "promote"),
    ],
)
@pytest.mark.parametrize("device", ["cuda", "xpu"])
def test_the_header_says_the_same(device: str, name: str, treatment: str) -> None:
    """CUDA has two operators of cuDNN besides what the lists share out to several devices."""
    cudnn = {"cudnn_convolution", "cudnn_convolution_transpose"} if (device, treatment) == ("cuda", "lower") else set()
    assert set(STORED["operators"][device][treatment]) == macro(name) | cudnn


def test_sizes() -> None:
    """Full names counted as PyTorch registers them; PyTorch's own lists were counted the same way."""
    sizes = {
        device: [len(STORED["operators"][device].get(treatment, ())) for treatment in tables.TREATMENTS]
        for device in autocast_policy.DEVICES
    }
    assert sizes == {
        "cuda": [35, 59, 11, 2, 11, 1],
        "cpu": [24, 100, 0, 0, 3, 0],
        "xpu": [33, 59, 11, 2, 11, 1],
        "mps": [26, 59, 0, 0, 10, 0],
    }


@pytest.mark.usefixtures("two_versions")
def test_versions_live_side_by_side() -> None:
    assert tables.versions() == ["3.9", "3.10"]
    assert tables.policy().torch == "3.10.1"
    assert tables.policy("3.9").lower == {"cuda": {"f", "g"}, "cpu": set()}
    assert tables.policy("3.10").lower == {"cuda": {"f.a", "g"}, "cpu": set()}
    assert tables.policy("3.10").float32["cuda"] == {"f.b"}
    assert tables.policy("3.10") is tables.policy("3.10")


@pytest.mark.usefixtures("two_versions")
def test_another_version_joins_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = {"torch": "4.0.2", "default_dtype": {"cuda": "float16"}, "operators": {"cuda": {"lower": ["h.a"]}}}
    monkeypatch.setattr(autocast_policy, "derive", lambda: made_up)
    monkeypatch.setattr(autocast_policy, "FOLDER", tables.FOLDER)
    autocast_policy.main()
    assert tables.versions() == ["3.9", "3.10", "4.0"]
    assert tables.policy().lower == {"cuda": {"h"}}


@pytest.mark.usefixtures("two_versions")
@pytest.mark.parametrize("version", ["3.1", "", "../torch-3.9", "3.9.1"])
def test_an_unknown_version(version: str) -> None:
    with pytest.raises(tables.UnknownVersion) as raised:
        tables.policy(version)
    assert str(raised.value) == f'no autocast policy of torch "{version}"; there is one of 3.9, 3.10'


def test_reading_a_table_needs_no_torch() -> None:
    program = "import sys; from amplint.torchlib.tables import policy; policy(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
