"""The data of a traced run: operations, the scalers' history, dtypes of parameters, numerical evidence, ranks."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import field

from amplint.records import dataclass
from amplint.trace.compared import Comparison

SCHEMA = 2
"""The version of the format that `Record.to_json` writes; `docs/trace.md` describes it.

It increases whenever a key is added, removed or changes its meaning: a list that an older record lacks would read as
"looked for, and nothing found".
"""
PHASES = ("forward", "backward", "recomputation", "optimizer")
SERIES = ("loss", "scale", "skipped", "activation", "gradient", "underflow")
SERIES_POINTS = 1000
OBSERVATIONS = (
    *("stuck", "summed", "infinite", "counted", "rounded", "running", "factors", "angle"),
    *("clipped", "compared", "stepped", "vanished"),
)
"""State that stays as it is, sums that lose terms or state that becomes inf; numbers that half cannot tell apart: when
counted, converted, summed up, multiplied or used as an angle; scaled gradients that are clipped, compared or stepped
with; gradients that become 0 in place."""
NUMERICS = ("off", "sample", "full")
"""How much of the numbers is looked at: only dtypes, every result for inf and NaN and the rest by samples, all."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One kind of operation at one place.

    `op` is the name in the dispatcher (`addmm`, `mul_`), `api` the call of the user's code that led to it
    (`torch.nn.functional.linear`), empty in the backward pass. `filename` and `row` are the line of the user's code,
    in the backward pass that of the forward operation; row 0 where there is none. `module` is the path of the
    innermost module (`model.layers.0`). Dtypes are those of tensors, in order, after any cast. `autocast` is the dtype
    of the region that is on, empty if none is. `library` and `library_row` are the innermost line of an installed
    package that the line of the user's code has called, empty and 0 where it called PyTorch itself.
    """

    phase: str
    op: str
    api: str
    filename: str
    row: int
    module: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    autocast: str
    device: str
    library: str = ""
    library_row: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A call from a line of the user's code: of a module, a step of an optimizer, or one that may run no operation.

    `name` is the module's class, `SGD.step`, `torch.Tensor.numpy` or `torch.Tensor.backward`. The other fields are as
    in `Operation`; dtypes are those of the tensors among positional arguments and results, for an optimizer those of
    its parameters.
    """

    name: str
    module: str
    filename: str
    row: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    autocast: str


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception that PyTorch raised in a call of the user's, or that ended the run.

    `type` is its class and `message` its text in one line, `api` the call, empty if the exception comes from
    elsewhere, `filename` and `row` are the innermost line of the user's code.
    """

    type: str
    message: str
    api: str
    filename: str
    row: int


@dataclass(frozen=True, slots=True)
class ScalerStep:
    """One `step()` of a scaler, with what the `update()` behind it made of the scale.

    `stage` is the optimizer's before: READY, or UNSCALED where `unscale_` was called. `after` and `growth_tracker` are
    None if no `update()` followed. `filename` and `row` are the line of the user's code.
    """

    step: int
    filename: str
    row: int
    scaler: str
    optimizer: str
    stage: str
    scale: float
    skipped: bool
    after: float | None = None
    growth_tracker: int | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A parameter that an optimizer steps: its dtype and, by name, those of the optimizer's tensors for it.

    `filename` and `row` are the line of the user's code that steps the optimizer.
    """

    name: str
    optimizer: str
    filename: str
    row: int
    dtype: str
    state: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NonFinite:
    """An operation that made inf or NaN out of finite numbers, at its first time; what follows from it is left out.

    In a step that is not recorded it may be the `step` (`op`) of an optimizer, with gradients that are not finite.

    Places are as in `Operation`. `kind` is `inf` or `nan` (where both: `nan`), `dtype` that of the result. `scale` is
    the loss scale at that time, None without a scaler. `finite_in_float32` says whether float32 makes finite numbers
    of the same inputs; None if that was not tried.
    """

    step: int
    phase: str
    op: str
    api: str
    filename: str
    row: int
    module: str
    kind: str
    dtype: str
    scale: float | None = None
    finite_in_float32: bool | None = None
    library: str = ""
    library_row: int = 0


@dataclass(frozen=True, slots=True)
class HalfLoss:
    """What an operation lost by its half result: its inputs were put through it in float32 again.

    Places are as in `Operation`; `dtype` is that of the result. Counts are summed over the runs that were looked at:
    `elements` are the results that are not 0 in float32, `underflowed` those of them that half made 0, `overflowed`
    those that half made inf. `largest` is floor(log2|x|) of the largest of the elements in float32, `smallest` what
    nine of ten that underflowed reach at least; None if there are none. `scale` is the loss scale that gradients
    carried, 1.0 without one.
    """

    phase: str
    op: str
    filename: str
    row: int
    module: str
    dtype: str
    elements: int
    underflowed: int
    overflowed: int
    smallest: int | None = None
    largest: int | None = None
    scale: float = 1.0
    library: str = ""
    library_row: int = 0


@dataclass(frozen=True, slots=True)
class Histogram:
    """How large numbers are: `exponents` counts floor(log2|x|) over a sample of all recorded steps.

    `what` is `activation` (what a module returned), `weight` or `gradient` (of a parameter, when its optimizer steps);
    `name` the path of the module or parameter. `scale` is the loss scale that gradients carry, else 1.0. `zeros` and
    `nonfinite` count what has no exponent.
    """

    what: str
    name: str
    dtype: str
    scale: float
    exponents: dict[int, int]
    zeros: int
    nonfinite: int


@dataclass(frozen=True, slots=True)
class Update:
    """What one step of an optimizer did to a parameter, by a sample of its elements.

    `ratio` is the norm of the update over that of the weight before, None if that is 0; `lost` the share of elements
    that stayed as they were although their gradient was not 0. `filename` and `row` are the line that steps the
    optimizer, `dtype` is the parameter's.
    """

    name: str
    optimizer: str
    filename: str
    row: int
    step: int
    dtype: str
    ratio: float | None
    lost: float


@dataclass(frozen=True, slots=True)
class Observation:
    """What a line did to numbers that half does not hold, or to gradients that carry a loss scale.

    `kind` is one of `OBSERVATIONS`. Places are as in `Operation`, `dtype` is that of the result or of the gradients.
    `count` is how often it was seen, `share` how much was lost of what it was to do, and `size` a number that belongs
    to it, the loss scale or the largest number; None if there is none.
    """

    kind: str
    op: str
    filename: str
    row: int
    module: str
    dtype: str
    count: int
    share: float | None = None
    size: float | None = None


@dataclass(frozen=True, slots=True)
class Divergence:
    """What the ranks of one run did differently at one line.

    `kind` is `dtype` (an operation that all ran, in other dtypes), `count` (unequally many operations of the line),
    `backward` (unequally many backward passes), `nonfinite` (some made the first inf or NaN in a forward pass) or
    `skipped` (the scaler skipped a step on some). `did` tells for each rank in a word what it did, `lines` how many
    lines differ in this way: of several only the first to run is kept, except for counts. Places are as in
    `Operation`, `op` and `module` empty if the line is meant; `step` is None if no single one is.
    """

    kind: str
    phase: str
    op: str
    filename: str
    row: int
    module: str
    did: tuple[tuple[int, str], ...]
    lines: int = 1
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """A number over the steps of a run, at most `SERIES_POINTS` times: where there are more, neighbours become one.

    `what` is `loss` (what `backward()` was called on, before any loss scale; the sum of a step, the mean of steps that
    became one), `scale` (of the gradient scaler `name`, the lowest), `skipped` (the steps that it had skipped by then),
    `activation` and `gradient` (the largest absolute value of what the module `name` returned, and of the gradient of
    the parameter `name` with the loss scale that it carries) or `underflow` (the largest share of that gradient's
    numbers, 0 left out, that float16 makes 0). `steps` are counted from 0, and each of them is the first that its value
    stands for; a value is None if it is inf or NaN. `filename` and `row` are the line of `backward()` or `step()`.
    """

    what: str
    name: str
    filename: str
    row: int
    steps: tuple[int, ...]
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Float8:
    """An operand of float8 products at one place, over the steps of a run, thinned out as a `Series` is.

    `operand` is `left` or `right`, `dtype` its format. `scale` is the largest factor that its numbers are multiplied by
    after the product, `amax` the largest absolute value that they stand for with it, so that `amax / scale` is how far
    the format is filled; both are None if they are inf or NaN. Other places are as in `Operation`.
    """

    phase: str
    filename: str
    row: int
    module: str
    operand: str
    dtype: str
    steps: tuple[int, ...]
    amax: tuple[float | None, ...]
    scale: tuple[float | None, ...]
    library: str = ""
    library_row: int = 0


@dataclass(repr=False)
class RunData:
    """What was seen. `steps` is the number of optimizer steps that were recorded, `numerics` one of `NUMERICS`.

    `command` is the script with its arguments, empty for a block that was watched, and `began` the local time in ISO
    8601. Of `every` steps one was to be recorded.

    Of all that ran, recorded or not, `taken` counts steps of which the first `skip` were left out, `backwards` calls of
    `backward()`, and `started` processes that the run started, which are not watched.
    `gpu` names the GPU that a dry run pretended, and is empty for a real run. `memory` is the peak of
    bytes allocated on one GPU, including those of the tracer; None if no device reported it.
    `seconds` is the time that operations of the CPU took; those of other devices only start there and have none.
    `rank` is that of the process among the `ranks` of the run; None in a record that was merged of several, where
    `divergences` says what they did differently. `cut` says that the run broke off in the middle of a step.
    `sources` has, for each file of the user's that is spoken of, a `digest` of its content, empty if that is not
    known. `comparison` is None if the run was not compared with float32.
    """

    torch: str = ""
    device: str = ""
    steps: int = 0
    rank: int | None = 0
    ranks: int = 1
    cut: bool = False
    numerics: str = NUMERICS[0]
    gpu: str = ""
    operations: Counter[Operation] = field(default_factory=Counter)
    seconds: dict[Operation, float] = field(default_factory=dict)
    calls: Counter[Call] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    scaler_steps: list[ScalerStep] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    nonfinite: list[NonFinite] = field(default_factory=list)
    losses: list[HalfLoss] = field(default_factory=list)
    histograms: list[Histogram] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    divergences: list[Divergence] = field(default_factory=list)
    comparison: Comparison | None = None
    taken: int = 0
    skip: int = 0
    backwards: int = 0
    started: int = 0
    every: int = 1
    command: tuple[str, ...] = ()
    began: str = ""
    series: list[Series] = field(default_factory=list)
    float8: list[Float8] = field(default_factory=list)
    memory: int | None = None

    def of_module(self, path: str) -> Iterator[Operation]:
        """The forward operations that ran in the module at `path`, or in one below it."""
        for operation in self.operations:
            inside = operation.module == path or operation.module.startswith(path + ".")
            if inside and operation.phase == "forward":
                yield operation


def dtype_name(dtype: object) -> str:
    """`float16` for `torch.float16`."""
    return str(dtype).removeprefix("torch.")


def digest(content: bytes) -> str:
    """What tells one content of a file from another."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def is_floating(dtype: str) -> bool:
    """Whether `dtype` is that of floating point numbers."""
    return "float" in dtype
