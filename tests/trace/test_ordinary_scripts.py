"""What ordinary training scripts showed: models of PyTorch's own give no findings, and lines told can be read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import amplint.trace
from amplint.reports.drift import against_float32
from amplint.trace import blame
from amplint.trace.blame import Blame
from amplint.trace.compared import Comparison, LineDrift
from amplint.trace.dry import dry_run
from amplint.trace.findings import findings
from amplint.trace.gpus import GPUS
from amplint.trace.record import Record
from tests.conftest import Command


@pytest.fixture
def gpu() -> Iterator[None]:
    """A dry run round the test."""
    with dry_run(GPUS["a100"]):
        yield


def trained(model: nn.Module, dtype: torch.dtype = torch.float16) -> Record:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with amplint.trace.watch(steps=2, skip=0) as record:
        for _ in range(2):
            with torch.autocast("cuda", dtype=dtype):
                result = model(torch.randn(2, 6, 32, device="cuda"))
            (result[0] if isinstance(result, tuple) else result).float().square().mean().backward()
            optimizer.step()
    return record


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(32, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.inner(x).view(2, 6, 3, 4, 8).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(query, key, value, dropout_p=0.1)


@pytest.mark.parametrize("make", [Attention, lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)])
def test_attention_with_dropout_chooses_its_dtype_itself(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    with dry_run(GPUS["a100"]):
        found = {one.code for one in findings(trained(make().cuda()))}
    assert not found & {"AMP801", "AMP810"}


def test_recurrent_models_warn_of_nothing() -> None:
    torch.manual_seed(0)
    with dry_run(GPUS["a100"]), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        trained(nn.LSTM(32, 8).cuda())
    assert not [one for one in told if "TF32" in str(one.message)]
    assert torch.backends.mkldnn.enabled


def test_an_optimizer_with_a_closure_makes_no_error() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Softplus(), nn.Linear(32, 1))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")
    data = torch.randn(64, 8)
    goal = data.square().sum(1, keepdim=True)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = model(data)
        loss = F.mse_loss(result.float(), goal)
        loss.backward()
        return loss

    with amplint.trace.watch(steps=3, skip=1, compare_float32=True) as record:
        for _ in range(4):
            optimizer.step(closure)
    assert record.comparison is not None
    assert all(drift.op != "dot" for drift in record.comparison.lines)


def test_large_results_are_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    remember = Blame.remember

    def counted(self: Blame, *given: object) -> None:
        remember(self, *given)  # type: ignore[arg-type]
        held.append(len(self._made))

    monkeypatch.setattr(blame, "_ROOM", 2**12)
    monkeypatch.setattr(Blame, "remember", counted)
    model = nn.Sequential(*(nn.Linear(32, 32) for _ in range(20)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with amplint.trace.watch(skip=0, steps=1, compare_float32=True):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(torch.randn(16, 32)).float().mean()
        loss.backward()
        optimizer.step()
    assert len(held) > max(held) >= blame._LEAST
    assert held[-1] == blame._LEAST


def test_lines_of_code_that_have_no_room_go_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "training_of_a_model.py"
    script.write_text("p = torch.softmax(scores * 30, -1)\n")
    drift = LineDrift("backward", "_softmax_backward_data", str(script), 1, "", "float16", "", 0.1, 0.1)
    single = LineDrift("backward", "mm", str(script), 1, "", "float16", "", 0.1, 0.1)
    record = Record(torch="2.13")
    record.comparison = Comparison("float16", 1, 0.016, "", [drift, single], [])
    lines = list(against_float32(record, 80))
    assert lines[-4:] == [
        "  training_of_a_model.py:1  +0.1  _softmax_backward_data backward, float16",
        "      p = torch.softmax(scores * 30, -1)",
        "  training_of_a_model.py:1  +0.1  mm backward, float16",
        "      p = torch.softmax(scores * 30, -1)",
    ]
    record.comparison = Comparison("float16", 1, 0.016, "", [single], [])
    beside = "  training_of_a_model.py:1  p = torch.softmax(scores ...  +0.1  mm backward, float16"
    assert list(against_float32(record, 84))[-1] == beside


def test_compiled_models_run_without_a_warning_of_hooks(
    amplint: Command, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "model = torch.compile(torch.nn.Linear(2, 2))\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(3):\n"
        "    model(torch.ones(2)).sum().backward()\n"
        "    optimizer.step()\n"
    )
    assert amplint("trace", "-q", str(script)).status == 0
    assert not [one for one in recwarn if "global hooks" in str(one.message)]


@pytest.mark.usefixtures("gpu")
def test_gradients_of_gradients_are_of_the_backward_pass() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    with amplint.trace.watch(steps=3, skip=0) as record:
        for _ in range(3):
            data = torch.randn(16, 8, device="cuda", requires_grad=True)
            with torch.autocast("cuda"):
                loss = model(data).float().sum()
            slopes = torch.autograd.grad(scaler.scale(loss), data, create_graph=True)[0] / scaler.get_scale()
            with torch.autocast("cuda"):
                penalty = (slopes.norm(2, dim=1) - 1).square().mean()
            optimizer.zero_grad()
            scaler.scale(penalty).backward()
            scaler.step(optimizer)
            scaler.update()
    assert {one.phase for one in record.operations} == {"forward", "backward"}
    assert not [one for one in findings(record) if one.code == "AMP803"]


def runs_recurrent_layers_in_bfloat16() -> bool:
    """Whether this processor does: oneDNN has no such kernel for some."""
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            nn.LSTM(6, 32, 2, batch_first=True)(torch.randn(16, 5, 6))
    except RuntimeError:
        return False
    return True


@pytest.mark.skipif(not runs_recurrent_layers_in_bfloat16(), reason="no bfloat16 LSTM on this processor")
def test_what_a_kernel_has_left_is_not_read_in_another_dtype() -> None:
    torch.manual_seed(0)
    model = nn.LSTM(6, 32, 2, batch_first=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with amplint.trace.watch(steps=2, skip=0, compare_float32=True) as record:
        for _ in range(2):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                result, _ = model(torch.randn(16, 5, 6))
            result.float().mean().backward()
            optimizer.step()
    assert record.comparison is None or set(record.comparison.refused) <= {"mkldnn_rnn_layer_backward"}
