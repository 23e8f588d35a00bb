"""trl's SFTTrainer: a Llama with two layers on rows of tokens."""

import sys

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

gpu = torch.cuda.is_available()
torch.manual_seed(0)
words = {"<pad>": 0, "</s>": 1, **{f"w{number}": number + 2 for number in range(62)}}
splitter = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
splitter.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=splitter, pad_token="<pad>", eos_token="</s>")
sizes = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
model = LlamaForCausalLM(LlamaConfig(**sizes, bos_token_id=1, eos_token_id=1))
if "--spoil" in sys.argv:
    model.model.layers[1].mlp.up_proj.weight.data.fill_(1e6)
data = Dataset.from_dict({"text": [" ".join(f"w{(row * word) % 62}" for word in range(8)) for row in range(16)]})
arguments = SFTConfig(
    "out",
    per_device_train_batch_size=2,
    max_steps=3,
    max_length=16,
    fp16=gpu,
    bf16=not gpu,
    use_cpu=not gpu,
    gradient_checkpointing=False,
    report_to=[],
    save_strategy="no",
    disable_tqdm=True,
)
SFTTrainer(model, arguments, train_dataset=data, processing_class=tokenizer).train()
