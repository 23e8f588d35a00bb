"""`--from cuda-amp`: the deprecated `torch.cuda.amp` and `torch.cpu.amp` become `torch.amp`."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.codemods.conversion import Plan, Remark, Wish
from amplint.codemods.repairs import plan_repairs, rule_named
from amplint.source import syntax as cst
from amplint.torchlib.names import SUCCESSORS
from amplint.training.names import imported, library_uses
from amplint.training.script import Script


def plan(text: str, wish: Wish, path: str) -> Plan:
    """Rename every use; refuse where one cannot be renamed on its own, or has another meaning in other code."""
    found = plan_repairs(rule_named("deprecated-amp-api"), text, path)
    if found.changes or found.refused or not any(name.rpartition(".")[0] in text for name in SUCCESSORS):
        return found
    return Plan(refused=tuple(_left(Script(text, path))))


def _left(script: Script) -> Iterator[Remark]:
    """Remarks on imports of deprecated names that were not repaired, unless their successors are imported too."""
    statements = script.of_kind(cst.Import, cst.ImportFrom)
    bound = [(one, meaning) for one in statements for _, meaning in imported(script, one, "torch")]
    named = {meaning for _, meaning in bound} | {use.name for use in library_uses(script, "torch")}
    for statement, meaning in bound:
        if meaning in SUCCESSORS and SUCCESSORS[meaning][0] not in named:
            last = meaning.rpartition(".")[2]
            why = f"{meaning} is deprecated, and what {last} stands for where it is called cannot be told"
            yield Remark(script.row(statement), why)
