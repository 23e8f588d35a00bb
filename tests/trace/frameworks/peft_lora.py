"""peft: LoRA on a Llama in half, with a gradient scaler on a GPU."""

import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

gpu = torch.cuda.is_available()
device, dtype = ("cuda", torch.float16) if gpu else ("cpu", torch.bfloat16)
torch.manual_seed(0)
sizes = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
base = LlamaForCausalLM(LlamaConfig(**sizes)).to(dtype)
model = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj", "v_proj"])).to(device)
if "--spoil" in sys.argv:
    base.model.layers[1].mlp.up_proj.weight.data.fill_(6e4)
optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-3)
scaler = torch.amp.GradScaler(device, enabled=gpu)
for _ in range(3):
    tokens = torch.randint(0, 64, (2, 8), device=device)
    with torch.autocast(device, dtype=dtype):
        loss = model(input_ids=tokens, labels=tokens).loss
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
