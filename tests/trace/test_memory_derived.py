"""What follows from estimates without a run: sizes by hand, and what a report advises."""

from __future__ import annotations

import pytest

from amplint.reports.memory import of_peaks
from amplint.trace.gpus import GPUS
from amplint.trace.memory.derived import derived, largest_batch
from amplint.trace.memory.estimates import KINDS, Estimate, Holder

GIB = 2**30


def sizes(**gib: float) -> dict[str, int]:
    """Bytes by kind."""
    return {**dict.fromkeys(KINDS, 0), **{kind.replace("_", " "): int(size * GIB) for kind, size in gib.items()}}


STATES = {"parameters": 4, "gradients": 4, "optimizer": 8}
PEAKS = {
    "forward": sizes(parameters=4, optimizer=8, activations=6),
    "backward": sizes(parameters=4, gradients=2, optimizer=8, activations=8, temporary=1),
    "optimizer": sizes(**STATES, temporary=8),
}


def estimate(name: str = "as it is", peaks: dict[str, dict[str, int]] = PEAKS) -> Estimate:
    """An estimate of a model of a billion float32 parameters, in four blocks."""
    phase = max(peaks, key=lambda one: sum(peaks[one].values()))
    return Estimate(name, peaks[phase], "train.py", 7, phase, peaks=peaks, batch=16, unit=GIB, wide=True)


@pytest.mark.parametrize(
    ("name", "phase", "total"),
    [
        ("fused optimizer", "backward", 23),  # where the step takes nothing more, the backward pass is what is left
        ("8-bit optimizer", "backward", 15 + 8 * (1 + 1 / 64) / 4),
        ("bfloat16 weights", "backward", 16),
        ("optimizer on CPU", "backward", 15),
        ("FSDP over 8", "backward", 4 / 8 + 2 + 2 / 8 + 1 + 8 / 8 + 9),
    ],
)
def test_what_a_change_comes_to(name: str, phase: str, total: float) -> None:
    found = {each.variant: each for each in derived([estimate()], 4, 8)}
    assert "accumulate 4" not in found  # it leaves the step as it is
    assert (found[name].phase, found[name].total / GIB) == (phase, pytest.approx(total))
    assert found[name].derived


def test_accumulation_is_worked_out_where_it_cannot_be_run() -> None:
    peaks = {**PEAKS, "optimizer": sizes(**STATES)}
    refused = Estimate("accumulate 4", refused="no DataLoader")
    (found,) = [each for each in derived([estimate(peaks=peaks), refused], 4, 8) if each.variant == "accumulate 4"]
    assert found.total == sum(STATES.values()) * GIB + 9 * GIB // 4
    ran = [estimate(peaks=peaks), estimate("accumulate 4", peaks)]
    assert "accumulate 4" not in {each.variant for each in derived(ran, 4, 8)}


def test_the_largest_batch_leaves_room_for_the_context() -> None:
    peaks = {"backward": sizes(parameters=4, activations=3, temporary=1), "optimizer": sizes(parameters=4, temporary=8)}
    assert largest_batch(estimate(peaks=peaks), 24) == (24 - 0.5 - 4) / 4
    assert largest_batch(estimate(peaks=peaks), 12) == 0  # the step alone is too large


def test_a_report_tells_twins_once_what_holds_most_and_what_to_change() -> None:
    holder = Holder("activations", "train.py", 7, "model.blocks.*", 8 * GIB)
    peaks = {"backward": PEAKS["backward"]}
    first = estimate(peaks=peaks)
    first = Estimate(**{**{name: getattr(first, name) for name in first.__slots__}, "holders": (holder,)})
    half = {"backward": {**PEAKS["backward"], "activations": 2 * GIB, "temporary": GIB // 2}}
    found = [first, estimate("float32", peaks), estimate("AMP bfloat16", half)]
    told = of_peaks([*found, *derived(found, 4, 8)], GPUS["a100"], 100)
    assert 'float32             the same as "as it is"' in told
    assert "~ 8-bit optimizer" in told
    assert "  8.00  activations  model.blocks.*  train.py:7" in told
    advice = "run forward passes under autocast in bfloat16, which saves 6.50 GiB, 28% of the peak."
    assert f"change first: {advice}" in " ".join(told.split())
    assert "as it is, of 16 now: about 2 on 16 GiB, 16 on 24 GiB" in " ".join(told.split())


def test_bfloat16_is_not_advised_where_a_gpu_has_none() -> None:
    peaks = {"backward": PEAKS["backward"]}
    half = {"backward": {**PEAKS["backward"], "activations": GIB}}
    told = of_peaks(
        [estimate(peaks=peaks), *(estimate(f"AMP {name}", half) for name in ("float16", "bfloat16"))], GPUS["t4"]
    )
    assert "autocast in float16, with a GradScaler" in " ".join(told.split())
