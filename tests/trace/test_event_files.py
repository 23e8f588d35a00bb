"""The series of a record in TensorBoard's event files."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import pytest

from amplint.cli.main import main
from tests.trace import records


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.json").write_text(records.record(tmp_path).to_json(), encoding="utf-8")
    return tmp_path


def report(capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    """The exit status of the command, and its errors."""
    with pytest.raises(SystemExit) as ended:
        main(["trace", "report", "-q", "--tensorboard", "events", "trace.json"])
    return ended.value.code, capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="TensorBoard is not installed")
def test_tensorboard_reads_the_series(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert report(capsys)[0] == 0
    read = EventAccumulator(str(folder / "events")).Reload()
    tags = {"amplint/loss", "amplint/scale/scaler 1", "amplint/skipped/scaler 1"}
    assert tags < set(read.Tags()["scalars"])
    losses = [(one.step, one.value) for one in read.Scalars("amplint/loss")]
    assert losses[:2] == [(0, 2.5), (1, 2.25)]
    assert math.isnan(losses[2][1])


def test_what_is_missing_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "amplint.trace.event_files", raising=False)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert report(capsys) == (
        2,
        'Error: --tensorboard needs PyTorch and TensorBoard: pip install "amplint[tensorboard]"\n',
    )
    assert not (folder / "events").exists()
