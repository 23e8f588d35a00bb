"""`--to amp` of models that FSDP shards: a policy for each, and the scaler that goes with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import distributed

from amplint.codemods import Wish, convert

WRAPPED = """import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def train(net, loader):
    model = FSDP(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        model.clip_grad_norm_(1.0)
        optimizer.step()
"""
COMPOSED = """import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

losses = []


def train(model, loader):
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
"""


@pytest.fixture(scope="module")
def group() -> Iterator[None]:
    """A group of processes with one in it."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def _losses(text: str) -> list[float]:
    module: dict[str, object] = {}
    exec(text, module)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    module["train"](model, [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(6)])  # type: ignore[operator]
    found: list[float] = module["losses"]  # type: ignore[assignment]
    return found


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 0.003), ("bfloat16", 0.02)])
def test_what_is_composed_trains_as_before(group: None, dtype: str, tolerance: float) -> None:
    wish = Wish(to="amp", dtype=dtype, device="cpu")
    conversion = convert(COMPOSED, wish)
    assert conversion.refused == ()
    assert f"    mp_policy = MixedPrecisionPolicy(param_dtype=torch.{dtype}, reduce_dtype=torch.float32)\n" in (
        conversion.text
    )
    assert "        fully_shard(layer, mp_policy=mp_policy)\n    fully_shard(model, mp_policy=mp_policy)\n" in (
        conversion.text
    )
    assert ('scaler = torch.amp.GradScaler("cpu")' in conversion.text) is (dtype == "float16")
    gentle = conversion.text.replace('GradScaler("cpu")', 'GradScaler("cpu", init_scale=256.0)')
    before, after = _losses(COMPOSED), _losses(gentle)
    assert before != after
    assert max(abs(a - b) / (1 + abs(b)) for a, b in zip(after, before, strict=True)) < tolerance
    assert convert(conversion.text, wish).text == conversion.text


@pytest.mark.parametrize(
    ("dtype", "lines"),
    [
        (
            "float16",
            [
                "from torch.distributed.fsdp import MixedPrecision",
                "from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler",
                '    scaler = ShardedGradScaler("cuda")',
                "        scaler.unscale_(optimizer)",
            ],
        ),
        ("bfloat16", ["from torch.distributed.fsdp import MixedPrecision", "        loss.backward()"]),
    ],
)
def test_what_is_wrapped_gets_a_policy_and_a_scaler_of_its_own(dtype: str, lines: list[str]) -> None:
    conversion = convert(WRAPPED, Wish(to="amp", dtype=dtype))
    assert conversion.refused == ()
    policy = f"MixedPrecision(param_dtype=torch.{dtype}, reduce_dtype=torch.float32)"
    found = conversion.text.splitlines()
    assert [line for line in (*lines, f"    model = FSDP(net, mixed_precision={policy})") if line not in found] == []
    assert convert(conversion.text, Wish(to="amp", dtype=dtype)).text == conversion.text


def test_what_has_a_policy_stays() -> None:
    text = WRAPPED.replace("(net)", "(net, mixed_precision=policy)")
    conversion = convert(text, Wish(to="amp"))
    assert (conversion.text, conversion.refused) == (text, ())


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            "FSDP(net)",
            "wrap(FSDP, net)",
            "FullyShardedDataParallel is handed on, so its mixed precision cannot be set here",
        ),
        (
            "FSDP(net)",
            "FSDP(net, **settings)",
            "** hides what FullyShardedDataParallel is given, and it needs a policy for float16",
        ),
        ("FSDP(net)", "net", "torch.distributed.fsdp shards parameters, over which a plain scaler does not agree"),
    ],
)
def test_what_is_sharded_out_of_sight_is_refused(old: str, new: str, why: str) -> None:
    assert [one.text for one in convert(WRAPPED.replace(old, new), Wish(to="amp")).refused] == [why]
