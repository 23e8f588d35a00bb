"""The test's end of the proof server, and what a run has shown."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

TESTS = Path(__file__).parents[1]
CLOSE = 0.05
"""Largest relative distance between two results that half-precision rounding explains."""


@dataclass(frozen=True)
class Message:
    """An exception or a warning: the name of its class and its text."""

    type: str
    text: str


@dataclass(frozen=True)
class Outcome:
    """What one program did.

    `result` and `expected` are the variables of these names it left behind, None where it left none. `reference` is the
    `result` of the same program with every autocast region and scaler switched off; it is run only when there is a
    `result` and no `expected` to compare it with.
    """

    exception: Message | None
    warnings: tuple[Message, ...]
    printed: str
    result: Any
    expected: Any
    reference: Outcome | None = None

    def symptoms(self) -> list[str]:
        """Everything a healthy program does not show, in words."""
        found = [f"warns {warning.type}: {warning.text}" for warning in self.warnings]
        if self.exception:
            found.append(f"raises {self.exception.type}: {self.exception.text}")
        if not self.is_finite():
            found.append(f"result is not finite: {self.result}")
        if self.differs_from_expected():
            found.append(f"result differs from expected: {self.result} instead of {self.expected}")
        if self.differs_from_float32():
            assert self.reference is not None
            found.append(f"result differs from float32: {self.result} instead of {self.reference.result}")
        return found

    def is_finite(self) -> bool:
        """Whether `result` holds no inf and no NaN."""
        return all(math.isfinite(leaf) for leaf in _leaves(self.result) if isinstance(leaf, float))

    def differs_from_expected(self) -> bool:
        """Whether the program's own comparison fails."""
        return self.expected is not None and _differ(self.result, self.expected)

    def differs_from_float32(self) -> bool:
        """Whether mixed precision changed the result by more than rounding does."""
        return self.reference is not None and _differ(self.result, self.reference.result)


class ProofServer:
    """A process that has PyTorch loaded and runs programs in forked children, each for at most `timeout` seconds."""

    def __init__(self, timeout: float = 30.0) -> None:
        self._timeout = timeout
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "proof.server"],
            env={**os.environ, "PYTHONPATH": str(TESTS), "PYTORCH_NVML_BASED_CUDA_CHECK": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> ProofServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()  # processes that were forked meanwhile may hold its standard input open
        self._process.communicate()

    def run(self, text: str, filename: str, *, cuda: bool = False, framework: bool = False) -> Outcome:
        """Run a program, and once more in float32 where its `result` asks for a reference.

        `cuda` says that it is written for a GPU; without one it runs under the stand-in. `framework` puts the stand-ins
        for frameworks within its reach.
        """
        outcome = self._run(text, filename, cuda=cuda, framework=framework, float32=False)
        if outcome.result is None or outcome.expected is not None:
            return outcome
        reference = self._run(text, filename, cuda=cuda, framework=framework, float32=True)
        if reference.exception:
            raise ValueError(f"{filename} does not run in float32: {reference.exception}")
        return Outcome(**{**vars(outcome), "reference": reference})

    def trace(
        self, text: str, filename: str, *, cuda: bool = False, framework: bool = False, float32: bool = False
    ) -> str:
        """Run a program under `amplint.trace.watch` and give the record as JSON.

        With `float32` all regions and scalers are off.
        """
        reply = self._ask(text, filename, cuda=cuda, framework=framework, float32=float32, trace=True)
        return str(reply["record"])

    def _run(self, text: str, filename: str, *, cuda: bool, framework: bool, float32: bool) -> Outcome:
        reply = self._ask(text, filename, cuda=cuda, framework=framework, float32=float32)
        return Outcome(
            exception=_message(reply["exception"]) if reply["exception"] else None,
            warnings=tuple(_message(warning) for warning in reply.get("warnings", ())),
            printed=reply.get("printed", ""),
            result=reply.get("result"),
            expected=reply.get("expected"),
        )

    def _ask(self, text: str, filename: str, *, float32: bool = False, trace: bool = False, **where: bool) -> Any:
        request = {"text": text, "filename": filename, "float32": float32, "trace": trace, **where}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({**request, "timeout": self._timeout}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the proof server ended while running {filename}")
        return json.loads(answer)


def _message(reply: dict[str, str]) -> Message:
    return Message(reply["type"], reply["message"])


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, item in sorted(value.items()):
            yield key
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _differ(result: Any, wanted: Any) -> bool:
    """Whether texts differ, or the numbers by more than `CLOSE` of the length of `wanted`."""
    pairs = [list(_leaves(result)), list(_leaves(wanted))]
    numbers = [[float(leaf) for leaf in leaves if isinstance(leaf, (int, float))] for leaves in pairs]
    texts = [[leaf for leaf in leaves if not isinstance(leaf, (int, float))] for leaves in pairs]
    if texts[0] != texts[1] or len(numbers[0]) != len(numbers[1]):
        return True
    distance = math.dist(*numbers)
    return not distance <= CLOSE * math.hypot(*numbers[1])
