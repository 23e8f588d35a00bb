"""The server and the stand-in: what programs do is reported, and nothing they do reaches the next one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proof.client import Message, ProofServer


@pytest.fixture(scope="module")
def server() -> Iterator[ProofServer]:
    with ProofServer(timeout=2.0) as started:
        yield started


def test_outcome(server: ProofServer) -> None:
    text = "import warnings; print('seen'); warnings.warn('careful', FutureWarning); result, expected = [1.0], (1.01,)"
    outcome = server.run(text, "outcome.py")
    assert outcome.printed == "seen\n"
    assert outcome.warnings == (Message("FutureWarning", "careful"),)
    assert outcome.symptoms() == ["warns FutureWarning: careful"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("raise KeyError('x')", "KeyError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("def broken(:", "SyntaxError"),
        ("import os; os.abort()", "Crash"),
        ("while True: pass", "Timeout"),
    ],
)
def test_failure_is_an_outcome(server: ProofServer, text: str, kind: str) -> None:
    outcome = server.run(text, "failure.py")
    assert outcome.exception is not None
    assert outcome.exception.type == kind


def test_programs_do_not_meet(server: ProofServer) -> None:
    server.run("import torch; torch.seen = True; torch.set_default_dtype(torch.float64)", "first.py")
    text = "import torch; result = [hasattr(torch, 'seen'), torch.ones(1).dtype]; expected = 0"
    second = server.run(text, "second.py")
    assert second.result == [False, "torch.float32"]


def test_reference_runs_without_mixed_precision(server: ProofServer) -> None:
    text = (
        "import torch\n"
        "scaler = torch.amp.GradScaler('cpu')\n"
        "with torch.autocast('cpu', dtype=torch.float16):\n"
        "    result = [torch.ones(1, 1).mm(torch.ones(1, 1)).dtype, scaler.is_enabled()]\n"
    )
    outcome = server.run(text, "reference.py")
    assert outcome.result == ["torch.float16", True]
    assert outcome.reference is not None
    assert outcome.reference.result == ["torch.float32", False]
    assert outcome.differs_from_float32()


def test_cuda_program(server: ProofServer) -> None:
    text = (
        "import torch\n"
        "device = torch.device('cuda')\n"
        "ones = torch.nn.Linear(2, 2, device='cuda').to(device)(torch.ones(1, 2).cuda())\n"
        "with torch.autocast('cuda'):\n"
        "    half = ones @ ones.T\n"
        "    result = [half.dtype, half.mean().dtype, half.sum().dtype, half.softmax(0).dtype]\n"
        "with torch.autocast('cpu'):\n"
        "    result.append((ones @ ones.T).dtype)\n"
        "expected = [torch.float16] * 2 + [torch.float32] * 3\n"
    )
    assert server.run(text, "cuda.py", cuda=True).symptoms() == []
