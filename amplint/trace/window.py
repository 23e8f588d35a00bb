"""The window of recorded optimizer steps."""

from __future__ import annotations

from amplint.records import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """The first `skip` steps are not recorded, then every `every`-th is, until there are `steps` (None: no end).

    Steps are counted from 0; a step ends with an optimizer's `step()`. With several optimizers the one with the most
    steps counts. Raises ValueError for invalid numbers.
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
        """The index of the recorded `step` among the recorded steps."""
        return (step - self.skip) // self.every

    def is_past(self, step: int) -> bool:
        """Whether `step` and all later ones are after the window."""
        return self.end is not None and step >= self.end

    @property
    def end(self) -> int | None:
        """The number of steps until the window ends, None without an end."""
        return None if self.steps is None else self.skip + (self.steps - 1) * self.every + 1
