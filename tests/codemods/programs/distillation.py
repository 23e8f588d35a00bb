"""A frozen teacher and a student; the best student is saved with its optimizer, and loaded again."""

import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

losses = []


def network(width):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 4))


def distill(student_logits, teacher_logits, labels, temperature=2.0):
    soft = F.kl_div(
        F.log_softmax(student_logits / temperature, dim=1),
        F.softmax(teacher_logits / temperature, dim=1),
        reduction="batchmean",
    )
    return F.cross_entropy(student_logits, labels) + temperature**2 * soft


def main():
    torch.manual_seed(16)
    teacher, student = network(64), network(16)
    teacher.eval()
    for parameter in teacher.parameters():
        parameter.requires_grad_(False)
    optimizer = torch.optim.AdamW(student.parameters(), lr=5e-3)
    path = os.path.join(tempfile.mkdtemp(), "best.pt")
    for epoch in range(5):
        student.train()
        for _ in range(10):
            x = torch.randn(32, 8)
            labels = x[:, :4].argmax(1)
            with torch.no_grad():
                teacher_logits = teacher(x)
            student_logits = student(x)
            loss = distill(student_logits, teacher_logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        state = dict(epoch=epoch, model=student.state_dict(), optimizer=optimizer.state_dict())
        torch.save(state, path)
    checkpoint = torch.load(path)
    student.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])


if __name__ == "__main__":
    main()
