"""The effect of PyTorch's sharding on a model's parameters: one entry per API, with version and source.

None keeps a copy of the weights in another dtype than their own: a policy's `param_dtype` is what they are cast to for
each pass, and the optimizer updates the sharded weights, and keeps its state, in their own dtype.
"""

from __future__ import annotations

from amplint.records import dataclass


@dataclass(frozen=True, slots=True)
class Sharder:
    """A function or class that shards the model passed first.

    `policy` is the argument with the computation dtypes. An optimizer created before holds parameters that are no
    longer the model's, unless the argument `keeps_originals` is set. With `clips` each rank sees only a part of the
    gradients: their norm is computed by the model's method `clip_grad_norm_` alone, and inf and NaN are detected by
    `ShardedGradScaler` alone. `strategy` is the argument that can disable sharding, `NO_SHARD`, with its position.
    """

    names: frozenset[str]
    title: str
    policy: tuple[str, int | None]
    since: str
    source: str
    keeps_originals: str | None = None
    clips: bool = False
    strategy: tuple[str, int] | None = None


FULLY_SHARD = Sharder(
    frozenset(
        f"torch.distributed.{module}.fully_shard"
        for module in ("fsdp", "fsdp._fully_shard", "_composable.fsdp", "_composable.fsdp.fully_shard")
    ),
    "fully_shard",
    policy=("mp_policy", None),
    since="2.4",
    source="https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html",
)
WRAPPER = Sharder(
    frozenset(
        f"torch.distributed.fsdp.{module}FullyShardedDataParallel" for module in ("", "fully_sharded_data_parallel.")
    ),
    "FullyShardedDataParallel",
    policy=("mixed_precision", 6),
    since="1.11",
    source="https://docs.pytorch.org/docs/stable/fsdp.html",
    keeps_originals="use_orig_params",
    clips=True,
    strategy=("sharding_strategy", 2),
)
SHARDERS = {name: sharder for sharder in (FULLY_SHARD, WRAPPER) for name in sharder.names}


@dataclass(frozen=True, slots=True)
class Policy:
    """A class with the computation dtypes of a sharded model, and the order of its arguments.

    Gradients are reduced in `reduce_dtype`, by default in `param_dtype`.
    """

    names: frozenset[str]
    parameters: tuple[str, ...]
    source: str


POLICIES = {
    name: policy
    for policy in (
        Policy(
            frozenset(
                f"torch.distributed.{module}.MixedPrecisionPolicy"
                for module in ("fsdp", "fsdp._fully_shard", "_composable.fsdp", "_composable.fsdp.fully_shard")
            ),
            ("param_dtype", "reduce_dtype", "output_dtype", "cast_forward_inputs"),
            FULLY_SHARD.source,
        ),
        Policy(
            frozenset(
                f"torch.distributed.fsdp.{module}MixedPrecision"
                for module in ("", "api.", "fully_sharded_data_parallel.")
            ),
            ("param_dtype", "reduce_dtype", "buffer_dtype", "keep_low_precision_grads"),
            WRAPPER.source,
        ),
    )
    for name in policy.names
}

FROZEN = {name: policy for name, policy in POLICIES.items() if name.endswith(".MixedPrecisionPolicy")}
"""Policies whose attributes cannot be set: the class is a frozen dataclass (PyTorch 2.13)."""

TWINS = {
    "fully_shard": "FullyShardedDataParallel",
    "FullyShardedDataParallel": "fully_shard",
    "MixedPrecisionPolicy": "MixedPrecision",
    "MixedPrecision": "MixedPrecisionPolicy",
}
"""API -> its equivalent in the other kind of sharding, which has other parameters."""
POLICY_OF = {"fully_shard": "MixedPrecisionPolicy", "FullyShardedDataParallel": "MixedPrecision"}
"""API -> the class of its policies."""
TAKEN = {
    "fully_shard": frozenset(
        {
            *("module", "mesh", "reshard_after_forward", "shard_placement_fn", "mp_policy", "offload_policy"),
            *("ignored_params", "dp_mesh_dims"),
        }
    ),
    "FullyShardedDataParallel": frozenset(
        {
            *("module", "process_group", "sharding_strategy", "cpu_offload", "auto_wrap_policy", "backward_prefetch"),
            *("mixed_precision", "ignored_modules", "param_init_fn", "device_id", "sync_module_states"),
            *("forward_prefetch", "limit_all_gathers", "use_orig_params", "ignored_states", "device_mesh"),
        }
    ),
    "MixedPrecisionPolicy": frozenset({"param_dtype", "reduce_dtype", "output_dtype", "cast_forward_inputs"}),
    "MixedPrecision": frozenset(
        {
            *("param_dtype", "reduce_dtype", "buffer_dtype", "keep_low_precision_grads", "cast_forward_inputs"),
            *("cast_root_forward_inputs", "_module_classes_to_ignore"),
        }
    ),
}
"""API -> its parameters, by the signatures of PyTorch 2.13."""
