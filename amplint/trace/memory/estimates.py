"""Memory estimates: peaks of the script as it is and of its variants."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, field

from amplint.records import dataclass

KINDS = (
    *("parameters", "gradients", "optimizer", "activations"),
    *("half copies", "inputs and buffers", "temporary", "workspaces"),
)
"""The kinds of memory.

Half copies are autocast's copies of parameters; temporary is memory of backward passes and steps; workspaces belong to
CUDA's libraries.
"""


@dataclass(frozen=True, slots=True)
class Variant:
    """A change of a script: `autocast` is `float16`, `bfloat16`, `off` or empty for its own regions.

    `accumulate` is the divisor of batches, `checkpoint` whether repeated blocks are recomputed in the backward pass.
    """

    name: str
    autocast: str = ""
    accumulate: int = 1
    checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class Holder:
    """Bytes of one kind at the peak, allocated at a line; `module` is the path of the module that ran."""

    kind: str
    filename: str
    row: int
    module: str
    size: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """The peak of one variant, in bytes by kind, or why there is none.

    `phase` is that of the peak, `forward`, `backward` or `optimizer`, and `peaks` are the highest of each phase; in the
    backward pass, the line is the one whose gradient was computed. `holders` are the largest allocations at the peak.
    `batch` is the number of samples per step, 0 if unknown, `unit` the bytes of parameters in the largest repeated
    block, `wide` whether all trained parameters are float32. `autocast` is the variant with the same regions, if there
    is one. `derived` says that it was computed from others without a run.
    """

    variant: str
    peak: Mapping[str, int] = field(default_factory=dict)
    filename: str = ""
    row: int = 0
    phase: str = ""
    refused: str = ""
    peaks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    holders: tuple[Holder, ...] = ()
    batch: int = 0
    unit: int = 0
    wide: bool = False
    autocast: str = ""
    derived: bool = False

    @property
    def total(self) -> int:
        """The result of `torch.cuda.max_memory_allocated`."""
        return sum(self.peak.values())

    def to_json(self) -> str:
        """The estimate as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Estimate:
        """The estimate that `to_json` wrote."""
        fields = json.loads(text)
        return cls(**{**fields, "holders": tuple(Holder(**each) for each in fields["holders"])})


def variants(accumulate: int) -> list[Variant]:
    """The script as it is, and its variants; `accumulate` batches are one step."""
    return [
        Variant("as it is"),
        Variant("float32", autocast="off"),
        Variant("AMP float16", autocast="float16"),
        Variant("AMP bfloat16", autocast="bfloat16"),
        Variant(f"accumulate {accumulate}", accumulate=accumulate),
        Variant("checkpointing", checkpoint=True),
    ]
