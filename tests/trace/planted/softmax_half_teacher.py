"""Distillation from a half teacher: its softmax underflows, and the logarithm of it is -inf times 0.

Repaired: `soft = (logits.float() / temperature).softmax(dim=-1)`
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
CLASSES = 100


def make(width):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, 2, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, CLASSES),
    )


def soft_targets(logits, temperature):
    soft = (logits / temperature).softmax(dim=-1)  # culprit
    return soft


def distillation_loss(student_logits, targets, temperature):
    student_log = F.log_softmax(student_logits.float() / temperature, dim=-1)
    target_log = torch.log(targets.float())
    divergence = targets.float() * (target_log - student_log)
    return divergence.sum(dim=-1).mean() * temperature**2


teacher, student = make(32).cuda().half().eval(), make(8).cuda()
with torch.no_grad():
    teacher[6].weight.mul_(60.0)
    teacher[6].bias.mul_(60.0)
optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=512.0)
for step in range(3):
    images = torch.randn(8, 1, 16, 16, device="cuda")
    labels = torch.randint(0, CLASSES, (8,), device="cuda")
    with torch.no_grad():
        targets = soft_targets(teacher(images.half()), temperature=1.0)
    with torch.autocast("cuda", dtype=torch.float16):
        student_logits = student(images)
        hard = F.cross_entropy(student_logits, labels)
        loss = 0.5 * hard + 0.5 * distillation_loss(student_logits, targets, temperature=1.0)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
