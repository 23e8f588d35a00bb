"""Estimates derived from others without a run: other optimizers, weights in bfloat16, offloading, sharding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from amplint.trace.memory.estimates import Estimate

Sizes = dict[str, int]
_EIGHT_BITS = Fraction(1 + 4 / 256) / 4
"""The state of 8-bit optimizers relative to four bytes: one byte, and a float32 for each block of 256.

Source: Dettmers et al., 8-bit Optimizers via Block-wise Quantization (ICLR 2022); blocks are those of bitsandbytes.
"""
_LEAST = 0.02
"""The smallest share saved for which an estimate is shown."""
_CONTEXT = 2**29
"""The approximate size of the CUDA context on a GPU, in bytes."""


def derived(found: Sequence[Estimate], accumulate: int, ranks: int) -> Iterator[Estimate]:
    """The estimates derived from `found`, of which the first is the script as it is.

    `accumulate` is the number of batches per step, `ranks` the number of GPUs that the model would be sharded over.
    Estimates with negligible savings are left out.
    """
    first = found[0]
    for base, name, change in _changes(found, accumulate, ranks):
        estimate = _changed(base, name, change)
        if estimate.total < (1 - _LEAST) * first.total:
            yield estimate


def _changes(
    found: Sequence[Estimate], accumulate: int, ranks: int
) -> Iterator[tuple[Estimate, str, Callable[[str, Sizes], None]]]:
    first, by_name = found[0], {each.variant: each for each in found}
    gradients = max((sizes["gradients"] for sizes in first.peaks.values()), default=0)

    def accumulated(phase: str, sizes: Sizes) -> None:
        sizes["gradients"] = gradients
        for kind in ("activations",) if phase == "optimizer" else ("activations", "temporary"):
            sizes[kind] //= accumulate

    def fused(phase: str, sizes: Sizes) -> None:
        if phase == "optimizer":
            sizes["temporary"] = 0

    def eight_bits(phase: str, sizes: Sizes) -> None:
        fused(phase, sizes)
        sizes["optimizer"] = int(sizes["optimizer"] * _EIGHT_BITS)

    def offloaded(phase: str, sizes: Sizes) -> None:
        fused(phase, sizes)
        sizes["optimizer"] = 0

    def narrow(phase: str, sizes: Sizes) -> None:
        sizes["half copies"] = 0
        for kind in ("parameters", "gradients", "optimizer"):
            sizes[kind] //= 2
        if phase == "optimizer":
            sizes["temporary"] //= 2

    def sharded(phase: str, sizes: Sizes) -> None:
        gathered = 0 if phase == "optimizer" else first.unit
        twice = min(2 * gathered, sizes["parameters"])  # the next block is prefetched while one computes
        sizes["parameters"] = sizes["parameters"] // ranks + twice
        sizes["gradients"] = sizes["gradients"] // ranks + (gathered if phase == "backward" else 0)
        sizes["optimizer"] //= ranks
        if phase == "optimizer":
            sizes["temporary"] //= ranks

    if by_name.get(f"accumulate {accumulate}", first).refused:
        yield first, f"accumulate {accumulate}", accumulated
    yield first, "fused optimizer", fused
    yield first, "8-bit optimizer", eight_bits
    bfloat16 = by_name.get("AMP bfloat16", first)
    if first.wide and not bfloat16.refused:
        yield bfloat16, "bfloat16 weights", narrow
    yield first, "optimizer on CPU", offloaded
    yield first, f"FSDP over {ranks}", sharded


def _changed(base: Estimate, name: str, change: Callable[[str, Sizes], None]) -> Estimate:
    peaks: dict[str, Sizes] = {}
    for phase, sizes in base.peaks.items():
        peaks[phase] = dict(sizes)
        change(phase, peaks[phase])
    phase = max(peaks, key=lambda one: sum(peaks[one].values()))
    return replace(base, variant=name, peak=peaks[phase], peaks=peaks, phase=phase, holders=(), derived=True)


def largest_batch(estimate: Estimate, memory: int) -> float:
    """The factor by which the batch can grow on a GPU of `memory` GiB, if memory scales linearly with it.

    Activations do, and temporary memory of backward passes; parameters, their copies and inputs on the GPU do not.
    """
    return min(_times(phase, sizes, memory * 2**30 - _CONTEXT) for phase, sizes in estimate.peaks.items())


def _times(phase: str, sizes: Mapping[str, int], room: int) -> float:
    grows = sizes["activations"] + (0 if phase == "optimizer" else sizes["temporary"])
    fixed = sum(sizes.values()) - grows
    return max(0.0, (room - fixed) / grows) if grows else float("inf" if fixed <= room else 0)
