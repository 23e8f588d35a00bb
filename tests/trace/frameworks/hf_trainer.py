"""The Trainer of transformers: a GPT-2 with two layers."""

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

gpu = torch.cuda.is_available()
torch.manual_seed(0)
sizes = {"vocab_size": 64, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2}
model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
if "--spoil" in sys.argv:
    model.transformer.h[1].mlp.c_proj.weight.data.fill_(1e6)
tokens = torch.randint(0, 64, (32, 8))
arguments = TrainingArguments(
    "out",
    per_device_train_batch_size=2,
    gradient_accumulation_steps=2,
    max_steps=3,
    fp16=gpu,
    bf16=not gpu,
    use_cpu=not gpu,
    report_to=[],
    save_strategy="no",
    disable_tqdm=True,
)
Trainer(model, arguments, train_dataset=[{"input_ids": row, "labels": row} for row in tokens]).train()
