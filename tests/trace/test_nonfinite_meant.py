"""Whether a NaN is meant: nothing comes of it."""

from __future__ import annotations

import pytest
import torch

from amplint.trace import watch
from amplint.trace.findings import findings


def _step(weight: torch.Tensor) -> torch.Tensor:
    """Weights whose sum can be 0, which their mean is not asked for, as in volume rendering."""
    opacity = torch.relu(weight * torch.ones(4, 3) - 1)
    mean = (opacity * torch.ones(3)).sum(-1) / opacity.sum(-1)
    assert mean.isnan().any()
    return mean


def test_what_the_loss_is_not_computed_from_may_be_nan() -> None:
    weight = torch.nn.Parameter(torch.tensor(0.5))
    with watch(steps=1, skip=0) as record:
        _step(weight)
        (weight * torch.ones(8)).square().sum().backward()
        torch.optim.SGD([weight], lr=0.1).step()
    assert not record.nonfinite


def test_a_nan_that_the_loss_is_computed_from_is_not_meant() -> None:
    weight = torch.nn.Parameter(torch.tensor(0.5))
    with watch(steps=1, skip=0) as record:
        _step(weight).sum().backward()
        torch.optim.SGD([weight], lr=0.1).step()
    assert [found.code for found in findings(record)] == ["AMP803"]


def test_a_nan_that_a_script_fails_for_is_not_meant() -> None:
    weight = torch.nn.Parameter(torch.tensor(0.5))
    watching = watch(steps=1, skip=0)
    with pytest.raises(ValueError, match="found invalid values"), watching as record:
        torch.distributions.Categorical(logits=_step(weight).view(2, 2), validate_args=True)
    assert [found.code for found in findings(record)] == ["AMP803"]
