"""The results of a fleet run in Parquet files: findings and repositories."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from amplint import __version__
from amplint.fleet.repository import Linted
from amplint.reports.text import one_line

_TEXT, _NUMBER = pa.string(), pa.int64()
FINDINGS = pa.schema(
    [
        ("repository", _TEXT), ("commit", _TEXT), ("path", _TEXT), ("cell", _NUMBER), ("row", _NUMBER),
        ("column", _NUMBER), ("end_row", _NUMBER), ("end_column", _NUMBER), ("code", _TEXT), ("name", _TEXT),
        ("severity", _TEXT), ("message", _TEXT), ("advice", _TEXT), ("fix", _TEXT), ("fingerprint", _TEXT),
        ("amplint", _TEXT),
    ]
)  # fmt: skip
"""A row for each finding: rows and columns count from 1, `fix` is `safe`, `unsafe` or `no`."""
REPOSITORIES = pa.schema(
    [
        ("repository", _TEXT), ("commit", _TEXT), ("key", _TEXT), ("status", _TEXT), ("reason", _TEXT),
        ("files", _NUMBER), ("bytes", _NUMBER), ("findings", _NUMBER), ("seconds", pa.float64()),
        ("cpu_seconds", pa.float64()), ("skipped", pa.list_(_TEXT)), ("amplint", _TEXT),
    ]
)  # fmt: skip
"""A row for each repository: `status` is `done`, `partly` or `failed`, `skipped` says why files were left out."""
_KINDS = {"findings": FINDINGS, "repositories": REPOSITORIES}


def rows(linted: Linted) -> dict[str, list[dict[str, Any]]]:
    """The rows of both tables for one repository."""
    common = {"repository": linted.repository, "commit": linted.commit, "amplint": __version__}
    repository = {name: getattr(linted, name) for name in REPOSITORIES.names if hasattr(linted, name)} | common
    repository["findings"] = len(linted.findings)
    repository["skipped"] = [f"{one_line(path)}: {why}" for path, why in sorted(linted.skipped.items())]
    return {"findings": [common | row for row in linted.findings], "repositories": [repository]}


class Store:
    """The results in `folder`: of single repositories in `parts`, and merged once a run has ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for kind in _KINDS:
            (folder / "parts" / kind).mkdir(parents=True, exist_ok=True)

    def done(self) -> set[tuple[str, str]]:
        """Repository and key of each that need not be linted again."""
        parts = (self.folder / "parts" / "repositories").glob("*.parquet")
        known = [row for part in parts for row in _read(part, ["repository", "key", "status"])]
        return {(row["repository"], row["key"]) for row in known if row["status"] != "failed"}

    def put(self, linted: Linted) -> None:
        """Store a repository's result; its row in the table of repositories is written last."""
        for kind, some in rows(linted).items():
            _write(self.folder / "parts" / kind / f"{_name(linted.repository)}.parquet", some, _KINDS[kind])

    def gather(self, repositories: Iterable[str]) -> None:
        """Write one file of each kind with the results of `repositories`."""
        names = [_name(repository) for repository in repositories]
        for kind, schema in _KINDS.items():
            parts = [self.folder / "parts" / kind / f"{name}.parquet" for name in names]
            tables = [pq.read_table(part, schema=schema) for part in parts if part.exists()]
            whole = pa.concat_tables(tables) if tables else schema.empty_table()
            _replace(self.folder / f"{kind}.parquet", whole)


def report(folder: Path) -> str:
    """A run's results as text: repositories with the most severe findings first, rules, and failures."""
    repositories = _read(folder / "repositories.parquet")
    findings = _read(folder / "findings.parquet", ["repository", "code", "name", "severity"])
    states = Counter(row["status"] for row in repositories)
    states_said = ", ".join(f"{states[status]} {status}" for status in ("done", "partly", "failed") if states[status])
    lines = [f"{len(repositories)} repositories ({states_said or 'none'}), {len(findings)} findings", ""]
    by_repository: dict[str, Counter[str]] = {row["repository"]: Counter() for row in repositories}
    by_rule: dict[tuple[str, str, str], set[str]] = {}
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in findings:
        by_repository[row["repository"]][row["severity"]] += 1
        rule = (row["code"], row["name"], row["severity"])
        counts[rule] += 1
        by_rule.setdefault(rule, set()).add(row["repository"])
    lines += [f"{'rule':<40} {'severity':<8} {'findings':>8} {'repositories':>12}"]
    for rule, number in counts.most_common():
        code, name, severity = rule
        lines.append(f"{f'{code} {name}':<40} {severity:<8} {number:>8} {len(by_rule[rule]):>12}")
    lines += ["", f"{'errors':>6} {'warnings':>8} {'infos':>6}  repository"]
    order = sorted(by_repository.items(), key=lambda pair: [-pair[1][word] for word in ("error", "warning", "info")])
    for repository, found in order:
        if found:
            lines.append(f"{found['error']:>6} {found['warning']:>8} {found['info']:>6}  {one_line(repository)}")
    troubled = [row for row in repositories if row["status"] != "done"]
    if troubled:
        lines += ["", "not or not wholly linted:"]
        for row in troubled:
            reasons = "; ".join(row["skipped"]) or row["reason"]
            lines.append(f"  {one_line(row['repository'])} ({row['status']}): {one_line(reasons)}")
    return "\n".join(lines) + "\n"


def unfinished(folder: Path) -> int:
    """The number of repositories that failed or were linted in part."""
    return sum(row["status"] != "done" for row in _read(folder / "repositories.parquet", ["status"]))


def _name(repository: str) -> str:
    """A unique file name for a repository, from its last two folders and a digest."""
    readable = re.sub(r"[^\w.-]+", "+", "/".join(Path(repository).parts[-2:]))[-80:]
    return f"{readable}-{blake2b(os.fsencode(repository), digest_size=6).hexdigest()}"


def _read(path: Path, columns: list[str] | None = None) -> list[dict[str, Any]]:
    try:
        return list(pq.read_table(path, columns=columns).to_pylist())
    except (OSError, pa.ArrowException):
        return []


def _write(path: Path, some: list[dict[str, Any]], schema: pa.Schema) -> None:
    _replace(path, pa.Table.from_pylist(some, schema=schema))


def _replace(path: Path, table: pa.Table) -> None:
    fresh = path.with_suffix(f".{os.getpid()}.new")
    pq.write_table(table, fresh)
    os.replace(fresh, path)
