"""Nodes of a graph are told apart by graph convolutions over a dense adjacency matrix; the batch is the graph."""

import math
import time

import torch
import torch.nn.functional as F
from torch.nn import Module
from torch.nn.parameter import Parameter

losses = []


class GraphConvolution(Module):
    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        self.weight = Parameter(torch.empty(in_features, out_features))
        if bias:
            self.bias = Parameter(torch.empty(out_features))
        else:
            self.register_parameter("bias", None)
        stdv = 1.0 / math.sqrt(out_features)
        for parameter in self.parameters():
            parameter.data.uniform_(-stdv, stdv)

    def forward(self, input, adj):
        output = torch.mm(adj, torch.mm(input, self.weight))
        return output if self.bias is None else output + self.bias


class GCN(Module):
    def __init__(self, nfeat, nhid, nclass):
        super().__init__()
        self.gc1 = GraphConvolution(nfeat, nhid)
        self.gc2 = GraphConvolution(nhid, nclass)

    def forward(self, x, adj):
        return F.log_softmax(self.gc2(F.relu(self.gc1(x, adj)), adj), dim=1)


def load_data(count=60, classes=3):
    generator = torch.Generator().manual_seed(19)
    labels = torch.arange(count) % classes
    alike = (labels[:, None] == labels[None]).float()
    edges = (torch.rand(count, count, generator=generator) < 0.05 + 0.25 * alike).float()
    adj = ((edges + edges.t()) > 0).float() + torch.eye(count)
    scale = adj.sum(1).rsqrt()
    features = torch.randn(count, 8, generator=generator) + F.one_hot(labels, 8)
    order = torch.randperm(count, generator=generator)
    return scale[:, None] * adj * scale, features, labels, order[:20], order[20:40], order[40:]


def accuracy(output, labels):
    return (output.max(1)[1].type_as(labels) == labels).double().mean().item()


adj, features, labels, idx_train, idx_val, idx_test = load_data()
torch.manual_seed(20)
model = GCN(features.shape[1], 16, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)


def train(epoch):
    t = time.time()
    model.train()
    optimizer.zero_grad()
    output = model(features, adj)
    loss_train = F.nll_loss(output[idx_train], labels[idx_train])
    acc_train = accuracy(output[idx_train], labels[idx_train])
    loss_train.backward()
    optimizer.step()
    losses.append(loss_train.item())

    model.eval()
    with torch.no_grad():
        output = model(features, adj)
    loss_val = F.nll_loss(output[idx_val], labels[idx_val])
    acc_val = accuracy(output[idx_val], labels[idx_val])
    print(f"{epoch:04d} {acc_train:.3f} {loss_val.item():.4f} {acc_val:.3f} {time.time() - t:.3f}s")


def test():
    model.eval()
    with torch.no_grad():
        output = model(features, adj)
        loss_test = F.nll_loss(output[idx_test], labels[idx_test])
    print("test", loss_test.item(), accuracy(output[idx_test], labels[idx_test]))


for epoch in range(50):
    train(epoch)
test()
