"""Every fixture program is linted, run, repaired and run again: what the linter says must be what PyTorch does."""

from __future__ import annotations

import functools

import pytest
from proof.client import Outcome, ProofServer
from proof.programs import FIXTURES, Program, programs

from amplint.engine.cache import Cache
from amplint.engine.config import Settings
from amplint.engine.discover import Target
from amplint.engine.fixing import Repaired, repair
from amplint.engine.projects import Projects
from amplint.engine.registry import load_registry
from amplint.engine.run import Linter
from amplint.findings import Finding

RULES = load_registry().rules
PROGRAMS = programs()
BAD = [program for program in PROGRAMS if program.is_bad]
GOOD = [program for program in PROGRAMS if not program.is_bad]


def each(chosen: list[Program]) -> pytest.MarkDecorator:
    """Run the test once for each of the programs."""
    return pytest.mark.parametrize("program", chosen, ids=lambda program: program.name)


@functools.cache
def linter(code: str, asked: bool, unsafe_fixes: bool) -> tuple[Linter, Settings]:
    """A linter with the default rules, and with the rule `code` where that is `asked` for or not one of them."""
    settings = Settings(extend_select=(code,) if asked or not RULES[code].default else (), unsafe_fixes=unsafe_fixes)
    return Linter(Projects(RULES, fixed=settings), Cache(None)), settings


def lint(program: Program) -> list[Finding]:
    """What the linter finds in the program."""
    checker, settings = linter(program.code, program.asked, False)
    return checker.check(Target(program.name, str(program.path), settings), program.text.encode())


def fix(program: Program, raw: bytes, *, unsafe: bool) -> Repaired:
    """What `--fix`, with `--unsafe-fixes` where `unsafe`, makes of `raw`."""
    checker, settings = linter(program.code, program.asked, unsafe)
    return repair(raw, Target(program.name, str(program.path), settings), checker)


def run(server: ProofServer, program: Program, text: str) -> Outcome:
    """What `text`, the program or a repaired one, does when it is run."""
    return server.run(text, program.name, cuda=program.cuda, framework=program.framework)


def codes(findings: list[Finding]) -> set[str]:
    """The codes among the findings."""
    return {finding.code for finding in findings}


def shown(repaired: Repaired) -> str:
    """What is found after a repair, and the text that it is found in."""
    found = [f"{finding.span.start.row}: {finding.code} {finding.message}" for finding in repaired.findings]
    return "\n".join(["the repaired program has these findings:", *found, "", repaired.after.decode()])


@each(PROGRAMS)
def test_lint(program: Program) -> None:
    assert {(finding.span.start.row, finding.code) for finding in lint(program)} == program.expectations


@each(BAD)
def test_symptom_is_real(program: Program, server: ProofServer) -> None:
    outcome = run(server, program, program.text)
    assert program.shows_symptom(outcome), outcome.symptoms()


@each(GOOD)
def test_good_program_is_healthy(program: Program, server: ProofServer) -> None:
    assert not program.expectations
    assert run(server, program, program.text).symptoms() == []


@each([program for program in BAD if program.fix != "none"])
def test_fix_takes_the_symptom_away(program: Program, server: ProofServer) -> None:
    unsafe = program.fix == "unsafe"
    fixed = fix(program, program.text.encode(), unsafe=unsafe)
    expected = {code for _, code in program.expectations}
    assert codes(fixed.findings) <= expected - {program.code}, shown(fixed)
    assert fix(program, fixed.after, unsafe=unsafe).after == fixed.after
    assert run(server, program, fixed.after.decode()).symptoms() == [], fixed.after.decode()


@each([program for program in BAD if program.fix != "safe"])
def test_no_fix_without_proof(program: Program) -> None:
    fixed = fix(program, program.text.encode(), unsafe=program.fix == "none")
    option = "--unsafe-fixes" if program.fix == "none" else "--fix"
    told = (
        f"{option} repairs this, and the header says `fix: {program.fix}`; a `Fix` is safe where it says nothing else"
    )
    assert program.code in codes(fixed.findings), f"{told}\n{fixed.after.decode()}"


@pytest.mark.parametrize("code", [code for code, rule in RULES.items() if rule.handlers()])
def test_promise_of_a_rule_is_proved(code: str) -> None:
    proved = {program.fix for program in BAD if program.code == code}
    best = next((one for one in ("safe", "unsafe") if one in proved), "none")
    promised = RULES[code].fixable
    assert best == (promised.value if promised is not None else "none"), "`fixable`, and the best `fix` of its programs"


@pytest.mark.parametrize("code", [code for code, rule in RULES.items() if rule.handlers()])
def test_rule_has_programs(code: str) -> None:
    here = [program for program in PROGRAMS if program.path.parent.name == f"{code}-{RULES[code].name}"]
    assert any(program.is_bad for program in here)
    assert any(not program.is_bad for program in here)


def test_folders_are_named_after_rules() -> None:
    unknown = {folder.name for folder in FIXTURES.iterdir() if folder.is_dir()}
    assert unknown - {f"{rule.code}-{rule.name}" for rule in RULES.values()} == set()


@each(BAD)
def test_bad_program_expects_its_rule(program: Program) -> None:
    assert program.code in {code for _, code in program.expectations}
