"""`--from cuda-amp`: the deprecated `torch.cuda.amp` and `torch.cpu.amp` become `torch.amp`."""

from __future__ import annotations

from amplint.codemods.conversion import Plan, Wish
from amplint.codemods.repairs import plan_repairs, rule_named


def plan(text: str, wish: Wish, path: str) -> Plan:
    """Rename every use; refuse where one of them cannot be renamed on its own."""
    return plan_repairs(rule_named("deprecated-amp-api"), text, path)
