"""The published schema of traces: records follow it, and what does not is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from jsonschema import Draft202012Validator

import amplint.trace
from amplint.reports.page.document import page
from amplint.trace.data import SCHEMA as FORMAT
from amplint.trace.data import Divergence, digest
from amplint.trace.findings import findings
from amplint.trace.record import Record
from tests.trace import records
from tests.trace.documents import Document
from tests.trace.models import train

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "trace.schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)


def strict(text: str) -> Any:
    """The value of a JSON text; raises ValueError for NaN and Infinity, which only Python takes for JSON."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_number_rises_with_every_change_of_keys() -> None:
    keys = [(name, sorted(each["properties"])) for name, each in {"": SCHEMA, **SCHEMA["$defs"]}.items()]
    assert (FORMAT, digest(repr(keys).encode())) == (2, "6d8c4dc3e7702372b1c7add9909f7086"), (
        "raise SCHEMA, and write the new digest here"
    )


def test_a_run_follows_the_schema() -> None:
    with amplint.trace.watch() as record:
        train("checkpointed", torch.bfloat16, 1, scaled=True)
    VALIDATOR.validate(strict(record.to_json()))


@pytest.mark.parametrize("factor", [1.0, float("nan"), float("inf")])
def test_a_run_with_all_its_numbers_follows_the_schema(factor: float) -> None:
    with amplint.trace.watch(numerics="full") as record:
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = model(torch.ones(2, 4)).sum() * factor
            loss.backward()
            optimizer.step()
    assert record.histograms
    assert record.updates
    VALIDATOR.validate(strict(record.to_json()))
    Document(page(record, findings(record)))


def test_all_that_a_run_can_show_follows_the_schema(tmp_path: Path) -> None:
    record = records.record(tmp_path)
    record.divergences.append(Divergence("count", "forward", "mm", "train.py", 7, "", ((0, "3"), (1, "4"))))
    data = strict(record.to_json())
    VALIDATOR.validate(data)
    kept = {"calls", "failures", "sources"}
    assert all(rows or key in kept for key, rows in data.items() if isinstance(rows, (list, dict)))
    VALIDATOR.validate(strict(Record().to_json()))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema", 1),
        ("steps", "3"),
        ("more", 1),
        ("numerics", "some"),
        ("operations", [{"op": "mm"}]),
        ("histograms", {}),
    ],
)
def test_what_is_no_record_does_not_follow_it(key: str, value: object) -> None:
    assert not VALIDATOR.is_valid({**json.loads(Record().to_json()), key: value})
