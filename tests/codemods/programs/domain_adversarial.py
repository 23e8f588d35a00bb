"""Features that do not tell where an example comes from: gradients of the domain's classifier are turned round."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function

losses = []


class ReverseLayerF(Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.neg() * ctx.alpha, None


class DANN(nn.Module):
    def __init__(self):
        super().__init__()
        self.feature = nn.Sequential(nn.Linear(6, 24), nn.Tanh())
        self.class_classifier = nn.Linear(24, 3)
        self.domain_classifier = nn.Sequential(nn.Linear(24, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, x, alpha):
        feature = self.feature(x)
        reverse_feature = ReverseLayerF.apply(feature, alpha)
        classes = F.log_softmax(self.class_classifier(feature), dim=1)
        return classes, F.log_softmax(self.domain_classifier(reverse_feature), dim=1)


def domain(rng, shift, count=20):
    labels = torch.randint(0, 3, (count,), generator=rng)
    x = torch.randn(count, 6, generator=rng)
    x[torch.arange(count), labels] += 2
    return x + shift, labels


torch.manual_seed(47)
rng = torch.Generator().manual_seed(48)
net = DANN()
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
loss_class = nn.NLLLoss()
loss_domain = nn.NLLLoss()

iterations = 10
for epoch in range(5):
    for i in range(iterations):
        p = (i + epoch * iterations) / (5 * iterations)
        alpha = 2.0 / (1.0 + math.exp(-10 * p)) - 1

        # the source, with labels
        s_img, s_label = domain(rng, 0.0)
        net.zero_grad()
        class_output, domain_output = net(s_img, alpha=alpha)
        err_s_label = loss_class(class_output, s_label)
        err_s_domain = loss_domain(domain_output, torch.zeros(len(s_img), dtype=torch.long))

        # the target, without
        t_img, _ = domain(rng, 0.5)
        _, domain_output = net(t_img, alpha=alpha)
        err_t_domain = loss_domain(domain_output, torch.ones(len(t_img), dtype=torch.long))
        err = err_t_domain + err_s_domain + err_s_label
        err.backward()
        optimizer.step()
        losses.append(err.item())

    net.eval()
    with torch.no_grad():
        images, labels = domain(rng, 0.5, 60)
        class_output, _ = net(images, alpha=0)
        accuracy = (class_output.max(1)[1] == labels).float().mean().item()
    net.train()
    print(f"epoch {epoch}: {accuracy:.2f} on the target")
