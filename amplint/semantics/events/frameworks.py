"""Events of frameworks and older libraries that run mixed precision."""

from __future__ import annotations

from collections.abc import Mapping, Set

from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.semantics.events.parameters import Shards
from amplint.semantics.values.values import Items, Manager, Scaler, Value
from amplint.source import syntax as cst
from amplint.torchlib.versions import Wanted


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HalfManaged(Event):
    """A framework runs mixed precision around parameters that `cast` made half, the dtype of its regions.

    With `as_saved` it loads them in the dtype in which they were saved; `version` is what the project asks for of
    transformers.
    """

    manager: Manager
    cast: cst.CSTNode
    as_saved: bool = False
    version: Wanted | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HalfLooped(Event):
    """The training loop of a framework updates weights that `cast` made half, without mixed precision."""

    kind_of_loop: str
    dtype: str
    cast: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HalvesMixed(Event):
    """Mixed precision in `precision`, a half dtype, is asked for around weights that `cast` puts into the other one.

    In a configuration file, where `adapted` means that there are adapters for the weights, or that they are quantized.
    """

    precision: str
    cast: cst.CSTNode
    adapted: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AllHalf(Event):
    """A model is trained that Lightning converts to `dtype` as a whole, by a precision that `made` asks for.

    `runs` is what trains it.
    """

    dtype: str
    made: cst.CSTNode
    runs: str = "the Trainer"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClippedScaled(Event):
    """`call` clips, or only `reads`, gradients of a Lightning module; the loop that `made` builds unscales them later.

    The module made them by hand, or it is in the hook behind the backward pass. `made` is None for a loop that is built
    elsewhere, or whose precision a setting decides.
    """

    call: cst.Call
    made: cst.CSTNode | None
    reads: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ManagedBackward(Event):
    """A framework's object runs backward on `loss`, scaled and divided as it sees fit."""

    loss: Value
    manager: Manager


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Bypassed(Event):
    """PyTorch's own `call` (`backward`, `clip_grad_norm_`, `step`) runs where `manager` steps, or has run backward.

    `step` is where that shows, or the pass whose gradients a `step` takes. `spelled` names the manager there, `synced`
    means that the manager is known to finish a window of micro-batches. `clips` are the calls by which such managers
    clip themselves, complete once the file is interpreted. Gradients that are the call only `reads` stay as they are.
    """

    manager: Manager
    call: str
    step: cst.CSTNode
    spelled: str | None
    synced: bool
    clips: Set[cst.CSTNode] = frozenset()
    reads: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScalerBeside(Event):
    """A script's own `scaler` scales a loss, or steps an optimizer, of a `framework`: its kind, or `deepspeed`."""

    scaler: Scaler
    framework: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class EngineBypassed(Event):
    """PyTorch's own `call` (`backward`, `step`) replaces that of DeepSpeed's engine, which `made` starts.

    With the call `no step`, the engine runs a backward pass and nothing in the file steps. `step` is the step of the
    engine or of its optimizer. `refused` says that its configuration makes each version
    refuse the call, None if it is not visible. `version` is what the project asks for of DeepSpeed.
    """

    call: str
    step: cst.CSTNode
    made: cst.CSTNode
    refused: bool | None
    version: Wanted | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClipFollowed(Event):
    """Clipping is followed by a step, which has `used` the gradients, or by another backward pass."""

    used: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClearedInWindow(Event):
    """Gradients are cleared on each micro-batch of `manager`'s windows, which `backward` and `step` are on.

    That is before the backward pass, or at any place if it is the model that clears them, not a prepared optimizer.
    """

    backward: cst.CSTNode
    step: cst.CSTNode
    manager: Manager
    by_model: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WindowOfOne(Event):
    """A manager is constructed without a number of micro-batches, and `entered` begins one of its windows.

    The file names such a number all the same.
    """

    entered: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NeverAccumulated(Event):
    """A backward pass of `manager`, behind which a `step` follows at once, where nothing enters its windows.

    The manager divides the loss by the number of micro-batches all the same.
    """

    manager: Manager
    step: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class EnteredTwice(Event):
    """A micro-batch of `manager` begins within one that begins at `outer`, so that both are counted."""

    outer: cst.CSTNode
    manager: Manager


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AveragedInWindow(Event):
    """Weights are averaged on every micro-batch of `manager`, which `entered` begins."""

    entered: cst.CSTNode
    manager: Manager


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClippedEachTime(Event):
    """`manager` clips on every micro-batch of its windows; `spelled` names it there."""

    call: cst.Call
    manager: Manager
    spelled: str | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class UnscaledAgain(Event):
    """An `Accelerator` unscales gradients that its call at `before` has unscaled, and nothing has stepped since."""

    before: cst.Call


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClippedNothing(Event):
    """A framework's object clips gradients that `cleared` has cleared on every path."""

    cleared: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClippedTooEarly(Event):
    """A step of Lightning clips gradients, at `clip`, and the loop runs the backward pass after it."""

    clip: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DividedTwice(Event):
    """A framework runs backward on a loss that `division` has divided by the number that it divides by itself.

    `manager` is its object, None for DeepSpeed's engine.
    """

    division: cst.CSTNode
    manager: Manager | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class EngineConfigured(Event):
    """DeepSpeed gets a `config` that is spelled out, at `written` where a variable or a file holds it.

    `blocks` are written elsewhere, each at its node. `version` is what the project asks for of DeepSpeed.
    """

    config: Items
    written: cst.CSTNode
    blocks: Mapping[str, cst.CSTNode] | None = None
    version: Wanted | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class EngineDisagrees(Event):
    """DeepSpeed's configuration says `theirs` of `setting`, at `written`, and what starts it says `ours` of `argument`.

    Settings are named with the blocks around them (`fp16.enabled`). `starter` is what starts the engine.
    """

    setting: str
    theirs: Value
    written: cst.CSTNode
    argument: str
    ours: Value
    starter: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClippingLost(Event):
    """Gradients are to be clipped by `argument`, and DeepSpeed's configuration, at `written`, asks for no clipping.

    With `called` that is a function of PyTorch, which finds no gradients on the parameters of the engine.
    """

    argument: str
    written: cst.CSTNode
    called: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LaunchOverruled(Event):
    """A file for `accelerate launch` sets `setting`, although at `file` it leaves that to DeepSpeed's own file."""

    setting: str
    file: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ModelUnprepared(Event):
    """A model runs that no Accelerator has prepared, although its optimizer is, by `prepared`; perhaps in a region."""

    prepared: cst.CSTNode
    manager: Manager
    in_region: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PrecisionTwice(Event):
    """Training arguments ask for float16 and, at `other`, for bfloat16."""

    other: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class EngineInRegion(Event):
    """DeepSpeed's engine, which `made` configures without autocast, runs in a region that is on since `entered`.

    `version` is what the project asks for of DeepSpeed.
    """

    made: cst.CSTNode
    entered: cst.CSTNode | None
    version: Wanted | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Setting(Event):
    """A dictionary is given a name, as configuration files do; `name` is the variable's or attribute's own.

    `mmcv` are the versions of mmcv that the project requires.
    """

    name: str
    value: Items
    mmcv: Wanted | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class InertDecorator(Event):
    """The decorator `name` of a method asks its object for a switch that the object never has."""

    name: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ConvertedToFloat8(Event):
    """All linear layers of a model are converted to float8, among them one that is `refused`, with its wrong size."""

    refused: tuple[cst.CSTNode, int] | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ConvertedInShards(Event):
    """The linear layers of a model are replaced by float8 ones after it was sharded."""

    shards: Shards


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LeftUncompiled(Event):
    """A model whose layers are converted to float8 is trained by a loop of the script, in which nothing is compiled."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WithinFloat8(Event):
    """A float8 region that is on since `entered` holds a `backward`, a `step` or a plain `checkpoint` of a layer."""

    entered: cst.CSTNode
    what: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SizeRefused(Event):
    """A layer whose `size` is no `multiple` of what float8 needs is `run` in a float8 region."""

    size: cst.Arg
    multiple: int
    run: cst.CSTNode
