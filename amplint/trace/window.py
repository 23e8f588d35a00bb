"""Which optimizer steps of a run are recorded."""

from __future__ import annotations

from amplint.records import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """Of all steps, `skip` are left out, then every `every`-th is recorded until there are `steps` (None: no end).

    Steps are counted from 0; a step is what happens up to and including an optimizer's `step()`. With several
    optimizers the one that steps most often counts. Raises ValueError for numbers that make no sense.
    """

    steps: int | None = None
    skip: int = 0
    every: int = 1

    def __post_init__(self) -> None:
        if (self.steps is not None and self.steps < 1) or self.skip < 0 or self.every < 1:
            raise ValueError("steps and every are at least 1, skip is at least 0")

    def holds(self, step: int) -> bool:
        """Whether `step` is recorded."""
        return step >= self.skip and (step - self.skip) % self.every == 0 and not self.is_past(step)

    def number(self, step: int) -> int:
        """Which of the recorded steps `step` is, from 0 on; it is recorded."""
        return (step - self.skip) // self.every

    def is_past(self, step: int) -> bool:
        """Whether `step` and all after it are no longer recorded."""
        return self.end is not None and step >= self.end

    @property
    def end(self) -> int | None:
        """How many steps are taken until all are recorded, None where there is no end."""
        return None if self.steps is None else self.skip + (self.steps - 1) * self.every + 1
