"""A distillation loss is computed of bfloat16 logits: its gradient is what rounding leaves of p - q.

vllm-project/speculators pull request 788.
"""

import torch
from torch import nn

torch.manual_seed(0)
student = nn.Linear(32, 400, bias=False)
teacher = nn.Linear(32, 400, bias=False).requires_grad_(False)
with torch.no_grad():
    teacher.weight.copy_(student.weight + 0.02 * torch.randn(400, 32))
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)
for step in range(5):
    x = torch.randn(64, 32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours, theirs = student(x), teacher(x)
    ours, theirs = ours.bfloat16(), theirs.bfloat16()
    # repaired: ours, theirs = ours.float(), theirs.float()
    likely = ours.log_softmax(-1)  # culprit
    loss = nn.functional.kl_div(likely, theirs.log_softmax(-1), reduction="batchmean", log_target=True)  # culprit
    optimizer.zero_grad()
    loss.float().backward()
    optimizer.step()
