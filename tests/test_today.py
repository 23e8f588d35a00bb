"""Mistakes of scripts as they are written today, and what PyTorch does that makes them mistakes.

The scripts are as short as what people paste into an issue: much in them is defined nowhere.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = tuple(rule for rule in load_registry().rules.values() if rule.handlers() and rule.default)

LOOP = """
for inputs, targets in batches:
    loss = functional.mse_loss(net(inputs).float(), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SCRIPTS = {
    "a checkpoint in bfloat16 is sharded": (
        """
        import torch
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        from transformers import AutoModelForSeq2SeqLM, AutoModelForCausalLM

        net = AutoModelForCausalLM.from_pretrained(path, torch_dtype=torch.bfloat16)
        half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for layer in net.transformer.h:
            fully_shard(layer, mp_policy=half)
        fully_shard(net, mp_policy=half)  # expect: AMP711
        optimizer = torch.optim.Adam(net.parameters(), 2e-5)
        for batch in batches:
            net(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
        ("torch_dtype=torch.bfloat16", "torch_dtype=torch.float32"),
    ),
    "the configuration of trl says nothing of float16, and that of DeepSpeed asks for it": (
        """
        from trl import SFTConfig, SFTTrainer

        settings = {"zero_optimization": {"stage": 2}, "fp16": {"enabled": True}}
        arguments = SFTConfig("out", deepspeed=settings)  # expect: AMP723
        SFTTrainer(name, args=arguments, train_dataset=dataset).train()
        """,
        ('"enabled": True', '"enabled": "auto"'),
    ),
    "a method of the model makes the optimizer, before a function shards it": (
        """
        import torch
        from torch import nn
        from torch.distributed.fsdp import fully_shard

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(8, 1)

            def forward(self, inputs):
                return self.layer(inputs)

            def make(self, lr):
                return torch.optim.AdamW(self.parameters(), lr=lr)  # expect: AMP713

        def shard(net):
            for layer in net.children():
                fully_shard(layer)
            fully_shard(net)

        class Run:
            def __init__(self):
                self.net = Net().cuda()
                self.optimizer = self.net.make(1e-3)
                shard(self.net)

            def step(self, batch):
                self.net(batch).sum().backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
        """,
        ("shard(self.net)", "self.optimizer = self.net.make(1e-3)"),
    ),
    "Fabric shards half weights": (
        """
        import lightning as L
        import torch
        from lightning.fabric.strategies import FSDPStrategy

        fabric = L.Fabric(strategy=FSDPStrategy(), precision="16-true")
        net = fabric.setup(net)
        optimizer = fabric.setup_optimizers(torch.optim.AdamW(net.parameters()))
        for batch in batches:
            fabric.backward(net(batch).sum())  # expect: AMP742
            optimizer.step()
            optimizer.zero_grad()
        """,
        ('"16-true"', '"16-mixed"'),
    ),
    "a Trainer of the script's own, whose model holds one in half": (
        """
        import torch
        from torch import nn
        from transformers import AutoModel, Trainer, TrainingArguments

        class Ranker(nn.Module):
            def __init__(self):
                super().__init__()
                self.base = AutoModel.from_pretrained(name, torch_dtype=torch.bfloat16)
                self.head = nn.Linear(8, 1)

        class Own(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False):
                return model(**inputs).sum()

        trainer = Own(Ranker(), TrainingArguments("out", bf16=True), train_dataset=dataset)
        trainer.train()  # expect: AMP741
        """,
        ("torch.bfloat16", "torch.float32"),
    ),
    "a module of Lightning is converted as a whole, and trained without mixed precision": (
        """
        import lightning as L
        import torch
        from torch import nn

        class Small(L.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(8, 1)

            def training_step(self, batch, index):
                return self.net(batch.half()).float().sum()

            def configure_optimizers(self):
                optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-4)
                return {"optimizer": optimizer}

        module = Small().half()
        L.Trainer(max_epochs=1).fit(module, loader)  # expect: AMP410
        """,
        ("Small().half()", "Small()"),
    ),
    "Lightning and the configuration of its DeepSpeed disagree": (
        """
        import lightning as L
        from lightning.pytorch.strategies import DeepSpeedStrategy

        settings = {"zero_optimization": {"stage": 2}, "bf16": {"enabled": True}}
        trainer = L.Trainer(precision="16-mixed", strategy=DeepSpeedStrategy(config=settings))  # expect: AMP723
        trainer.fit(module, batches)
        """,
        ("16-mixed", "bf16-mixed"),
    ),
    "a Trainer gets a model in bfloat16": (
        """
        import torch
        from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

        net = AutoModelForCausalLM.from_pretrained(path, torch_dtype=torch.bfloat16)
        settings = TrainingArguments(output_dir="runs", bf16=True, num_train_epochs=3)
        Trainer(net, settings, train_dataset=samples).train()  # expect: AMP741
        """,
        ("torch_dtype=torch.bfloat16", "torch_dtype=torch.float32"),
    ),
    "a trainer of preferences gets two models in bfloat16": (
        """
        import torch
        from transformers import AutoModelForCausalLM
        from trl import DPOConfig, DPOTrainer

        choices = dict(torch_dtype=torch.bfloat16)
        net = AutoModelForCausalLM.from_pretrained(path, **choices)
        reference = AutoModelForCausalLM.from_pretrained(path, **choices)
        settings = DPOConfig(output_dir="runs", bf16=True, num_train_epochs=3)
        DPOTrainer(net, reference, settings, train_dataset=samples).train()  # expect: AMP741
        """,
        ("torch_dtype=torch.bfloat16", "torch_dtype=torch.float32"),
    ),
    "a Trainer gets a model as it was saved": (
        """
        import torch
        from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

        net = AutoModelForCausalLM.from_pretrained(path)
        settings = TrainingArguments(output_dir="runs", bf16=True, num_train_epochs=3)
        Trainer(net, settings, train_dataset=samples).train()  # expect: AMP741
        """,
        ("from_pretrained(path)", "from_pretrained(path, dtype=torch.float32)"),
    ),
    "a loop updates weights in bfloat16": (
        """
        import torch
        from transformers import AutoModelForCausalLM

        net = AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).to("cuda")  # expect: AMP410
        optimizer = torch.optim.AdamW(net.parameters(), lr=3e-5, weight_decay=0.1)
        for batch in batches:
            net(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
        ("dtype=torch.bfloat16).to", "dtype=torch.float32).to"),
    ),
    "a loss of what FSDP2 returns in bfloat16": (
        """
        import torch
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        from torch.nn.functional import cross_entropy

        net = Decoder().to("cuda")
        fully_shard(net, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
        optimizer = torch.optim.AdamW(net.parameters())
        for ids, following in batches:
            scores = net(ids)
            loss = cross_entropy(scores.view(-1, 32000), following.view(-1))  # expect: AMP408
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
        ("scores.view(-1, 32000)", "scores.float().view(-1, 32000)"),
    ),
    "PyTorch's function clips what FSDP has sharded": (
        """
        import torch
        from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
        from torch.nn.utils import clip_grad_norm_

        half = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        net = FullyShardedDataParallel(Decoder().to("cuda"), mixed_precision=half)
        optimizer = torch.optim.AdamW(net.parameters())
        for ids in batches:
            net(ids).backward()
            clip_grad_norm_(net.parameters(), max_norm=0.5)  # expect: AMP712
            optimizer.step()
            optimizer.zero_grad()
        """,
        ("clip_grad_norm_(net.parameters(), max_norm=0.5)", "net.clip_grad_norm_(max_norm=0.5)"),
    ),
    "buffers and sums of gradients in bfloat16": (
        """
        import torch
        from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision

        half = MixedPrecision(torch.bfloat16, torch.bfloat16, torch.bfloat16)  # expect: AMP714
        net = FullyShardedDataParallel(Decoder().to("cuda"), mixed_precision=half)
        """,
        (
            "MixedPrecision(torch.bfloat16, torch.bfloat16, torch.bfloat16)",
            "MixedPrecision(torch.bfloat16, torch.float32)",
        ),
    ),
    "a region around DeepSpeed's engine": (
        """
        import deepspeed
        import torch

        settings = {"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": True}, "zero_optimization": {"stage": 3}}
        engine, *_ = deepspeed.initialize(model=Decoder(), config=settings)
        for ids in batches:
            with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
                loss = engine(ids).loss  # expect: AMP721
            engine.backward(loss)
            torch.nn.utils.clip_grad_norm_(engine.parameters(), 1.0)  # expect: AMP724
            engine.step()
        """,
        ('"bf16"', '"torch_autocast": {"enabled": True, "dtype": "bfloat16"}, "gradient_clipping": 1.0, "bf16"'),
    ),
    "a backward pass goes past the engine": (
        """
        import deepspeed

        def training_step(engine, batch):
            loss = engine(**batch).loss
            loss.backward()  # expect: AMP725
            return loss.item()

        config = {"train_batch_size": 8, "fp16": {"enabled": True}, "zero_optimization": {"stage": 2}}
        engine, _, _, _ = deepspeed.initialize(model=Decoder(), config=config)
        for batch in batches:
            training_step(engine, batch)
            engine.step()
        """,
        ("loss.backward()", "engine.backward(loss)"),
    ),
    "adapters stay in bfloat16": (
        """
        import torch
        from diffusers import FluxTransformer2DModel
        from peft import LoraConfig, get_peft_model

        net = FluxTransformer2DModel.from_pretrained(path, torch_dtype=torch.bfloat16)  # expect: AMP410
        net.requires_grad_(False)
        net = get_peft_model(net, LoraConfig(r=8, target_modules=["to_q"]), autocast_adapter_dtype=False)
        optimizer = torch.optim.AdamW([weight for weight in net.parameters() if weight.requires_grad], 3e-4)
        for batch in batches:
            net(**batch).sample.float().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
        ("autocast_adapter_dtype=False", "autocast_adapter_dtype=True"),
    ),
    "latents are drawn in float32 for a model in half": (
        """
        import torch
        from diffusers import DDIMScheduler, UNet2DConditionModel

        scheduler = DDIMScheduler.from_pretrained(path, subfolder="scheduler")
        net = UNet2DConditionModel.from_pretrained(path, subfolder="unet", torch_dtype=torch.float16).to("cuda")
        noise = torch.randn((2, 4, 64, 64), device="cuda")
        noise = noise * scheduler.init_noise_sigma
        guess = net(noise, 10, encoder_hidden_states=texts).sample  # expect: AMP502
        """,
        ('device="cuda")', 'device="cuda", dtype=net.dtype)'),
    ),
    "weights in float16 meet a precision that is chosen": (
        """
        import argparse

        import torch
        from accelerate import Accelerator
        from diffusers import UNet2DConditionModel

        parser = argparse.ArgumentParser()
        parser.add_argument("--mixed_precision", default="bf16", choices=["no", "fp16", "bf16"])
        args = parser.parse_args()
        accelerator = Accelerator(mixed_precision=args.mixed_precision)
        net = UNet2DConditionModel.from_pretrained(path, subfolder="unet")
        net.to(accelerator.device, dtype=torch.float16)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-6)
        net, optimizer = accelerator.prepare(net, optimizer)
        for batch in batches:
            loss = net(**batch).sample.float().mean()
            accelerator.backward(loss)
            optimizer.step()  # expect: AMP706
            optimizer.zero_grad()
        """,
        ("dtype=torch.float16", "dtype=torch.float32"),
    ),
    "Accelerate clips each micro-batch": (
        """
        from accelerate import Accelerator

        accelerator = Accelerator(gradient_accumulation_steps=8, mixed_precision="fp16")
        net, optimizer, batches = accelerator.prepare(Decoder(), optimizer, batches)
        for ids in batches:
            with accelerator.accumulate(net):
                accelerator.backward(net(ids).loss)
                accelerator.clip_grad_norm_(net.parameters(), 0.5)  # expect: AMP731
                optimizer.step()
                optimizer.zero_grad()
        """,
        (
            "        accelerator.clip_grad_norm_",
            "        if accelerator.sync_gradients:\n            accelerator.clip_grad_norm_",
        ),
    ),
    "the loss is divided before Accelerate divides it": (
        """
        from accelerate import Accelerator

        accelerator = Accelerator(gradient_accumulation_steps=8, mixed_precision="bf16")
        net, optimizer, batches = accelerator.prepare(Decoder(), optimizer, batches)
        for ids in batches:
            with accelerator.accumulate(net):
                loss = net(ids).loss
                loss = loss / 8  # expect: AMP732
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        """,
        ("loss = loss / 8", "report(loss)"),
    ),
    "weights are exchanged inside of a region": (
        """
        import torch

        policy = Decoder().cuda()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            new = policy(ids)
            policy.load_state_dict(reference)  # expect: AMP112
            old = policy(ids)
        """,
        (
            "    policy.load_state_dict(reference)",
            'policy.load_state_dict(reference)\nwith torch.autocast("cuda", dtype=torch.bfloat16):',
        ),
    ),
    "a region that is off in a compiled forward pass": (
        """
        import torch
        from torch import nn


        class Scorer(nn.Module):
            def __init__(self):
                super().__init__()
                self.trunk, self.score = nn.Linear(64, 64), nn.Linear(64, 1)

            def forward(self, inputs):
                features = self.trunk(inputs)
                with torch.amp.autocast("cuda", enabled=False):  # expect: AMP113
                    return self.score(features.float())


        net = torch.compile(Scorer().to("cuda"))
        optimizer = torch.optim.AdamW(net.parameters())
        scaler = torch.amp.GradScaler("cuda")
        for inputs, targets in batches:
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.l1_loss(net(inputs), targets)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        """,
        ('torch.compile(Scorer().to("cuda"))', 'Scorer().to("cuda")'),
    ),
    "an average of weights in bfloat16": (
        """
        from copy import deepcopy

        import torch

        net = Decoder().to("cuda", torch.bfloat16)
        slow = deepcopy(net).eval()


        @torch.no_grad()
        def follow():
            for kept, new in zip(slow.parameters(), net.parameters()):
                kept.mul_(0.9995).add_(new, alpha=0.0005)  # expect: AMP407
        """,
        ("deepcopy(net)", "deepcopy(net).float()"),
    ),
    "random numbers in bfloat16": (
        """
        import torch


        def sample(logits, rate):
            logits = logits.bfloat16()
            kept = torch.rand_like(logits) < rate  # expect: AMP414
            return logits * kept
        """,
        ("rand_like(logits)", "rand_like(logits, dtype=torch.float32)"),
    ),
    "norms before flash attention": (
        """
        import torch
        from flash_attn import flash_attn_func
        from torch import nn


        class Heads(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
                self.value = nn.Linear(width, width)
                self.norm = nn.LayerNorm(width)

            def forward(self, inputs):
                query, key, value = self.norm(self.query(inputs)), self.norm(self.key(inputs)), self.value(inputs)
                return flash_attn_func(query, key, value, causal=True)  # expect: AMP502


        net = Heads(128).to("cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            outputs = net(torch.randn(2, 16, 8, 128, device="cuda"))
        """,
        ("flash_attn_func(query, key, value", "flash_attn_func(query.to(value.dtype), key.to(value.dtype), value"),
    ),
    "float8 for every layer": (
        """
        import torch
        from torchao.float8 import convert_to_float8_training

        net = Decoder(words=50257).to("cuda")
        convert_to_float8_training(net)  # expect: AMP751
        net = torch.compile(net)
        """,
        ("training(net)", 'training(net, module_filter_fn=lambda layer, name: "head" not in name)'),
    ),
    "Transformer Engine around backward, of odd sizes, and recomputed": (
        """
        import torch
        import transformer_engine.pytorch as te
        from torch.utils.checkpoint import checkpoint

        layer = te.Linear(300, 512)  # expect: AMP763
        with te.fp8_autocast():
            for inputs in batches:
                outputs = checkpoint(layer, inputs, use_reentrant=False)  # expect: AMP762
                outputs.mean().backward()  # expect: AMP761
                optimizer.step()
        """,
        ("300", "304"),
        ("from torch.utils.checkpoint import checkpoint", "from transformer_engine.pytorch import checkpoint"),
        (
            "with te.fp8_autocast():\n    for inputs in batches:\n        outputs",
            "for inputs in batches:\n    with te.fp8_autocast():\n        outputs",
        ),
        ("        outputs.mean", "    outputs.mean"),
        ("        optimizer.step", "    optimizer.step"),
    ),
    "an optimizer made before the model is sharded": (
        """
        import torch
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        net = Decoder().to("cuda")
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)  # expect: AMP713
        fully_shard(net, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
        {loop}
        """,
        (
            "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n{shard}",
            "{shard}\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)",
        ),
    ),
    "Lightning trains in float16, all of it": (
        """
        import lightning.pytorch as pl
        import torch


        class Module(pl.LightningModule):
            def training_step(self, batch, index):
                return self.loss(self.net(batch["x"]), batch["y"])

            def configure_optimizers(self):
                return torch.optim.AdamW(self.parameters())


        trainer = pl.Trainer(max_epochs=3, precision="16-true")
        trainer.fit(Module(), batches)  # expect: AMP742
        """,
        ('"16-true"', '"16-mixed"'),
    ),
    "gradients clipped by hand with the scale in them": (
        """
        import lightning.pytorch as pl


        class Module(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.automatic_optimization = False

            def training_step(self, batch, index):
                optimizer = self.optimizers()
                optimizer.zero_grad()
                self.manual_backward(self.loss(batch))
                self.clip_gradients(optimizer, gradient_clip_val=1.0)  # expect: AMP743
                optimizer.step()


        pl.Trainer(max_epochs=3, precision="16-mixed").fit(Module(), batches)
        """,
        ('"16-mixed"', '"bf16-mixed"'),
    ),
    "flash attention in float32": (
        """
        import torch
        from transformers import AutoModelForCausalLM

        net = AutoModelForCausalLM.from_pretrained(
            path, torch_dtype=torch.float32, attn_implementation="flash_attention_2"
        ).to("cuda")
        outputs = net(ids)  # expect: AMP505
        """,
        ("torch_dtype=torch.float32", "torch_dtype=torch.bfloat16"),
    ),
    "timesteps in bfloat16": (
        """
        import torch

        steps = torch.randint(1000, (latents.shape[0],), device="cuda")
        noise = denoiser(latents.bfloat16(), steps.bfloat16(), prompt)  # expect: AMP406
        """,
        ("steps.bfloat16()", "steps"),
    ),
    "float16 by a policy, and no scaler": (
        """
        import torch
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        net = Decoder().to("cuda")
        fully_shard(net, mp_policy=MixedPrecisionPolicy(torch.float16, torch.float32))  # expect: AMP208
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        {loop}
        """,
        ("torch.float16", "torch.bfloat16"),
    ),
    "Lightning's step clips before the backward pass": (
        """
        import lightning as L
        import torch


        class Net(L.LightningModule):
            def training_step(self, batch, batch_idx):
                loss = self.net(batch).mean()
                torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)  # expect: AMP705
                return loss


        L.Trainer(precision="bf16-mixed").fit(Net(), loader)
        """,
        (
            "    torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)\n        return loss\n",
            "    return loss\n\n    def on_before_optimizer_step(self, optimizer):\n"
            "        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)\n",
        ),
    ),
    "Accelerate clips each micro-batch of a loop": (
        """
        from accelerate import Accelerator

        accelerator = Accelerator(mixed_precision="fp16")
        net, optimizer, batches = accelerator.prepare(net, optimizer, batches)
        for window in batches:
            for inputs in window.split(4):
                accelerator.backward(net(inputs).loss / 8)
                accelerator.clip_grad_norm_(net.parameters(), 1.0)  # expect: AMP201
            optimizer.step()
            optimizer.zero_grad()
        """,
        ("        accelerator.clip_grad_norm_", "    accelerator.clip_grad_norm_"),
    ),
    "compute_loss converts what the Trainer trains": (
        """
        import torch
        from transformers import Trainer, TrainingArguments


        class Own(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False):
                dtype = torch.bfloat16 if self.args.bf16 else torch.float32
                model = model.to(dtype=dtype)  # expect: AMP741
                outputs = model(**inputs)
                return (outputs.loss, outputs) if return_outputs else outputs.loss


        Own(model=net, args=TrainingArguments("runs", bf16=True), train_dataset=samples).train()
        """,
        ("        model = model.to(dtype=dtype)\n", ""),
    ),
    "quantized weights are computed with in the other half": (
        """
        import torch
        from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
        from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

        quantized = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
        net = AutoModelForCausalLM.from_pretrained(path, quantization_config=quantized)
        net = prepare_model_for_kbit_training(net)
        net = get_peft_model(net, LoraConfig(r=8))
        Trainer(net, TrainingArguments("runs", fp16=True), train_dataset=samples).train()  # expect: AMP745
        """,
        ("compute_dtype=torch.bfloat16", "compute_dtype=torch.float16"),
    ),
    "adapters get the dtype of the precision, and one of two optimizers": (
        """
        import torch
        from accelerate import Accelerator
        from diffusers import UNet2DConditionModel
        from peft import LoraConfig

        accelerator = Accelerator(mixed_precision=args.mixed_precision)
        net = UNet2DConditionModel.from_pretrained(args.path, subfolder="unet")
        net.requires_grad_(False)
        dtype = torch.float32
        if accelerator.mixed_precision == "fp16":
            dtype = torch.float16
        elif accelerator.mixed_precision == "bf16":
            dtype = torch.bfloat16
        net.to(accelerator.device, dtype=dtype)
        net.add_adapter(LoraConfig(r=8, target_modules=["to_q"]))
        trained = list(filter(lambda weight: weight.requires_grad, net.parameters()))
        if args.use_8bit_adam:
            import bitsandbytes as bnb

            optimizer_class = bnb.optim.AdamW8bit
        else:
            optimizer_class = torch.optim.AdamW
        optimizer = optimizer_class([{"params": trained, "lr": args.learning_rate}])
        net, optimizer, batches = accelerator.prepare(net, optimizer, batches)
        for batch in batches:
            accelerator.backward(net(**batch).loss)
            optimizer.step()  # expect: AMP706
            optimizer.zero_grad()
        """,
        (
            "trained = list(",
            "if args.mixed_precision == 'fp16':\n    for weight in net.parameters():\n"
            "        if weight.requires_grad:\n            weight.data = weight.to(torch.float32)\ntrained = list(",
        ),
    ),
    "a pipeline for samples casts the weights that are trained": (
        """
        import torch
        from accelerate import Accelerator
        from diffusers import DiffusionPipeline, UNet2DConditionModel

        def sample(pipeline, accelerator, dtype):
            pipeline = pipeline.to(accelerator.device, dtype=dtype)
            return pipeline("a cat").images

        def main(args):
            accelerator = Accelerator(mixed_precision="fp16")
            net = UNet2DConditionModel.from_pretrained(args.path, subfolder="unet")
            net.to(accelerator.device, dtype=torch.float32)

            def unwrapped(model):
                model = accelerator.unwrap_model(model)
                return model._orig_mod if is_compiled_module(model) else model

            optimizer = torch.optim.AdamW(net.parameters(), lr=args.learning_rate)
            net, optimizer, batches = accelerator.prepare(net, optimizer, load(args))
            for epoch in range(args.epochs):
                for batch in batches:
                    accelerator.backward(net(**batch).loss)
                    optimizer.step()  # expect: AMP706
                    optimizer.zero_grad()
                pipeline = DiffusionPipeline.from_pretrained(args.path, unet=unwrapped(net))
                sample(pipeline, accelerator, torch.float16)

        main(parse_args())
        """,
        ("accelerator.device, dtype=dtype", "accelerator.device"),
    ),
    "adapters are added in float16": (
        """
        import torch
        from accelerate import Accelerator
        from peft import LoraConfig
        from transformers import AutoModelForImageTextToText

        accelerator = Accelerator(mixed_precision="fp16")
        net = AutoModelForImageTextToText.from_pretrained(path, torch_dtype=torch.float16)
        net.add_adapter(LoraConfig(r=8, target_modules=["q_proj"]))
        net.enable_adapters()
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
        net, optimizer, batches = accelerator.prepare(net, optimizer, batches)
        for batch in batches:
            accelerator.backward(net(**batch).loss)
            accelerator.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()  # expect: AMP706
            optimizer.zero_grad()
        """,
        (
            "net.enable_adapters()",
            "for weight in net.parameters():\n    if weight.requires_grad:\n        weight.data = weight.data.float()",
        ),
    ),
    "copies of layers beside adapters stay in float16": (
        """
        import torch
        from peft import LoraConfig, get_peft_model
        from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

        net = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float16)
        adapters = LoraConfig(r=8, target_modules=["q_proj"], modules_to_save=["lm_head"])
        net = get_peft_model(net, adapters)
        Trainer(net, TrainingArguments("runs", fp16=True), train_dataset=samples).train()  # expect: AMP706
        """,
        (', modules_to_save=["lm_head"]', ""),
    ),
    "weights of 8 bits are computed with in float16": (
        """
        import torch
        from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
        from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

        quantized = BitsAndBytesConfig(load_in_8bit=True)
        net = AutoModelForCausalLM.from_pretrained(path, quantization_config=quantized, dtype=torch.bfloat16)
        net = get_peft_model(prepare_model_for_kbit_training(net), LoraConfig(r=8))
        Trainer(net, TrainingArguments("runs", bf16=True), train_dataset=samples).train()  # expect: AMP745
        """,
        ("bf16=True", "fp16=True"),
    ),
    "both precisions at once": (
        """
        from transformers import TrainingArguments

        settings = TrainingArguments("runs", fp16=True, bf16=True)  # expect: AMP744
        """,
        ("fp16=True, ", ""),
    ),
    "Fabric runs a function in its processes, and a setting chooses its precision": (
        """
        import lightning as L
        import torch
        from jsonargparse import CLI

        def setup(precision=None, tpu=False):
            if precision is None:
                precision = "32-true" if tpu else "16-true"
            fabric = L.Fabric(precision=precision)
            fabric.launch(main, "runs")

        def main(fabric, path):
            net, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters()))
            for batch in batches:
                fabric.backward(net(batch).sum())  # expect: AMP742
                optimizer.step()
                optimizer.zero_grad()

        CLI(setup)
        """,
        ('"16-true"', '"16-mixed"'),
    ),
    "an option of the command line is 16-true unless it is given": (
        """
        import argparse
        import lightning as L

        parser = argparse.ArgumentParser()
        parser.add_argument("--precision", type=str, default="16-true")
        args = parser.parse_args()
        trainer = L.Trainer(precision=args.precision)
        trainer.fit(module, batches)  # expect: AMP742
        """,
        ('default="16-true"', 'default="32-true"'),
    ),
    "a field of the settings is 16-true unless it is set": (
        """
        from dataclasses import dataclass, field
        import lightning as L

        @dataclass
        class Settings:
            precision: str = field(default="16-true")

        def main(settings: Settings):
            trainer = L.Trainer(precision=settings.precision)
            trainer.fit(module, batches)  # expect: AMP742
        """,
        ('default="16-true"', 'default="bf16-mixed"'),
    ),
    "a class of Trainers loads its model in half": (
        """
        import torch
        from transformers import AutoModelForCausalLM, Trainer

        class Tuner(Trainer):
            def __init__(self, name, args=None, train_dataset=None):
                net = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16)
                super().__init__(model=net, args=args, train_dataset=train_dataset)  # expect: AMP741

            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                return model(**inputs, num_items_in_batch=num_items_in_batch).loss

            def _inner_training_loop(self, *args, **kwargs):
                self.started = True
                return super()._inner_training_loop(*args, **kwargs)
        """,
        ("torch.bfloat16", "torch.float32"),
    ),
    "a class of Trainers, without and with an engine of its own": (
        """
        import torch
        from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

        class Tuner(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                return model(**inputs, num_items_in_batch=num_items_in_batch).loss

        net = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
        args = TrainingArguments("out", bf16=True)
        Tuner(model=net, args=args, train_dataset=samples).train()  # expect: AMP741
        """,
        ("bf16=True", 'bf16=True, deepspeed="config.json"'),
    ),
    "a class of Trainers, which passes on that there are no optimizers yet": (
        """
        import torch
        from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

        class Tuner(Trainer):
            def __init__(self, model=None, args=None, train_dataset=None, optimizers=(None, None)):
                super().__init__(model=model, args=args, train_dataset=train_dataset, optimizers=optimizers)

        net = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
        args = TrainingArguments("out", bf16=True)
        Tuner(net, args, train_dataset=samples).train()  # expect: AMP741
        """,
        ("train_dataset=samples", "train_dataset=samples, optimizers=(copying, None)"),
    ),
    "buffers return to float32, and parameters do not": (
        """
        import torch

        net = build().cuda()
        net.half()
        for name, buffer in net.named_buffers():
            if "running" in name:
                buffer.data = buffer.data.float()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        scaler = torch.amp.GradScaler("cuda")
        for batch in batches:
            optimizer.zero_grad()
            loss = net(batch).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)  # expect: AMP217
            scaler.update()
        """,
        ("net.half()", "net.train()"),
        ("    loss =", '    with torch.autocast("cuda", dtype=torch.float16):\n        loss ='),
    ),
    "a loss of the script's own takes a mean where the model has to divide": (
        """
        from torch.nn import functional
        from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

        class Weighted(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):  # expect: AMP302
                outputs = model(**inputs)
                loss = functional.cross_entropy(outputs.logits.flatten(0, 1), inputs["labels"].flatten())
                return (loss, outputs) if return_outputs else loss

        net = AutoModelForCausalLM.from_pretrained(name, dtype="float32")
        Weighted(net, TrainingArguments("runs", gradient_accumulation_steps=4), train_dataset=samples).train()
        """,
        ("gradient_accumulation_steps=4", "gradient_accumulation_steps=1"),
    ),
    "a loss of the script's own adds to that of the model": (
        """
        from transformers import LlamaForCausalLM, Trainer

        class Balanced(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):  # expect: AMP302
                outputs = model(**inputs)
                loss = outputs.loss + 0.01 * outputs.aux
                return (loss, outputs) if return_outputs else loss
        """,
        ("model(**inputs)", "model(**inputs, num_items_in_batch=num_items_in_batch)"),
    ),
    "an Accelerator clips what was cleared": (
        """
        import torch
        from accelerate import Accelerator

        accelerator = Accelerator(gradient_accumulation_steps=4)
        net, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
        for batch in batches:
            with accelerator.accumulate(net):
                accelerator.backward(net(batch).sum())
                optimizer.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(net.parameters(), 1.0)  # expect: AMP202
        """,
        ("        optimizer.zero_grad()\n", ""),
        ("    if accelerator.sync_gradients:", "    if accelerator.is_main_process:"),
        (
            "        accelerator.clip_grad_norm_(net.parameters(), 1.0)\n",
            "        print(batch)\n    optimizer.zero_grad()\n",
        ),
    ),
}


def found(script: str) -> list[tuple[int, str]]:
    """The lines of `script` that are reported, each with the code."""
    findings = findings_of(script, RULES)
    return sorted((finding.span.start.row, finding.code) for finding in findings)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts(name: str) -> None:
    text, *repairs = SCRIPTS[name]
    script = textwrap.dedent(text).strip().replace("{loop}", LOOP.strip()) + "\n"
    rows = enumerate(script.splitlines(), 1)
    assert found(script) == [(row, line[-6:]) for row, line in rows if "# expect:" in line]
    for before, after in repairs:
        shard = next((line for line in script.splitlines() if line.startswith("fully_shard")), "")
        before, after = before.replace("{shard}", shard), after.replace("{shard}", shard)
        script = "\n".join(line.partition("  # expect:")[0] for line in script.splitlines()) + "\n"
        assert before in script
        script = script.replace(before, after)
    assert found(script) == []


def moved(start: torch.Tensor, gradient: float, steps: int, **options: float) -> torch.Tensor:
    """What AdamW makes of a weight by a gradient that stays the same."""
    weight = nn.Parameter(start.clone())
    optimizer = torch.optim.AdamW([weight], **options)  # type: ignore[arg-type]
    for _ in range(steps):
        weight.grad = torch.full_like(weight, gradient)
        optimizer.step()
    assert all(state["exp_avg"].dtype is start.dtype for state in optimizer.state.values())
    return weight.detach()


@pytest.mark.parametrize("rate", [1e-3, 1e-4, 1e-5])
def test_a_gain_in_bfloat16_never_moves(rate: float) -> None:
    ones = torch.ones(1)
    assert moved(ones.bfloat16(), 0.1, 200, lr=rate).item() == 1
    assert moved(ones, 0.1, 200, lr=rate).item() < 1 - 150 * rate


@pytest.mark.parametrize(("product", "changed"), [(1e-5, 0), (1e-4, 0), (3e-4, 0), (3e-3, 0.5)])
def test_decay_is_lost_below_half_a_step_of_bfloat16(product: float, changed: float) -> None:
    torch.manual_seed(0)
    weights = torch.randn(20_000).mul(0.02)
    after = moved(weights.bfloat16(), 0.0, 100, lr=1e-2, weight_decay=product / 1e-2)
    share = (after != weights.bfloat16()).float().mean().item()
    assert share >= changed if changed else share == 0
    assert (moved(weights, 0.0, 100, lr=1e-2, weight_decay=product / 1e-2) != weights).float().mean() > 0.99


@pytest.mark.parametrize(("rate", "share"), [(1e-3, 1.0), (1e-4, 0.88), (1e-5, 0.16), (1e-6, 0.02)])
def test_the_share_of_weights_in_bfloat16_that_a_step_changes(rate: float, share: float) -> None:
    torch.manual_seed(0)
    weights = torch.randn(100_000).mul(0.02).bfloat16()
    changed = moved(weights, 1.0, 1, lr=rate, weight_decay=0.0) != weights
    assert changed.float().mean().item() == pytest.approx(share, abs=0.015)


@pytest.mark.parametrize("interpolates", [True, False])
@pytest.mark.parametrize(("dtype", "reached"), [(torch.bfloat16, 1.0), (torch.float32, 1.432)])
def test_an_average_in_bfloat16_never_moves(dtype: torch.dtype, reached: float, interpolates: bool) -> None:
    average, weight = torch.ones(4, dtype=dtype), torch.full((4,), 1.5, dtype=dtype)
    for _ in range(2000):
        _ = average.lerp_(weight, 0.001) if interpolates else average.mul_(0.999).add_(weight, alpha=0.001)
    assert average.float().mean().item() == pytest.approx(reached, abs=1e-3)


def trained(whole: bool) -> tuple[float, float]:
    """The loss of the first step and of the last one, with one region around all of them or one for each."""
    torch.manual_seed(0)
    net, inputs = nn.Linear(8, 1), torch.randn(64, 8)
    targets = inputs.sum(dim=1, keepdim=True) + 2
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    with torch.autocast("cpu", dtype=torch.bfloat16) if whole else nullcontext():
        for _ in range(30):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = functional.mse_loss(net(inputs), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    return losses[0], losses[-1]


def test_one_region_around_a_loop_keeps_the_first_weights() -> None:
    first, last = trained(whole=True)
    assert last == first
    first, last = trained(whole=False)
    assert last < first / 100


def test_a_region_does_not_see_weights_change() -> None:
    net, inputs = nn.Linear(4, 1, bias=False), torch.ones(1, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        before = net(inputs)
        with torch.no_grad():
            net.weight.copy_(torch.zeros_like(net.weight))
        assert net(inputs).item() == before.item() != 0
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert net(inputs).item() == 0


def test_compiled_backward_passes_run_as_their_forward_pass() -> None:
    config = pytest.importorskip("torch._functorch.config")
    assert config.backward_pass_autocast == "same_as_forward"


@pytest.mark.parametrize(("dtype", "once"), [(torch.bfloat16, 512), (torch.float16, 4096)])
def test_random_numbers_in_half_hold_zeros(dtype: torch.dtype, once: int) -> None:
    torch.manual_seed(0)
    drawn = torch.rand(4_000_000, dtype=dtype)
    assert (drawn == 0).float().mean().item() == pytest.approx(1 / once, rel=0.1)
    assert (drawn < 1e-3).float().mean().item() == pytest.approx(1e-3 + 1 / once, rel=0.1)
    assert ((drawn.double() * once) % 1 != 0).float().mean().item() > 0.1


def test_random_numbers_cast_to_bfloat16_hold_ones() -> None:
    torch.manual_seed(0)
    cast = torch.rand(1_000_000).bfloat16()
    assert (cast == 1).float().mean().item() == pytest.approx(1 / 512, rel=0.1)
    assert (~torch.isfinite(-torch.log(-torch.log(cast)))).float().mean().item() > 1e-3


def test_a_mask_in_float32_is_taken_by_attention() -> None:
    query = torch.randn(1, 1, 4, 8, dtype=torch.bfloat16)
    functional.scaled_dot_product_attention(query, query, query, attn_mask=torch.zeros(4, 4))
    with pytest.raises(RuntimeError, match="same dtype"):
        functional.scaled_dot_product_attention(query.float(), query.float(), query)
    script = """
import torch
from torch.nn.functional import scaled_dot_product_attention

query = torch.randn(1, 1, 4, 8, dtype=torch.bfloat16)
outputs = scaled_dot_product_attention(query, query, query, attn_mask=torch.zeros(4, 4))
"""
    assert found(script) == []


SHARDED = r"""
import json, sys
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("factors", torch.ones(4))
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs):
        return self.layer(inputs * self.factors)


def steps(model, optimizer, count=50):
    for _ in range(count):
        model(torch.ones(2, 4)).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def work(rank, port, results):
    dist.init_process_group("gloo", rank=rank, world_size=2, store=dist.TCPStore("127.0.0.1", port, 2, is_master=False))
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2,))
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    seen = {}
    for dtype in (torch.bfloat16, torch.float32):
        model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)).to(dtype)
        fully_shard(model, mesh=mesh, mp_policy=half)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0)
        steps(model, optimizer)
        gain = model[1].weight
        seen[f"moved, {dtype}"] = (gain.full_tensor().float() - 1).abs().max().item()
        seen[f"kept, {dtype}"] = [str(gain.dtype), str(optimizer.state[gain]["exp_avg"].dtype)]
    outputs = model(torch.ones(2, 4))
    seen["loss"] = str(functional.cross_entropy(outputs, torch.zeros(2, dtype=torch.int64)).dtype)
    model(100 * torch.randn(2, 4)).float().sum().backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    seen["norm"] = [type(norm).__name__, norm.to_local().item(), norm.full_tensor().item()]

    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    before = model.weight.detach().clone()
    fully_shard(model, mesh=mesh, mp_policy=half)
    steps(model, optimizer, 1)
    seen["stale"] = (model.weight.full_tensor() - before).abs().max().item()

    model = nn.Sequential(nn.Linear(4, 4).bfloat16(), nn.LayerNorm(4))
    for name, each in {"mixed": model, "buffer": Scaled()}.items():
        fully_shard(each, mesh=mesh, mp_policy=half)
        try:
            each(torch.ones(2, 4))
        except Exception as failure:
            seen[name] = type(failure).__name__
    results.put(seen)
    dist.barrier()


if __name__ == "__main__":
    from multiprocessing import get_context

    store = dist.TCPStore("127.0.0.1", 0, 2, is_master=True, wait_for_workers=False)
    context = get_context("fork")
    results = context.SimpleQueue()
    ranks = [context.Process(target=work, args=(rank, store.port, results)) for rank in range(2)]
    for process in ranks:
        process.start()
    print(json.dumps([results.get() for _ in ranks]))
    for process in ranks:
        process.join()
"""


@pytest.fixture(scope="module")
def sharded() -> dict[str, Any]:
    """What two processes have seen of FSDP2; both have seen the same."""
    done = subprocess.run([sys.executable, "-c", SHARDED], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    one, other = json.loads(done.stdout.splitlines()[-1])
    assert one == other
    return dict(one)


def test_what_is_sharded_in_bfloat16_is_updated_in_it(sharded: dict[str, Any]) -> None:
    assert sharded["kept, torch.bfloat16"] == ["torch.bfloat16"] * 2
    assert sharded["moved, torch.bfloat16"] == 0
    assert sharded["kept, torch.float32"] == ["torch.float32"] * 2
    assert sharded["moved, torch.float32"] > 2e-3


def test_a_policy_is_no_region(sharded: dict[str, Any]) -> None:
    assert sharded["loss"] == "torch.bfloat16"


def test_an_optimizer_made_before_sharding_steps_nothing(sharded: dict[str, Any]) -> None:
    assert sharded["stale"] == 0


def test_what_fsdp2_refuses_in_a_forward_pass(sharded: dict[str, Any]) -> None:
    assert sharded["mixed"] == "AssertionError"
    assert sharded["buffer"] == "RuntimeError"


def test_the_norm_of_shards_is_known_to_fsdp2(sharded: dict[str, Any]) -> None:
    kind, local, full = sharded["norm"]
    assert kind == "DTensor"
    assert local == full > 1


@pytest.mark.parametrize(
    ("choices", "dtype"),
    [('["bfloat16", "float32"]', "bfloat16"), ('["float16", "float32"]', "float16"), ("None", "float16")],
)
def test_a_command_line_limits_the_dtypes(choices: str, dtype: str) -> None:
    text = f"""
    import argparse

    import torch
    from transformers import AutoModelForCausalLM

    parser = argparse.ArgumentParser()
    parser.add_argument("--model-dtype", default="float32", choices={choices})
    args = parser.parse_args()
    net = AutoModelForCausalLM.from_pretrained(path, torch_dtype=getattr(torch, args.model_dtype))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    for batch in batches:
        net(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    """
    source = textwrap.dedent(text).encode()
    told = findings_of(source, RULES)
    assert [finding.message for finding in told if finding.code == "AMP410"] == [
        f"the optimizer updates {dtype} parameters, of which there is no float32 copy"
    ]


@pytest.mark.parametrize(("call", "told"), [("utils.count_parameters(net)", True), ("utils.prepare(net)", False)])
def test_what_counts_parameters_leaves_them_in_half(call: str, told: bool) -> None:
    text = f"""
    import torch
    import utils

    net = torch.nn.Linear(8, 1).bfloat16()
    {call}
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    for batch in batches:
        net(batch).float().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    """
    found = findings_of(textwrap.dedent(text), RULES)
    assert ("AMP410" in {finding.code for finding in found}) is told
