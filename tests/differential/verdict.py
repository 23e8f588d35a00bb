"""What the linter says about a program, and how that differs from what PyTorch showed."""

from __future__ import annotations

import ast

from amplint.engine.dispatch import Dispatcher
from amplint.rule import Registry
from amplint.semantics import interpret
from amplint.semantics.reading.program import Program
from amplint.source.source import Source
from tests.differential.oracle import Outcome, Verdict, observe

CODES = frozenset({"AMP201", "AMP202", "AMP203", "AMP204", "AMP205", "AMP206", "AMP207", "AMP215", "AMP221"})
RULES = [rule for rule in Registry().load().rules.values() if rule.code in CODES]


def found(source: str) -> set[Verdict]:
    """The linter's findings, each with its line."""
    program = Program(Source("program.py", source))
    dispatcher = Dispatcher(program, RULES, CODES)
    interpret(program, dispatcher.emit, dispatcher.kinds)
    return {(finding.code, finding.span.start.row) for finding in dispatcher.findings()}


def disagreement(source: str) -> str:
    """The program with what the linter missed or made up beside its lines; nothing where both agree."""
    missed, made_up = differences(source, found(source), observe(source))
    lines = source.splitlines()
    for code, line in sorted(missed):
        lines[line - 1] += f"  # MISSED {code}"
    for code, line in sorted(made_up):
        lines[line - 1] += f"  # FALSE ALARM {code}"
    return "\n".join(lines) if missed or made_up else ""


def differences(source: str, said: set[Verdict], outcome: Outcome) -> tuple[set[Verdict], set[Verdict]]:
    """What is missed and what is made up. A function that no run enters is left out: others may call it."""
    shown = outcome.verdicts()
    idle = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name not in outcome.entered
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    made_up = said - shown - outcome.open - outcome.doubted
    return shown - said - outcome.doubted, {verdict for verdict in made_up if verdict[1] not in idle}
