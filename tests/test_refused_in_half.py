"""Operations that half tensors do not have, on what may be half: said to those who ask for it."""

from __future__ import annotations

import textwrap

import pytest

from amplint.engine.registry import load_registry
from amplint.findings import Severity
from tests.linting import findings_of

RULES = (load_registry().rules["AMP503"],)
HEADER = """\
import torch
from torch import nn


"""
PROGRAMS = {
    "the weight of a layer": """
        class Flow(nn.Module):
            def __init__(self, mix):
                super().__init__()
                self.mix = mix

            def forward(self, x):
                weight = self.mix.weight.squeeze()
                return weight.inverse(), weight.float().inverse()  # found
    """,
    "parameters of its own": """
        class Rotation(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.skew = nn.Parameter(torch.zeros(width, width))

            def forward(self):
                skew = self.skew - self.skew.transpose(0, 1)
                identity = torch.eye(len(skew))
                return torch.linalg.inv(skew), torch.linalg.inv(identity - skew)  # found
    """,
    "a method told a dimension": """
        def threshold(scores, share):
            return scores.reshape(len(scores), -1).quantile(share, dim=-1)  # found
    """,
    "a method of something else": """
        def threshold(frame, share):
            return frame.quantile(share)
    """,
    "computed before the dtype is asked for": """
        def parts(base, change):
            whole = base + change
            if base.dtype in (torch.float16, torch.bfloat16):
                base = base.float()
            return torch.linalg.svd(whole), torch.linalg.svd(base)  # found
    """,
    "computed after it": """
        def parts(base, change):
            if base.dtype in (torch.float16, torch.bfloat16):
                base, change = base.float(), change.float()
            whole = base + change
            return torch.linalg.svd(whole)
    """,
    "a loss of spectra, which is no method": """
        from torch.fft import rfft2

        def texture_loss(made, wanted):
            return (rfft2(made).abs() - rfft2(wanted.float()).abs()).abs().mean()  # found

        def loudness(sound):
            return rfft2(sound).abs().mean()
    """,
    "norms by singular values": """
        from torch import linalg as LA

        class LowRank(nn.Module):
            def forward(self, x, links):
                sizes = LA.norm(x, dim=-1) + LA.matrix_norm(x) + torch.norm(x, p=2, dim=-1)
                return sizes, LA.matrix_norm(x, ord=2), LA.norm(links, "nuc"), LA.matrix_norm(x.float(), -2)  # found
    """,
    "the state of an optimizer, which no loader gives": """
        class Rotated(torch.optim.Optimizer):
            def step(self):
                for group in self.param_groups:
                    for p in group["params"]:
                        self.turn(self.state[p])

            def turn(self, state):
                turned = []
                for covariance, basis in zip(state["covariances"], state["bases"]):
                    turned.append(torch.linalg.qr(covariance @ basis)[0])  # found
                    torch.linalg.qr((covariance @ basis).float())
                state["bases"] = turned

        def whiten(loader):
            for covariance, basis in zip(*loader):
                torch.linalg.qr(covariance @ basis)
    """,
    "a failure that is handled by another try": """
        def basis(covariance: torch.Tensor, other: torch.Tensor):
            try:
                found = torch.linalg.eigh(covariance)
            except RuntimeError:
                found = torch.linalg.eigh(covariance.double())
            try:
                return found, torch.linalg.eigh(other)  # found
            except RuntimeError:
                return None
    """,
    "histograms of several dimensions": """
        def spread(x, edges):
            return torch.histogram(x, edges).hist  # found
    """,
    "weights in a loop over a model": """
        def ranks(model):
            for name, parameter in model.named_parameters():
                torch.linalg.svd(parameter.data)  # found
                torch.linalg.svd(parameter.data.float())
                torch.linalg.svd(parameter.norm().item() * torch.ones(4, 4))
            for name, value in model.state_dict().items():
                torch.linalg.qr(value)  # found
    """,
    "weights of layers in a loop over a model": """
        def ranks(model, exact):
            for layer in model.modules():
                if isinstance(layer, nn.Linear):
                    torch.linalg.svd(layer.weight.data, full_matrices=False)  # found
                    torch.linalg.svd(layer.weight.double())
            exact.float()
            for layer in exact.modules():
                if isinstance(layer, nn.Linear):
                    torch.linalg.svd(layer.weight)
    """,
    "weights of a model that was made in float32": """
        def ranks(width):
            model = nn.Linear(width, width)
            for name, parameter in model.named_parameters():
                torch.linalg.svd(parameter)
    """,
    "sounds whose window takes their dtype": """
        windows = {}

        def spectrum(sound, size):
            key = str(size) + str(sound.dtype)
            if key not in windows:
                windows[key] = torch.hann_window(size).to(dtype=sound.dtype, device=sound.device)
            sound = nn.functional.pad(sound, (8, 8), mode="reflect")
            return torch.stft(sound, size, window=windows[key], return_complex=True)  # found

        def converted(sound, size):
            window = torch.hann_window(size).type_as(sound)
            return torch.stft(sound.float(), size, window=window.float(), return_complex=True)

        def of_float32(sound, size):
            window = torch.hann_window(size).to(sound.device)
            return torch.stft(sound, size, window=window, return_complex=True)
    """,
    "a spectrum made of what a layer returns": """
        class Masks(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.proj = nn.Linear(width, width)

            def forward(self, x):
                real, imaginary = self.proj(x).chunk(2, dim=1)
                return torch.istft(torch.complex(real, imaginary), n_fft=16)  # found
    """,
    "torch comes from a file out of sight": """
        from helpers import *

        def solve(left, right):
            return torch.linalg.solve(left, right)  # found
    """,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_refused_where_half(program: str) -> None:
    code = textwrap.dedent(program).lstrip("\n")
    code = code if "import *" in code else HEADER + code
    marked = {row for row, line in enumerate(code.splitlines(), 1) if "# found" in line}
    found = findings_of(code, RULES, asked=frozenset({"AMP503"}))
    assert {one.span.start.row for one in found} == marked
    assert all(one.severity is Severity.INFO for one in found)
