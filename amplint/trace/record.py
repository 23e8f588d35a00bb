"""The record of a traced run: its data with reports, checks, and JSON."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict
from typing import Any, NoReturn

from amplint.trace.compared import Comparison
from amplint.trace.data import (
    SCHEMA,
    Call,
    Divergence,
    Failure,
    Float8,
    HalfLoss,
    Held,
    Histogram,
    NonFinite,
    Observation,
    Operation,
    RunData,
    ScalerStep,
    Series,
    Update,
    dtype_name,
    is_floating,
)


class UnreadableRecord(ValueError):
    """A text that is not a record of this version; the message is one line for the user."""


class Record(RunData):
    """The data of a run with the methods that its user calls."""

    def assert_dtype(self, path: str, dtype: object) -> None:
        """Check that the last floating results of the module at `path` have `dtype` (`torch.float16`, `"float16"`).

        Raises AssertionError, also if the module did not run.
        """
        __tracebackhide__ = True
        wanted = dtype_name(dtype)
        ran = [operation for operation in self.of_module(path) if any(map(is_floating, operation.outputs))]
        assert ran, f"{path} did not run; these did: {', '.join(sorted(self._modules())) or 'none'}"
        last = ran[-1]
        assert all(dtype == wanted for dtype in last.outputs if is_floating(dtype)), (
            f"{path} computes in {', '.join(last.outputs)} ({last.op}, {last.filename}:{last.row}), not in {wanted}"
        )

    def assert_no_findings(self) -> None:
        """Check that the run shows no problem above an info. Raises AssertionError that names them.

        Raises it also if nothing was recorded, which shows nothing.
        """
        __tracebackhide__ = True
        from amplint.trace.absence import absence

        assert self.operations, f"nothing was recorded: {absence(self) or 'no operation ran in the window'}"
        from amplint.findings import Severity
        from amplint.trace.findings import findings

        bad = [found for found in findings(self) if found.severity > Severity.INFO]
        lines = [f"{found.filename}:{found.span.start.row}: {found.code} {found.message}" for found in bad]
        assert not bad, "\n".join(lines)

    def summary(self, width: int = 80) -> str:
        """The report of the run, with its findings, in lines of at most `width` columns where that can be."""
        from amplint.trace.showing import text

        return text(self, width)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the page of the run, which works offline. Raises ImportError without `amplint[report]`, and OSError."""
        from amplint.trace.showing import page

        with open(path, "w", encoding="utf-8") as file:
            file.write(page(self))

    def __repr__(self) -> str:
        """In one line what it is of, not all that it holds."""
        steps = f"{self.steps} step{'' if self.steps == 1 else 's'}"
        return f"<Record of {steps}, {self.operations.total()} operations on {self.device or 'no device'}>"

    def _repr_html_(self) -> str:
        from amplint.trace.showing import cell

        return cell(self)

    def to_json(self) -> str:
        """The record as a JSON text."""
        data = {
            "schema": SCHEMA,
            "torch": self.torch,
            "device": self.device,
            "steps": self.steps,
            "taken": self.taken,
            "skip": self.skip,
            "backwards": self.backwards,
            "started": self.started,
            "every": self.every,
            "command": self.command,
            "began": self.began,
            "rank": self.rank,
            "ranks": self.ranks,
            "cut": self.cut,
            "numerics": self.numerics,
            "gpu": self.gpu,
            "memory": self.memory,
            "operations": [
                {**asdict(operation), "count": count, "seconds": self.seconds.get(operation)}
                for operation, count in self.operations.items()
            ],
            "calls": [{**asdict(call), "count": count} for call, count in self.calls.items()],
            "failures": [asdict(failure) for failure in self.failures],
            "sources": self.sources,
            "scaler_steps": [asdict(step) for step in self.scaler_steps],
            "held": [{**asdict(held), "state": dict(held.state)} for held in self.held],
            "nonfinite": [asdict(origin) for origin in self.nonfinite],
            "losses": [asdict(loss) for loss in self.losses],
            "histograms": [asdict(histogram) for histogram in self.histograms],
            "updates": [asdict(update) for update in self.updates],
            "series": [asdict(series) for series in self.series],
            "float8": [asdict(operand) for operand in self.float8],
            "observations": [asdict(observation) for observation in self.observations],
            "divergences": [{**asdict(diverged), "did": dict(diverged.did)} for diverged in self.divergences],
            "comparison": asdict(self.comparison) if self.comparison is not None else None,
        }
        return json.dumps(data, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Read what `to_json` wrote. Raises UnreadableRecord."""
        try:
            data = json.loads(text, parse_constant=_refuse)
            version = data["schema"]
            if version != SCHEMA:
                raise UnreadableRecord(
                    f"a trace of format {json.dumps(version)[:20]}, and this amplint reads format {SCHEMA}: "
                    "trace the script again, with one amplint"
                )
            _require_valid(data)
            rows = [(_operation(row), row) for row in data["operations"]]
            return cls(
                torch=data["torch"],
                device=data["device"],
                steps=data["steps"],
                taken=data["taken"],
                skip=data["skip"],
                backwards=data["backwards"],
                started=data["started"],
                every=data["every"],
                command=tuple(data["command"]),
                began=data["began"],
                rank=data["rank"],
                ranks=data["ranks"],
                cut=data["cut"],
                numerics=data["numerics"],
                gpu=data["gpu"],
                memory=data["memory"],
                operations=Counter({operation: row["count"] for operation, row in rows}),
                seconds={operation: row["seconds"] for operation, row in rows if row["seconds"] is not None},
                calls=Counter({_call(row): row["count"] for row in data["calls"]}),
                failures=[Failure(**failure) for failure in data["failures"]],
                sources=dict(data["sources"]),
                scaler_steps=[ScalerStep(**step) for step in data["scaler_steps"]],
                held=[Held(**{**held, "state": tuple(held["state"].items())}) for held in data["held"]],
                nonfinite=[NonFinite(**origin) for origin in data["nonfinite"]],
                losses=[HalfLoss(**loss) for loss in data["losses"]],
                histograms=[_histogram(row) for row in data["histograms"]],
                updates=[Update(**update) for update in data["updates"]],
                series=[_series(row) for row in data["series"]],
                float8=[_float8(row) for row in data["float8"]],
                observations=[Observation(**observation) for observation in data["observations"]],
                divergences=[_divergence(row) for row in data["divergences"]],
                comparison=Comparison.of(data["comparison"]) if data["comparison"] is not None else None,
            )
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError, RecursionError) as failure:
            raise UnreadableRecord("not a trace that amplint has written") from failure

    def _modules(self) -> set[str]:
        return {operation.module for operation in self.operations if operation.module}


def _refuse(name: str) -> NoReturn:
    raise UnreadableRecord(f"not a trace that amplint has written: {name} in it is no JSON")


def _require_valid(data: dict[str, Any]) -> None:
    from amplint.trace.schema import schema
    from amplint.trace.validation import problem

    wanted = schema()
    wrong = problem(data, wanted, wanted["$defs"])
    if wrong is not None:
        raise UnreadableRecord(f"not a trace that amplint has written: {wrong[:200]} is not as its schema has it")


def _operation(row: dict[str, Any]) -> Operation:
    fields = {name: value for name, value in row.items() if name not in ("count", "seconds")}
    return Operation(**{**fields, "inputs": tuple(row["inputs"]), "outputs": tuple(row["outputs"])})


def _call(row: dict[str, Any]) -> Call:
    fields = {name: value for name, value in row.items() if name != "count"}
    return Call(**{**fields, "inputs": tuple(row["inputs"]), "outputs": tuple(row["outputs"])})


def _histogram(row: dict[str, Any]) -> Histogram:
    return Histogram(**{**row, "exponents": {int(exponent): count for exponent, count in row["exponents"].items()}})


def _series(row: dict[str, Any]) -> Series:
    points = list(zip(row["steps"], row["values"], strict=False))
    steps, values = tuple(step for step, _ in points), tuple(value for _, value in points)
    return Series(**{**row, "steps": steps, "values": values})


def _float8(row: dict[str, Any]) -> Float8:
    points = list(zip(row["steps"], row["amax"], row["scale"], strict=False))
    columns = ("steps", "amax", "scale")
    return Float8(**{**row, **{name: tuple(point[index] for point in points) for index, name in enumerate(columns)}})


def _divergence(row: dict[str, Any]) -> Divergence:
    return Divergence(**{**row, "did": tuple((int(rank), what) for rank, what in row["did"].items())})
