"""Dtypes of models that libraries load in half: hidden states, weights, configurations, dictionaries of arguments."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from amplint.engine.screen import screen
from amplint.findings import Severity
from tests.linting import findings_of

RULES = tuple(load_registry().rules.values())
HEAD = """
import torch
import torch.nn.functional as F
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM
from transformers import T5ForConditionalGeneration, Trainer, TrainingArguments
"""
STEPS = """
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for batch in loader:
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
NET = """
class Net(nn.Module):
    def __init__(self, name):
        super().__init__()
        {make}

    def forward(self, ids, mask):
        {run}

def main(loader):
    model = Net("name"){moved}
    optimizer = torch.optim.AdamW(model.head.parameters())
    for batch in loader:
        loss = model(batch["ids"], batch["mask"]).float().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
BODY, LAYER = "self.body = AutoModel.from_pretrained(name, torch_dtype=torch.bfloat16)", "self.head = nn.Linear(8, 2)"
LAST = "return self.head(self.body(ids).last_hidden_state)"


def _net(make: list[str], run: list[str], moved: str = ".cuda()") -> str:
    return NET.format(make="\n        ".join(make), run="\n        ".join(run), moved=moved)


STATES = {
    "the last states of a model in a layer of float32": (_net([BODY, LAYER], [LAST]), ["AMP502"]),
    "the first output, through a sequence of layers": (
        _net([BODY, "self.head = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))"],
             ["states = self.body(ids, attention_mask=mask)[0]", "return self.head(states[:, 0])"]),
        ["AMP502"],
    ),
    "the states behind two layers": (
        _net([BODY, LAYER],
             ["states = self.body(ids, output_hidden_states=True).hidden_states",
              "return self.head(torch.stack([states[-1], states[-2]]).mean(0))"]),
        ["AMP502"],
    ),
    "the decoder of a language model": (
        _net(["self.llm = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)", LAYER],
             ["return self.head(self.llm.model(ids).last_hidden_state)"]),
        ["AMP502"],
    ),
    "the ids of tokens that a model generates": (
        """
def main(ids):
    model = AutoModelForCausalLM.from_pretrained("name")
    model.bfloat16()
    return model.generate(ids, max_length=9).cpu().numpy()
""",
        [],
    ),
    "a layer that is added to a model": (
        """
def build(name):
    base = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
    base.score = nn.Linear(8, 1)
    return base

def main(loader):
    model = build("name").cuda()
    for batch in loader:
        states = model(batch["ids"], output_hidden_states=True).hidden_states
        print(model.score(states[-1]))
""",
        ["AMP502"],
    ),
    "a probe on a frozen model": (
        """
def embed(model, ids):
    with torch.no_grad():
        return model(ids).last_hidden_state.mean(dim=1)

def main(loader):
    body = AutoModel.from_pretrained("name", torch_dtype=torch.float16).cuda().eval()
    probe = nn.Linear(8, 2).cuda()
    for ids, labels in loader:
        print(F.cross_entropy(probe(embed(body, ids)), labels))
""",
        ["AMP502"],
    ),
    "states converted to float32": (_net([BODY, LAYER], [LAST.replace("_state", "_state.float()")]), []),
    "states widened by a float32 mask": (
        _net([BODY, LAYER],
             ["states = self.body(ids).last_hidden_state", "mask = mask.unsqueeze(-1).float()",
              "return self.head((states * mask).sum(1) / mask.sum(1))"]),
        [],
    ),
    "a layer in the dtype of the model": (_net([BODY, LAYER + ".to(self.body.dtype)"], [LAST]), []),
    "a whole that is converted to float32": (_net([BODY, LAYER], [LAST], ".float().cuda()"), []),
    "a whole that is converted to half": (_net([BODY, LAYER], [LAST], '.to("cuda", torch.bfloat16)'), []),
    "states of a region": (
        _net([BODY, LAYER], ['with torch.autocast("cuda", dtype=torch.bfloat16):', f"    {LAST}"]),
        [],
    ),
    "states of a quantized model": (
        _net([BODY.replace("16)", "16, quantization_config=BitsAndBytesConfig(load_in_4bit=True))"), LAYER], [LAST]),
        [],
    ),
    "NumPy of states": (
        """
def main(ids):
    model = AutoModel.from_pretrained("name", torch_dtype=torch.bfloat16).cuda()
    states = model(ids, output_hidden_states=True)
    return F.normalize(states.last_hidden_state[:, 0], dim=-1).cpu().numpy()
""",
        ["AMP501"],
    ),
    "a decomposition of the states behind each layer": (
        """
def main(ids):
    model = AutoModel.from_pretrained("name", dtype=torch.float16).cuda()
    for states in model(ids, output_hidden_states=True).hidden_states:
        print(torch.linalg.svd(states[0]))
""",
        ["AMP503"],
    ),
}  # fmt: skip
WEIGHTS = {
    "a decomposition of weights": (
        """
def main(name):
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
    for key, part in model.named_modules():
        if isinstance(part, nn.Linear):
            print(torch.linalg.svd(part.weight, full_matrices=False))
""",
        ["AMP503"],
    ),
    "eigenvalues of a product of weights": (
        """
def main(name):
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.float16)
    for layer in model.model.layers:
        weight = layer.mlp.down_proj.weight
        print(torch.linalg.eigvalsh(weight.T @ weight))
""",
        ["AMP503"],
    ),
    "NumPy of an embedding": (
        """
def main(name):
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
    return model.get_input_embeddings().weight.detach().cpu().numpy()
""",
        ["AMP501"],
    ),
    "weights converted to float32": (
        """
def main(name):
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
    for key, part in model.named_modules():
        if isinstance(part, nn.Linear):
            print(torch.linalg.svd(part.weight.data.float()))
""",
        [],
    ),
    "weights of a model that is converted to float32": (
        """
def main(name):
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
    model.to(torch.float32)
    for key, part in model.named_modules():
        if isinstance(part, nn.Linear):
            print(torch.linalg.svd(part.weight))
""",
        [],
    ),
    "weights of a layer that replaces another": (
        """
def main(name):
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
    model.lm_head = nn.Linear(8, 8)
    print(torch.linalg.qr(model.lm_head.weight))
""",
        [],
    ),
    "trained embeddings beside those of tokens": (
        """
class Soft(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.llm = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
        self.prompt = nn.Parameter(torch.randn(8, 64))

    def forward(self, ids):
        tokens = self.llm.get_input_embeddings()(ids)
        prompt = self.prompt.unsqueeze(0).expand(ids.shape[0], -1, -1)
        return self.llm(inputs_embeds=torch.cat([prompt, tokens], dim=1)).logits

model = Soft("name").cuda()
for ids in loader:
    model(ids)
""",
        ["AMP502"],
    ),
    "embeddings of a model whose norm layers convert them": (
        """
model = T5ForConditionalGeneration.from_pretrained("name", torch_dtype=torch.bfloat16).cuda()
model(inputs_embeds=torch.randn(1, 2, 8, device="cuda"))
""",
        [],
    ),
}
CONFIGURED = {
    "a configuration that is loaded with a dtype": (
        "config = AutoConfig.from_pretrained('name', torch_dtype=torch.bfloat16)", ["AMP410"],
    ),
    "a configuration that names one": ("config = LlamaConfig(hidden_size=8, torch_dtype='bfloat16')", ["AMP410"]),
    "a configuration that gets one": (
        "config = AutoConfig.from_pretrained('name'); config.torch_dtype = torch.bfloat16", ["AMP410"],
    ),
    "a configuration without one": ("config = AutoConfig.from_pretrained('name')", []),
}  # fmt: skip
ARGUMENTS = {
    "a dtype that is put": ("", "kwargs['torch_dtype'] = torch.bfloat16", ["AMP410"]),
    "a dtype beside what a condition puts": (
        "", "if cache: kwargs['cache_dir'] = cache\n    kwargs['torch_dtype'] = torch.bfloat16", ["AMP410"],
    ),
    "a dtype that is replaced": ("'torch_dtype': torch.bfloat16", "kwargs['torch_dtype'] = torch.float32", []),
    "a dtype that is deleted": (
        "", "kwargs['torch_dtype'] = torch.bfloat16\n    del kwargs['torch_dtype']", [],
    ),
    "a quantization that is put": (
        "'torch_dtype': torch.bfloat16", "kwargs['quantization_config'] = BitsAndBytesConfig(load_in_4bit=True)", [],
    ),
    "a quantization that a condition puts": (
        "'torch_dtype': torch.bfloat16",
        "if four: kwargs['quantization_config'] = BitsAndBytesConfig(load_in_4bit=True)", [],
    ),
}  # fmt: skip
SHARDED = """
import torch
{imports}

def shard(model, mesh, config):
    kwargs = {{"mesh": mesh}}
    {puts}
    return {call}(model, **kwargs)
"""
BOTH = "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecisionPolicy, fully_shard"
FALLBACK = """try:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
except ImportError:
    def fully_shard(*args, **kwargs):
        pass
    MixedPrecisionPolicy = fully_shard"""
PUTS = "kwargs['mixed_precision'] = MixedPrecisionPolicy(param_dtype=torch.bfloat16)"
SHARDS = {
    "an argument of the other function": (BOTH, PUTS, "fully_shard", ["AMP715"]),
    "an argument that a condition puts": (BOTH, f"if config.half: {PUTS}", "fully_shard", ["AMP715"]),
    "a function that is missing in old versions": (FALLBACK, PUTS, "fully_shard", ["AMP715"]),
    "the right argument": (BOTH, PUTS.replace("mixed_precision", "mp_policy"), "fully_shard", []),
    "a choice of function and argument": (
        BOTH,
        f"if config.old: {PUTS}\n    else: {PUTS.replace('mixed_precision', 'mp_policy')}",
        "(FSDP if config.old else fully_shard)",
        [],
    ),
}
DIFFUSION = """
import torch
from accelerate import Accelerator
from diffusers import AutoencoderKL, UNet2DConditionModel

def main(args, loader):
    accelerator = Accelerator(mixed_precision={precision})
    unet = UNet2DConditionModel.from_pretrained("name", subfolder="unet"{loads})
    control = torch.nn.Conv2d(3, 4, 3)
    {params}
    optimizer = torch.optim.AdamW(params, lr=1e-4)
    {prepares}
    {casts}
    for batch in loader:
        with accelerator.accumulate(control):
            loss = {passes}.sample.float().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
"""
GROUPS = """params = [{"params": control.parameters()}]
    for name, parameter in unet.named_parameters():
        if "attn" in name:
            parameter.requires_grad = True
            params.append({"params": parameter})
        else:
            parameter.requires_grad = False"""
ALL = "control, unet, optimizer, loader = accelerator.prepare(control, unet, optimizer, loader)"
RUN = 'unet(batch["x"], batch["t"], control(batch["c"]))'
HALF = "unet.to(accelerator.device, dtype=torch.float16)"
REPLACED = f"accelerator.scaler._unscale_grads_ = replacement\n    {HALF}"
PREPARED = {
    "weights in groups, cast behind the optimizer": ('"fp16"', "", GROUPS, ALL, HALF, RUN, ["AMP706"]),
    "weights of two models": (
        '"fp16"', "", "params = [*control.parameters()] + [*unet.parameters()]", ALL, HALF, RUN, ["AMP706"],
    ),
    "a scaler that takes float16 gradients": ('"fp16"', "", GROUPS, ALL, REPLACED, RUN, []),
    "a model that is not prepared, on float32": (
        '"fp16"', ", torch_dtype=torch.float16", "params = [*control.parameters()]",
        "control, optimizer, loader = accelerator.prepare(control, optimizer, loader)", "",
        "unet(torch.randn(1, 4, 8, 8, device=accelerator.device), 3)", ["AMP502"],
    ),
    "a model that is prepared, on float32": (
        '"fp16"', ", torch_dtype=torch.float16", "params = [*control.parameters()]", ALL, "",
        "unet(torch.randn(1, 4, 8, 8, device=accelerator.device), 3)", [],
    ),
}  # fmt: skip
CODES = frozenset({"AMP410", "AMP501", "AMP502", "AMP503", "AMP706", "AMP715"})


def _told(text: str) -> list[str]:
    raw = text.encode()
    rules = screen([rule for rule in RULES if rule.code in CODES and rule.default], raw, frozenset())
    found = findings_of(raw, rules, path="/nowhere/script.py")
    return [one.code for one in found if one.severity > Severity.INFO]


@pytest.mark.parametrize("shape", [*STATES, *WEIGHTS])
def test_what_a_model_in_half_returns_and_holds(shape: str) -> None:
    text, told = (STATES | WEIGHTS)[shape]
    assert _told(HEAD + text) == told


@pytest.mark.parametrize("shape", CONFIGURED)
def test_a_configuration_names_the_dtype(shape: str) -> None:
    config, told = CONFIGURED[shape]
    make = f"\ndef main(loader):\n    {config}\n    model = AutoModelForCausalLM.from_config(config).cuda()"
    assert _told(HEAD + make + STEPS) == told
    assert _told((HEAD + make + STEPS).replace("AutoModelForCausalLM.from_config", "LlamaForCausalLM")) == []


@pytest.mark.parametrize("shape", ARGUMENTS)
def test_a_dictionary_of_arguments_is_filled(shape: str) -> None:
    first, puts, told = ARGUMENTS[shape]
    make = f"\ndef main(loader, cache, four):\n    kwargs = {{{first}}}\n    {puts}"
    loads = "\n    model = AutoModelForCausalLM.from_pretrained('name', **kwargs)"
    assert _told(HEAD + make + loads + STEPS) == told


@pytest.mark.parametrize("shape", SHARDS)
def test_arguments_of_sharding_are_put(shape: str) -> None:
    imports, puts, call, told = SHARDS[shape]
    assert _told(SHARDED.format(imports=imports, puts=puts, call=call)) == told


@pytest.mark.parametrize("shape", PREPARED)
def test_models_beside_an_accelerator(shape: str) -> None:
    precision, loads, params, prepares, casts, passes, told = PREPARED[shape]
    text = DIFFUSION.format(
        precision=precision, loads=loads, params=params, prepares=prepares, casts=casts, passes=passes
    )
    assert _told(text) == told
