"""Findings from the text of functions whose tensors are out of sight: inputs, new tensors, losses, disabled regions.

`# CODE` ends a line where an info of the rule must start; nothing else of the rule may be found, and nothing at all
unless the rule is selected.
"""

from __future__ import annotations

import re
import textwrap

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from amplint.engine.registry import load_registry
from amplint.findings import Severity
from tests.linting import findings_of

RULES = load_registry().rules
HEADER = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
PROGRAMS = {
    "AMP502 a model whose dtype is read, and an input made in float32": """
        class Pipeline:
            def __call__(self, prompt_embeds, steps):
                dtype_of_net = self.net.dtype
                prompt_embeds = prompt_embeds.to(dtype_of_net)
                latents = self.prepare(4, torch.float32)
                for step in steps:
                    out = self.net(hidden_states=latents, embeds=prompt_embeds)  # AMP502
                    latents = self.scheduler.step(out, step, latents)
                latents = latents.to(self.vae.dtype)
                return self.vae.decode(latents)
    """,
    "AMP408 losses of models that users load in any dtype": """
        class Language(MyPreTrainedModel):
            def forward(self, ids, labels):
                logits = self.head(self.body(ids))
                criterion = nn.CrossEntropyLoss()
                return criterion(logits.view(-1, self.size), labels.view(-1))  # AMP408

            def right(self, ids, labels):
                logits = self.head(self.body(ids)).float()
                criterion = nn.CrossEntropyLoss()
                return criterion(logits.view(-1, self.size), labels.view(-1))

        class Plain(nn.Module):
            def forward(self, ids, labels):
                return nn.CrossEntropyLoss()(self.head(self.body(ids)), labels)
    """,
    "AMP408 one that a function is given": """
        class Language(PreTrainedModel):
            def forward(self, ids, labels, criterion):
                logits = self.head(self.body(ids))
                if self.softens:
                    return F.kl_div(logits.log_softmax(-1), labels)  # AMP408
                return criterion(logits, labels)
    """,
    "AMP502 latents in the dtype of something else": """
        class Pipeline:
            def __call__(self, prompt_embeds):
                latents = self.prepare(4, prompt_embeds.dtype)
                return self.vae.decode(latents / self.scale)  # AMP502

            def right(self, prompt_embeds):
                latents = self.prepare(4, self.vae.dtype)
                return self.vae.decode(latents / self.scale)

            def converted(self, prompt_embeds):
                latents = self.prepare(4, prompt_embeds.dtype)
                return self.vae.decode(latents.to(self.vae.dtype) / self.scale)

            def in_region(self, prompt_embeds):
                latents = self.prepare(4, prompt_embeds.dtype)
                with torch.autocast("cuda"):
                    return self.vae.decode(latents)
    """,
    "AMP502 an input moved to the device alone": """
        class Dissolving:
            def encode(self, image):
                image = (image / 0.5 - 1).to(self.model.device)
                return self.model.vae.encode(image)  # AMP502

            def encode_alike(self, image):
                image = (image / 0.5 - 1).to(device=self.model.device, dtype=self.model.dtype)
                return self.model.vae.encode(image)

            def tokens(self, input_ids):
                return self.model(input_ids.to(self.model.device))
    """,
    "AMP502 items of a batch": """
        def train(vae, net, loader, weight_dtype, accelerator):
            for batch in loader:
                if net.cached:
                    latents = batch["latents"].to(accelerator.device)  # AMP502
                else:
                    latents = vae.encode(batch["images"].to(dtype=weight_dtype))
                texts = net.embed(batch["input_ids"].to(accelerator.device))
                prompt_embeds = batch["prompt_embeds"]
                prompt_embeds = prompt_embeds.to(weight_dtype)
                yield net(latents, texts, prompt_embeds)
    """,
    "AMP504 noise of the size of a tensor": """
        def step(self, model_output, sample, generator, eta):
            previous = sample * 0.3 + model_output
            device = model_output.device if torch.is_tensor(model_output) else "cpu"
            noise = torch.randn(model_output.shape, generator=generator).to(device)  # AMP504
            variance = self.variance(3) ** 0.5 * eta * noise
            return previous + variance
    """,
    "AMP504 what float32 is meant for, or nothing is combined with": """
        def apart(self, x, n, labels):
            total_loss = torch.zeros(n, device=x.device)
            total_loss = total_loss + x.sum()
            chosen = x[torch.rand(n, device=x.device) < 0.5]
            wide = torch.zeros(n, device=x.device) + x.float()
            weights = torch.ones(n, device=labels.device) * labels
            places = torch.arange(n, device=x.device)
            total_loss = total_loss + F.cross_entropy(x, places)
            return total_loss, chosen, wide, weights, torch.zeros(n, device=x.device)
    """,
    "AMP408 a loss beside one that is lifted": """
        def losses(prediction, target, logits, labels):
            with torch.autocast("cuda"):
                inside = F.mse_loss(prediction, target)
            lifted = F.mse_loss(prediction.float(), target.float())
            logits = logits.float()
            return inside + lifted + F.mse_loss(prediction, target) + F.cross_entropy(logits, labels)  # AMP408
    """,
    "AMP408 a loss of a model that is loaded in half": """
        from transformers import AutoModel

        def run(name, dtype, loader):
            model = AutoModel.from_pretrained(name, torch_dtype=dtype)
            for prediction, target in map(model, loader):
                yield F.mse_loss(prediction, target)  # AMP408
    """,
    "AMP408 a loss of a model that is loaded in float32": """
        from transformers import AutoModel

        def run(name, loader):
            model = AutoModel.from_pretrained(name, torch_dtype=torch.float32)
            for prediction, target in map(model, loader):
                yield F.mse_loss(prediction, target)
    """,
    "AMP104 custom functions that convert nothing": """
        class Product(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a, b, fused):
                ctx.save_for_backward(a, b)
                return a @ b.t()

        class Lifted(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a, b):
                return a.float() @ b.float().t()

        def product(hidden: torch.Tensor, weight: torch.Tensor, fused: bool):
            given = [hidden, weight, fused]
            with torch.autocast("cuda", enabled=False):  # AMP104
                return Product.apply(*given)

        def lifted(hidden: torch.Tensor, weight: torch.Tensor):
            with torch.autocast("cuda", enabled=False):
                return Lifted.apply(hidden, weight)

        def converted(hidden: torch.Tensor, weight: torch.Tensor, fused: bool):
            given = cast_if_autocast(hidden, weight, fused)
            with torch.autocast("cuda", enabled=False):
                return Product.apply(*given)
    """,
    "AMP104 functions and blocks that convert nothing": """
        class Codebook(nn.Module):
            @torch.autocast("cuda", enabled=False)  # AMP104
            def forward(self, x):
                return -torch.cdist(x.reshape(-1, 4), self.embed)

            @torch.autocast("cuda", enabled=False)
            def converted(self, x):
                return -torch.cdist(x.float().reshape(-1, 4), self.embed)

            @torch.autocast("cuda", enabled=False)
            def lookup(self, indices):
                return self.embed(indices)

            def block(self, x):
                with torch.autocast("cuda", enabled=False):  # AMP104
                    return self.scores(x)

            def block_of_converted(self, x):
                x = x.float()
                with torch.autocast("cuda", enabled=False):
                    return self.scores(x)
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_info_is_told_to_those_who_ask(name: str) -> None:
    rule = RULES[name[:6]]
    code = HEADER + textwrap.dedent(PROGRAMS[name])
    expected = [row for row, line in enumerate(code.splitlines(), 1) if re.search(rf"  # {rule.code}$", line)]
    asked = findings_of(code, (rule,), asked=frozenset({rule.code}))
    assert [finding.span.start.row for finding in asked] == expected
    assert all(finding.severity is Severity.INFO for finding in asked)
    assert not findings_of(code, (rule,))


def test_layers_refuse_what_is_only_moved() -> None:
    net, latents = nn.Linear(4, 4).bfloat16(), torch.randn(2, 4)
    with pytest.raises(RuntimeError, match="same dtype"):
        net(latents.to(net.weight.device))
    assert net(latents.to(net.weight.device, net.weight.dtype)).dtype is torch.bfloat16


def test_noise_without_a_dtype_widens() -> None:
    sample = torch.ones(2, 4, dtype=torch.bfloat16)
    assert (sample + torch.randn(sample.shape)).dtype is torch.float32
    assert (sample + torch.randn(sample.shape, dtype=sample.dtype)).dtype is torch.bfloat16


def test_a_disabled_region_computes_in_the_dtype_it_is_given() -> None:
    codes = torch.randn(3, 4, dtype=torch.bfloat16)
    with torch.autocast("cpu", enabled=False):
        assert (codes @ codes.T).dtype is torch.bfloat16
        assert (codes.float() @ codes.float().T).dtype is torch.float32


def test_a_loss_of_half_is_rounded() -> None:
    prediction, target = torch.full((4,), 300.0, dtype=torch.float16), torch.zeros(4, dtype=torch.float16)
    assert F.mse_loss(prediction, target).isinf()
    assert F.mse_loss(prediction.float(), target.float()) == 90_000
