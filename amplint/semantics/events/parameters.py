"""Events of the parameters of models."""

from __future__ import annotations

from collections.abc import Mapping

from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.semantics.events.protocol import Gradients
from amplint.source import syntax as cst
from amplint.torchlib.sharding import Policy, Sharder


@dataclass(frozen=True, slots=True)
class Shards:
    """A model is sharded since the call at `node`, by `sharder`.

    `dtype` is what its policy computes in, None if there is no policy or it is not known, and `returns` the dtype of
    what it returns. `outdated` are the optimizers that were made before, and hold parameters that are no longer the
    model's. `replaces` says that the layers hold shards in place of their parameters from then on.
    """

    node: cst.Call
    sharder: Sharder
    dtype: str | None = None
    outdated: frozenset[int] = frozenset()
    returns: str | None = None
    replaces: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HalfSharded(Event):
    """A model whose parameters `cast` makes half is sharded with a policy that computes in this `dtype`."""

    dtype: str
    cast: cst.CSTNode
    shards: Shards


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HalfStepped(Event):
    """A step of an optimizer of `torch.optim` updates parameters that `cast` made `dtype`, float16 or bfloat16.

    `made` constructs the optimizer, whose class is `cls`. `epsilon` is what it adds to its denominators in that dtype,
    None if it does nothing like it or the number is not known. `decay` is what it takes of each weight, as far as
    the learning rate is written there. `shards` means that the model is sharded.
    """

    dtype: str
    cast: cst.CSTNode
    made: cst.Call
    cls: str
    epsilon: float | None
    decay: float | None
    shards: Shards | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ShardedStep(Event):
    """A step of an optimizer of `torch.optim`, which `made` constructs, for a model that is sharded.

    `outdated` means that the optimizer holds parameters that are no longer the model's.
    """

    made: cst.Call
    shards: Shards
    gradients: Gradients
    outdated: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ShardsClipped(Event):
    """The norm of the gradients of a model that FSDP has sharded is limited.

    The model's `own` method does so, or PyTorch's function.
    """

    call: cst.Call
    shards: Shards
    own: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PolicyMade(Event):
    """A policy says in which dtypes a sharded model computes; `dtypes` holds what each argument asks for that is known.

    What is not given is None there. `only_infers` means that the script evaluates its models and computes no gradients,
    `bufferless` that the modules in sight have no buffers.
    """

    policy: Policy
    dtypes: Mapping[str, str | None]
    only_infers: bool = False
    bufferless: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ShardingRefused(Event):
    """`called`, which shards a model or is a policy for that, is given by `name` what its twin takes.

    `policy` is the class of the policy that is given, where that is known, and `put` the entry of a dictionary of
    arguments.
    """

    call: cst.Call
    called: str
    name: str
    policy: str | None
    put: cst.CSTNode | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FrozenPolicySet(Event):
    """The attribute `name` of an object of the frozen class `policy` is assigned."""

    policy: str
    name: str
