"""A record of a run for the terminal: what ran in which dtype on each line, the scaler, and what is held in half."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

from amplint.reports.context import Sources
from amplint.reports.text import visible
from amplint.trace.record import Operation, Record, is_floating

_SHOWN = 12
_IDLE = frozenset(
    {
        *("alias", "detach", "empty", "empty_like", "expand", "lift_fresh", "permute", "reshape", "select", "slice"),
        *("squeeze", "t", "transpose", "unsqueeze", "_unsafe_view", "view"),
    }
)
"""Operators that compute nothing."""


def summary(record: Record, *, lines: int = _SHOWN) -> str:
    """The summary, of at most `lines` lines of code for each phase."""
    steps = f"{record.steps} {'step' if record.steps == 1 else 'steps'}"
    head = f"{steps} on {record.device or 'no device'}, torch {record.torch}"
    parts = [head, *_operations(record, lines), *_scaler(record), *_held(record)]
    return "\n".join(parts) + "\n"


def _operations(record: Record, lines: int) -> Iterator[str]:
    for phase in ("forward", "backward", "recomputation"):
        kinds = [(operation, count) for operation, count in record.operations.items() if _computes(operation, phase)]
        places: dict[tuple[str, int], Counter[tuple[str, str]]] = {}
        for operation, count in kinds:
            counts = places.setdefault((operation.filename, operation.row), Counter())
            counts[operation.op, _dtype(operation)] += count
        if places:
            yield from ("", f"{phase}:")
        busiest = sorted(places.items(), key=lambda place: -sum(place[1].values()))[:lines]
        for (filename, row), counts in sorted(busiest):
            yield from _line(filename, row, counts)
        if len(places) > lines:
            yield f"  ... and {len(places) - lines} more lines"


def _line(filename: str, row: int, counts: Counter[tuple[str, str]]) -> Iterator[str]:
    source = Sources().line(filename, row) if row else None
    place = f"{visible(os.path.relpath(filename))}:{row}" if row else "elsewhere"
    yield f"  {place}  {visible((source or '').strip())}".rstrip()
    by_dtype: dict[str, list[str]] = {}
    for (op, dtype), count in counts.most_common():
        by_dtype.setdefault(dtype, []).append(f"{op} x{count}" if count > 1 else op)
    for dtype, ops in by_dtype.items():
        yield f"      {dtype:<9} {', '.join(ops)}"


def _scaler(record: Record) -> Iterator[str]:
    if not record.scaler_steps:
        return
    yield from ("", "loss scale:")
    for step in record.scaler_steps:
        what = "skipped: gradients were inf or NaN" if step.skipped else "stepped"
        after = f" -> {step.after:g}" if step.after is not None and step.after != step.scale else ""
        yield f"  step {step.step + 1}: {step.scale:g}{after}  {step.optimizer} {what}"


def _held(record: Record) -> Iterator[str]:
    counts = Counter((held.optimizer, held.dtype, tuple(dtype for _, dtype in held.state)) for held in record.held)
    if counts:
        yield from ("", "parameters:")
    for (optimizer, dtype, state), count in counts.items():
        kept = f", state in {', '.join(sorted(set(state)))}" if state else ""
        yield f"  {optimizer}: {count} in {dtype}{kept}"


def _computes(operation: Operation, phase: str) -> bool:
    floating = any(map(is_floating, (*operation.inputs, *operation.outputs)))
    return operation.phase == phase and floating and operation.op not in _IDLE


def _dtype(operation: Operation) -> str:
    """The dtype an operation computes in: that of its floating operands where they agree with one another."""
    inputs = [dtype for dtype in operation.inputs if is_floating(dtype)]
    outputs = [dtype for dtype in operation.outputs if is_floating(dtype)]
    if operation.op == "_to_copy" and inputs and outputs:
        return f"{inputs[0]} -> {outputs[0]}"
    return (outputs or inputs)[0]
