"""Mixed precision of today that settings, other functions and other files decide."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Finding, Severity
from tests.linting import findings_of

RULES = tuple(load_registry().rules.values())
TRAIN = """
import torch
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

def train(name, options, four: bool = False, bf16: bool = False, optim="adamw_torch"):
    {before}
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.{dtype}{loads})
    args = TrainingArguments("out", {asks})
    trainer = Trainer(model=model, args=args, train_dataset=data)
    trainer.train()
"""
PARTS = """
import torch
from torch import nn
from transformers import AutoModel

class Net(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.body = AutoModel.from_pretrained(name, torch_dtype=torch.float16)
        for parameter in self.body.parameters():
            parameter.requires_grad = False
        {thaws}
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.body(x).last_hidden_state.float().mean(1))

def main():
    model = Net("name")
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5)
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

main()
"""
LAYERS = """for layer in {layers}:
            for parameter in layer.parameters():
                parameter.requires_grad = True"""
LOADS = """
import torch
from transformers import AutoModelForCausalLM

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}

def load(config):
    return AutoModelForCausalLM.from_pretrained(config.path, torch_dtype=DTYPES[config.precision])
"""
STEPS = """
import torch
from models import load

def main(config):
    actor = load(config).cuda()
    optimizer = torch.optim.AdamW(actor.parameters(), lr=config.lr)
    for batch in loader:
        loss = actor(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
ACTOR = """
import torch
from losses import gathered
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

class Actor:
    def __init__(self, model):
        fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
        self.model = model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-6)

    def train(self, batches):
        for batch in batches:
            chosen = gathered(self.model(batch["tokens"]).logits{lifts}, batch["tokens"])
            loss = -(chosen * batch["advantages"]).mean()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
"""
GATHERED = """
import torch

def gathered(logits, tokens):
    return torch.log_softmax(logits[:, :-1], dim=-1).gather(-1, tokens[:, 1:, None])
"""


def _found(path: str, text: str, codes: str) -> list[Finding]:
    told = findings_of(textwrap.dedent(text), RULES, path=path)
    return [finding for finding in told if finding.code in codes.split()]


@pytest.mark.parametrize(
    ("dtype", "loads", "asks", "before", "told"),
    [
        ("float16", "", "bf16=options.bf16", "", ["AMP745"]),
        ("bfloat16", "", "bf16=options.bf16", "", ["AMP741"]),
        ("bfloat16", "", "bf16=options.bf16, optim=optim", "", ["AMP741"]),
        ("bfloat16", "", 'bf16=options.bf16, optim="adamw_anyprecision"', "", []),
        ("bfloat16", "", "fp16=True if not bf16 else False, bf16=bf16", "", ["AMP745"]),
        ("bfloat16", "", "fp16=True if not bf16 else False", "", ["AMP745"]),
        ("bfloat16", "", "fp16=options.fp16, deepspeed=options.deepspeed", "", []),
        ("float16", ", load_in_8bit=four", "fp16=True", "", ["AMP706"]),
        ("float16", ", load_in_8bit=eight", "fp16=True", "eight = True\n    if four: eight = False", ["AMP706"]),
        ("float16", ", load_in_8bit=not four", "fp16=True", "", []),
        ("float16", ", load_in_8bit=True", "fp16=True", "", []),
    ],
)
def test_a_setting_decides_on_the_precision(dtype: str, loads: str, asks: str, before: str, told: list[str]) -> None:
    text = TRAIN.format(dtype=dtype, loads=loads, asks=asks, before=before or "pass")
    assert [finding.code for finding in _found("", text, "AMP706 AMP741 AMP745")] == told


def test_parsed_arguments_are_told_of_where_the_rule_is_selected() -> None:
    text = """
    import torch
    from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    model = AutoModelForCausalLM.from_pretrained("name", torch_dtype=torch.bfloat16)
    Trainer(model=model, args=args, train_dataset=data).train()
    """
    job = Job("train.py", "", textwrap.dedent(text).encode(), RULES)
    asked = Job("train.py", "", textwrap.dedent(text).encode(), RULES, asked=frozenset({"AMP741"}))
    codes = [[finding.code for finding in analyse(one, Modules()).findings] for one in (job, asked)]
    assert ["AMP741" in found for found in codes] == [False, True]


@pytest.mark.parametrize(
    ("thaws", "told"),
    [
        ("pass", False),
        (LAYERS.format(layers="self.body.encoder.layer[-2:]"), True),
        (LAYERS.format(layers="reversed(self.body.encoder.layer)"), True),
        (LAYERS.format(layers="self.head.children()"), False),
        (LAYERS.format(layers="layers"), False),
    ],
)
def test_layers_of_a_half_model_are_trained_again(thaws: str, told: bool) -> None:
    found = _found("", PARTS.format(thaws=thaws), "AMP410")
    assert bool(found) is told
    assert all(finding.severity is Severity.INFO for finding in found)


@pytest.mark.parametrize(
    ("other", "helper", "text", "told"),
    [
        ("models.py", LOADS, STEPS, ["AMP410"]),
        ("models.py", LOADS.replace("torch.bfloat16", "torch.float64"), STEPS, []),
        ("losses.py", GATHERED, ACTOR.replace("{lifts}", ""), ["AMP408"]),
        ("losses.py", GATHERED, ACTOR.replace("{lifts}", ".float()"), []),
    ],
)
def test_another_file_decides(other: str, helper: str, text: str, told: list[str], tmp_path: Path) -> None:
    (tmp_path / other).write_text(helper)
    (tmp_path / "train.py").write_text(text)
    found = _found(str(tmp_path / "train.py"), text, "AMP408 AMP410")
    assert [finding.code for finding in found] == told


def test_a_configuration_is_told_of_where_a_function_returns_it() -> None:
    text = """
    def settings(stage, dtype):
        return {
            "zero_optimization": {"stage": stage},
            "fp16": {"enabled": dtype == "fp16"},
            "bf16": {"enabled": dtype == "bf16", "loss_scale": 0},
        }

    def plain():
        return {"fp16": {"enabled": True}, "bf16": {"enabled": True}}
    """
    assert [finding.span.start.row for finding in _found("", text, "AMP722")] == [6]
