"""What is estimated: peaks of memory, of the script as it is and as it would be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, field

from amplint.records import dataclass

KINDS = (
    *("parameters", "gradients", "optimizer", "activations"),
    *("half copies", "inputs and buffers", "temporary", "workspaces"),
)
"""What memory is used for.

Half copies are those that autocast makes of parameters; temporary is what backward passes and steps need for a while;
workspaces are CUDA's libraries' own.
"""


@dataclass(frozen=True, slots=True)
class Variant:
    """How a script is changed: `autocast` is `float16`, `bfloat16`, `off` or empty for its own regions.

    `accumulate` is by how much batches are divided, `checkpoint` whether repeated blocks are computed again in the
    backward pass.
    """

    name: str
    autocast: str = ""
    accumulate: int = 1
    checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class Holder:
    """Bytes of one kind that what is made at a line held at the peak; `module` is the path of the one that ran."""

    kind: str
    filename: str
    row: int
    module: str
    size: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """The peak of one variant, in bytes by kind, or why there is none.

    `phase` is what ran then, `forward`, `backward` or `optimizer`, and `peaks` are the highest of each phase; in the
    backward pass, the line is the one whose gradient was computed. `holders` are the largest at the peak. `batch` is
    how many samples a step's batch has, 0 where that is not known, `unit` the bytes of the parameters of the largest
    block that the model repeats, `wide` whether all that is trained is float32. `autocast` is the variant whose regions
    are the same, if one is. `derived` says that it was not run, but worked out from others.
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
        """What `torch.cuda.max_memory_allocated` would say."""
        return sum(self.peak.values())

    def to_json(self) -> str:
        """The estimate as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Estimate:
        """What `to_json` wrote."""
        fields = json.loads(text)
        return cls(**{**fields, "holders": tuple(Holder(**each) for each in fields["holders"])})


def variants(accumulate: int) -> list[Variant]:
    """The script as it is, and as it could be; `accumulate` batches are one step."""
    return [
        Variant("as it is"),
        Variant("float32", autocast="off"),
        Variant("AMP float16", autocast="float16"),
        Variant("AMP bfloat16", autocast="bfloat16"),
        Variant(f"accumulate {accumulate}", accumulate=accumulate),
        Variant("checkpointing", checkpoint=True),
    ]
