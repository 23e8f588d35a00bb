"""Equal counts of backward passes with and without observation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from amplint.trace import watch
from amplint.trace.data import Operation
from amplint.trace.passes import Passes

STEPS = 5


class Double(torch.autograd.Function):
    """A function that doubles, and computes in its backward pass."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        """Return 2 x."""
        return x * 2

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> Tensor:
        """Return 2 grad."""
        return grad * 2


def model() -> nn.Module:
    """Three layers."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.LayerNorm(4))


def plain(net: nn.Module, step: int) -> None:
    """One backward pass a step."""
    net(torch.ones(2, 4)).sum().backward()


def freezing(net: nn.Module, step: int) -> None:
    """The weights of a middle layer are frozen at the fourth step; the layer keeps its node in the graph."""
    net[2].weight.requires_grad_(step < 3)
    plain(net, step)


def accumulating(net: nn.Module, step: int) -> None:
    """Two micro-batches, the second with another graph."""
    plain(net, step)
    net(torch.ones(2, 4)).square().mean().backward()


def roots(net: nn.Module, step: int) -> None:
    """One of two losses, both computed in each step."""
    first = net(torch.ones(2, 4)).sum()
    second = (first * 2).exp()
    (first if step % 2 else second).backward()


def retaining(net: nn.Module, step: int) -> None:
    """Two passes through one graph."""
    loss = net(torch.ones(2, 4)).sum()
    loss.backward(retain_graph=True)
    loss.backward()


def penalizing(net: nn.Module, step: int) -> None:
    """Gradients of gradients."""
    loss = net(torch.ones(2, 4)).sum()
    loss.backward(create_graph=True)
    sum(one.grad.square().sum() for one in net.parameters() if one.grad is not None).backward()


def checkpointing(net: nn.Module, step: int) -> None:
    """A recomputation, a different one in odd steps."""
    inner = net if step % 2 else nn.Sequential(net, nn.ReLU())
    checkpoint(inner, torch.ones(2, 4, requires_grad=True), use_reentrant=False).sum().backward()


def own(net: nn.Module, step: int) -> None:
    """A function with its own backward pass."""
    Double.apply(net(torch.ones(2, 4))).sum().backward()


def hooking(net: nn.Module, step: int) -> None:
    """A hook that computes in every other step."""
    out = net(torch.ones(2, 4))
    out.register_hook(lambda grad: grad if step % 2 else grad * 3)
    out.sum().backward()


def given(net: nn.Module, step: int) -> None:
    """A gradient argument, for which the pass needs no sum."""
    net(torch.ones(2, 4)).backward(torch.ones(2, 4))


def counted(run: Callable[[nn.Module, int], None]) -> Counter[Operation]:
    """The counts of operations in several steps."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watch(numerics="off") as record:
        for step in range(STEPS):
            optimizer.zero_grad()
            run(net, step)
            optimizer.step()
    assert record.backwards
    assert all(seconds > 0 for seconds in record.seconds.values())
    return record.operations


@pytest.fixture
def observing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that forces the observation of every pass."""
    return lambda: monkeypatch.setattr(Passes, "knows", lambda self, graph: False)


@pytest.mark.parametrize(
    "run",
    [plain, freezing, accumulating, roots, retaining, penalizing, checkpointing, own, hooking, given],
    ids=lambda run: run.__name__,
)
def test_counts_are_those_of_observed_passes(
    run: Callable[[nn.Module, int], None], observing: Callable[[], None]
) -> None:
    """In every program."""
    found = counted(run)
    observing()
    assert found == counted(run)


def test_equal_passes_run_without_the_tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the third pass on."""
    graphs = []
    count = Passes.count
    monkeypatch.setattr(Passes, "count", lambda self, graph: (graphs.append(graph), count(self, graph)))
    counted(plain)
    assert len(graphs) == STEPS - 2
    assert len(set(graphs)) == 1


def test_python_in_a_pass_is_always_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python code may depend on anything."""
    monkeypatch.setattr(Passes, "count", lambda self, graph: pytest.fail("counted"))
    for run in (checkpointing, own, hooking, given):
        counted(run)
