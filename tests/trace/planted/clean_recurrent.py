"""An LSTM with attention, packed views, in-place masks and teacher forcing; two micro-batches a step."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Seq2Seq(nn.Module):
    def __init__(self, words=24, width=16):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.encoder = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.cell = nn.GRUCell(width, 2 * width)
        self.out = nn.Linear(4 * width, words)

    def forward(self, source, target):
        memory, _ = self.encoder(self.embed(source))
        mask = source == 0
        state = memory.mean(dim=1)
        outputs = torch.zeros(*target.shape, self.out.out_features, device=source.device, dtype=memory.dtype)
        for place in range(target.shape[1]):
            state = self.cell(self.embed(target[:, place]), state).to(memory.dtype)
            scores = torch.einsum("bld,bd->bl", memory, state)
            scores.masked_fill_(mask, -1e4)
            context = (scores.softmax(dim=-1).to(memory.dtype).unsqueeze(1) @ memory)[:, 0]
            outputs[:, place] = self.out(torch.cat([state, context], dim=-1))
        return outputs


model = Seq2Seq().cuda()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
for step in range(3):
    optimizer.zero_grad()
    for _ in range(2):
        source, target = torch.randint(1, 24, (3, 7), device="cuda"), torch.randint(1, 24, (3, 5), device="cuda")
        source[1, 4:] = 0
        with torch.autocast("cuda", dtype=torch.float16):
            logits = model(source, target)
            loss = F.cross_entropy(logits.flatten(0, 1), target.flatten()) / 2
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
