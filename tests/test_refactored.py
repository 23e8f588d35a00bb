"""What survives the refactorings of `benchmarks.refactored`, for some programs, and that these change no behaviour."""

from __future__ import annotations

import ast

import pytest
from proof.client import ProofServer

from benchmarks.refactored import FIXTURES, trials
from benchmarks.refactorings import REFACTORINGS, SCRIPT, Unsuited

WHOLE = {
    "AMP201-double-unscale/bad_same_iteration.py": set(),
    "AMP203-missing-update/bad_never_with_clipping.py": set(),
    "AMP201-double-unscale/good_once_per_iteration.py": set(),
    "AMP410-half-parameters-trained/bad_layer_in_half.py": {"loop-body-other-file", "step-other-file"},
}
"""Programs that are refactored in every way, with the refactorings that hide the mistake."""
PAIRS = {
    "functions in a list, called in a loop": ("AMP203-missing-update/bad_overflow_left_out.py", "trainer-hooks"),
    "a class passed to what calls it": ("AMP203-missing-update/bad_step_method.py", "forwarded-arguments"),
    "a default in the file of its function": ("AMP203-missing-update/bad_step_method.py", "other-file"),
    "a factory within a factory": ("AMP401-constant-overflows-half/bad_scaled_logits.py", "model-factory"),
    "a function that returns a layer": (
        "AMP502-dtype-mismatch-after-autocast/bad_classifier_outside.py",
        "model-factory",
    ),
    "a helper in another file": ("AMP207-backward-without-scale/bad_plain_backward.py", "step-other-file"),
    "a region in another file": ("AMP107-autocast-arguments/bad_flag_in_place_of_dtype.py", "package"),
    "the step of a search": ("AMP208-float16-without-scaler/good_batch_size_search.py", "only-step-helper"),
    "the passes of a search": ("AMP208-float16-without-scaler/good_batch_size_search.py", "step-helper"),
    "layers that a forwarding function makes": (
        "AMP108-forward-outside-autocast/good_features_before.py",
        "forwarded-arguments",
    ),
}
RUN = ("main", "trainer-base", "loop-body-closure", "while-next", "objects-in-dataclass", "region-contextmanager")


@pytest.mark.parametrize("name", WHOLE)
def test_whole_row(name: str) -> None:
    done = trials(FIXTURES / name, REFACTORINGS)
    assert len(done) > 25
    assert {one.refactoring for one in done if one.kept < one.before or one.new} == WHOLE[name]


@pytest.mark.parametrize(("name", "refactoring"), PAIRS.values(), ids=list(PAIRS))
def test_pair(name: str, refactoring: str) -> None:
    (trial,) = trials(FIXTURES / name, [refactoring])
    assert trial.kept == trial.before
    assert not trial.new


@pytest.mark.parametrize("refactoring", RUN)
def test_behaviour_stays(refactoring: str, server: ProofServer) -> None:
    text = (FIXTURES / "AMP201-double-unscale/good_once_per_iteration.py").read_text(encoding="utf-8")
    refactored = REFACTORINGS[refactoring](ast.parse(text))[SCRIPT]
    before, after = (server.run(one, "program.py") for one in (text, refactored))
    assert refactored != text
    assert before.symptoms() == after.symptoms() == []
    assert before.result == after.result


def test_results_stay_global() -> None:
    with pytest.raises(Unsuited):
        REFACTORINGS["loop-body"](ast.parse("for batch in [1, 2]:\n    result = batch\n"))
