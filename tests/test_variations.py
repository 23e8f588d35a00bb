"""What is found in a program is found however it is written: `python -m tests.variations` has all of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from proof.programs import Program, programs

from tests.variations.matrix import losses, lost
from tests.variations.transforms import TRANSFORMS

FAMILIES = ("AMP1", "AMP2", "AMP3", "AMP4", "AMP5", "AMP6", "AMP70")
REASONS = {
    "what is made in one file and used in another is not followed where the first holds no word of the rule": [
        ("AMP103", "sibling"), ("AMP103", "sibling_star"), ("AMP209", "sibling"), ("AMP209", "sibling_star"),
        ("AMP603", "sibling"), ("AMP603", "sibling_star"), ("AMP705", "sibling"), ("AMP705", "sibling_star"),
        ("AMP705", "sibling_step"), ("AMP705", "sibling_trainer"), ("AMP705", "sibling_statement"),
    ],
    "a counter of micro-batches is not followed into the function that counts": [
        ("AMP302", "step_function"), ("AMP302", "nested_step"), ("AMP305", "step_function"), ("AMP305", "nested_step"),
        ("AMP305", "statement_function"),
    ],
    "where a generator yields, anything can happen": [
        ("AMP302", "generator"), ("AMP705", "generator"),
    ],
    "a sum in sight may be meant to be one": [("AMP302", "loss_dict")],
    "another program: a parameter is renamed, and the text that names it is not": [("AMP704", "renamed")],
    "the length of a loop that asks for the next batch is not known": [
        ("AMP303", "while_loop"), ("AMP603", "while_loop"),
    ],
    "another program: what the last window leaves is used in the next epoch": [
        ("AMP303", "epochs"), ("AMP305", "epochs"),
    ],
    "clearing that a flag switches is taken for that of the window": [("AMP304", "conditional")],
    "an attribute that is bound anew in each round is not told from one that lives on": [
        ("AMP210", "step_method"), ("AMP210", "based_step"), ("AMP210", "abstract_step"), ("AMP210", "sibling_trainer"),
    ],
    "a constructor that is chosen by its name is known where it is called alone": [("AMP209", "config_flag")],
    "flags are compared where both are arguments": [
        ("AMP220", "amp_flag"), ("AMP220", "config_flag"),
    ],
    "a context that a stack enters is not the block's": [("AMP113", "exit_stack")],
    "the arguments of a context are read where they are written": [("AMP606", "region_settings")],
    "a function that a model is loaded in is not followed": [("AMP505", "statement_function")],
    "the parameters that a progress bar goes through are not known": [("AMP407", "tqdm_loop")],
    "an accelerator is known in the function that makes it": [("AMP705", "in_main"), ("AMP705", "nested_step")],
}  # fmt: skip
"""Why findings are lost, and the rules and transforms where they are."""
LOST = {cell: reason for reason, cells in REASONS.items() for cell in cells}


def chosen() -> list[Program]:
    """One program of each rule."""
    first: dict[str, Program] = {}
    for program in programs():
        if program.is_bad and program.code.startswith(FAMILIES):
            first.setdefault(program.code, program)
    return [*first.values()]


PROGRAMS = chosen()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.code)
def test_findings_stay(program: Program, tmp_path: Path) -> None:
    transforms = [name for name in TRANSFORMS if (program.code, name) not in LOST]
    gone = {name: dict(codes) for name, codes in losses(program, transforms, tmp_path) if codes}
    assert not gone, f"{program.name}: lost by these transforms"


@pytest.mark.parametrize(
    ("code", "transform"),
    [pytest.param(*cell, marks=pytest.mark.xfail(reason=reason, strict=True)) for cell, reason in LOST.items()],
)
def test_known_loss(code: str, transform: str, tmp_path: Path) -> None:
    program = next(program for program in PROGRAMS if program.code == code)
    assert not lost(program, transform, tmp_path)
