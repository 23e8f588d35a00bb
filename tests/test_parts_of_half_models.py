"""Parts of models in half, such as layers and encoders, called by themselves on float32 inputs."""

from __future__ import annotations

import textwrap

import pytest
import torch

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.findings import Severity
from tests.test_clashes import HEADER, RULES

LOADS = """
from diffusers import UNet2DConditionModel
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained(path, torch_dtype=torch.bfloat16).cuda()

"""
TOLD = {
    "an attribute that is called": """
        for states in model(tokens, output_hidden_states=True).hidden_states:
            states = states.float()
            print(model.lm_head(states).argmax(-1))  # AMP502
    """,
    "a variable": """
        def lens(network, layers):
            head, found = network.lm_head, []
            for layer in layers:
                state = layer[:, -1].to(torch.float32)
                found.append(head(state).softmax(-1))  # AMP502
            return found

        lens(model, model(tokens, output_hidden_states=True).hidden_states)
    """,
    "a layer that is looked up by one of several names": """
        head = None
        for name in ("lm_head", "embed_out"):
            if hasattr(model, name):
                head = getattr(model, name)
                break
        states = model(tokens).hidden_states[-1].float()
        head(states)  # AMP502
    """,
    "a convolution of a model that is converted, on what a factory makes": """
        unet = UNet2DConditionModel.from_pretrained(path).half().cuda()
        noise = torch.randn(1, 4, 64, 64, device="cuda")
        unet.conv_in(noise)  # AMP502
    """,
}
ASSUMED = {
    "a model that unseen code was given": """
        def lens(network, states):
            kernels.register(network)
            states = states.float()
            return network.lm_head(states)  # AMP502

        lens(model, states)
    """,
    "an input that is float32 on a path": """
        def lens(network, states, norm):
            h = states.float()
            if norm is not None:
                h = norm(h)
            return network.lm_head(h)  # AMP502

        lens(model, states, kernels.norm_of(model.config))
    """,
}
SILENT = {
    "a layer in float32": """
        head = model.lm_head.float()
        head(states.float())
    """,
    "a layer that was converted in place": """
        model.lm_head.to(torch.float32)
        model.lm_head(states.float())
    """,
    "a model in float32": """
        plain = AutoModelForCausalLM.from_pretrained(path, torch_dtype=torch.float32)
        plain.lm_head(states.float())
    """,
    "a layer that was replaced": """
        model.lm_head = nn.Linear(8, 8)
        model.lm_head(states.float())
    """,
    "under autocast": """
        with torch.autocast("cuda", dtype=torch.bfloat16):
            model.lm_head(states.float())
    """,
    "converted inputs": """
        model.lm_head(states.float().to(model.dtype))
        model.lm_head(states.float().to(model.lm_head.weight.dtype))
        model.lm_head(states.float().bfloat16())
    """,
    "a method": """
        model.compute_score(states.float())
    """,
}


def _findings(program: str, *, asked: bool) -> dict[tuple[int, str], Severity]:
    code = HEADER + LOADS.lstrip("\n") + textwrap.dedent(program).lstrip("\n")
    job = Job("program.py", "", code.encode(), RULES, asked=frozenset({"AMP502", "AMP504"} if asked else ()))
    return {(one.span.start.row, one.code): one.severity for one in analyse(job, Modules()).findings}


def _expected(program: str) -> set[tuple[int, str]]:
    code = HEADER + LOADS.lstrip("\n") + textwrap.dedent(program).lstrip("\n")
    return {(row, line.partition("# ")[2]) for row, line in enumerate(code.splitlines(), 1) if "# AMP" in line}


@pytest.mark.parametrize("name", TOLD)
def test_layers_with_all_evidence(name: str) -> None:
    assert _findings(TOLD[name], asked=False) == dict.fromkeys(_expected(TOLD[name]), Severity.ERROR)


@pytest.mark.parametrize("name", ASSUMED)
def test_layers_without_all_evidence(name: str) -> None:
    assert not _findings(ASSUMED[name], asked=False)
    assert _findings(ASSUMED[name], asked=True) == dict.fromkeys(_expected(ASSUMED[name]), Severity.INFO)


@pytest.mark.parametrize("name", SILENT)
def test_layers_that_take_their_inputs(name: str) -> None:
    assert not _findings(SILENT[name], asked=True)


@pytest.mark.parametrize(("conversion", "told"), [("", True), (".to(vae.dtype)", False), (".half()", False)])
def test_pictures_moved_to_the_device_of_an_autoencoder(conversion: str, told: bool) -> None:
    program = f"""
        def train(unet, loader, device, vae):
            vae = vae.to(device)
            for batch in loader:
                pixel_values = batch["pixel_values"].to(device)
                latents = vae.encode(pixel_values{conversion}).latent_dist.sample()  {"# AMP502" if told else ""}
                unet(latents)
    """
    assert not _findings(program, asked=False)
    assert _findings(program, asked=True) == dict.fromkeys(_expected(program), Severity.INFO)


def test_texts_for_a_tokenizer_are_no_pictures() -> None:
    program = """
        def train(texts, device, tokenizer):
            tokenizer = tokenizer.to(device)
            return tokenizer.encode(texts.to(device))
    """
    assert not _findings(program, asked=True)


@pytest.mark.parametrize("layer", [torch.nn.Linear(4, 4), torch.nn.Conv2d(4, 4, 1)])
def test_such_layers_refuse_float32(layer: torch.nn.Module) -> None:
    with pytest.raises(RuntimeError, match="type"):
        layer.bfloat16()(torch.randn(4, 4, 4, 4))
