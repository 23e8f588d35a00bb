"""Sequences are turned round: encoder, attention and a decoder that is fed the truth now and then; can be resumed."""

import argparse
import random
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, START, TOKENS = 0, 1, 8
losses = []


class Encoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, hidden, padding_idx=PAD)
        self.cell = nn.GRUCell(hidden, hidden)

    def forward(self, source):
        state = torch.zeros(source.size(0), self.cell.hidden_size, device=source.device)
        states = []
        for token in source.t():
            state = self.cell(self.embedding(token), state)
            states.append(state)
        return torch.stack(states, 1), state


class Decoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, hidden)
        self.cell = nn.GRUCell(2 * hidden, hidden)
        self.out = nn.Linear(hidden, TOKENS)

    def forward(self, token, state, memory, mask):
        scores = torch.bmm(memory, state.unsqueeze(2)).squeeze(2) / memory.size(2) ** 0.5
        scores = scores.masked_fill(mask, -1e10)
        context = (F.softmax(scores, dim=1).unsqueeze(1) @ memory).squeeze(1)
        state = self.cell(torch.cat([self.embedding(token), context], 1), state)
        return self.out(state), state


def train_batch(encoder, decoder, encoder_optimizer, decoder_optimizer, criterion, source, target, ratio):
    encoder_optimizer.zero_grad()
    decoder_optimizer.zero_grad()
    memory, state = encoder(source)
    token = torch.full((len(source),), START)
    loss = 0
    for position in range(target.size(1)):
        logits, state = decoder(token, state, memory, source == PAD)
        loss = loss + criterion(logits, target[:, position])
        token = target[:, position] if random.random() < ratio else logits.argmax(1)
    loss.backward()
    nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
    nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
    encoder_optimizer.step()
    decoder_optimizer.step()
    return loss.item() / target.size(1)


def batch(step, size=16, length=5):
    rng = torch.Generator().manual_seed(step)
    source = torch.randint(2, TOKENS, (size, length), generator=rng)
    source[: size // 4, length - 1] = PAD
    return source, source.flip(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", default=24, type=int)
    parser.add_argument("--teacher-forcing", default=1.0, type=float)
    parser.add_argument("--stop-after", type=int, help="tens of steps in this run")
    parser.add_argument("--resume", type=Path)
    args = parser.parse_args()

    torch.manual_seed(15)
    encoder, decoder = Encoder(args.hidden), Decoder(args.hidden)
    encoder_optimizer = torch.optim.Adam(encoder.parameters(), lr=5e-3)
    decoder_optimizer = torch.optim.Adam(decoder.parameters(), lr=5e-3)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    step = 0
    if args.resume is not None:
        saved = torch.load(args.resume)
        encoder.load_state_dict(saved["encoder"])
        decoder.load_state_dict(saved["decoder"])
        encoder_optimizer.load_state_dict(saved["encoder_optimizer"])
        decoder_optimizer.load_state_dict(saved["decoder_optimizer"])
        step = saved["step"]
    end = 50 if args.stop_after is None else 10 * args.stop_after
    while step < end:
        source, target = batch(step)
        loss = train_batch(
            encoder,
            decoder,
            encoder_optimizer,
            decoder_optimizer,
            criterion,
            source,
            target,
            args.teacher_forcing,
        )
        losses.append(loss)
        step += 1
        if step % 10 == 0:
            state = {"encoder": encoder.state_dict(), "decoder": decoder.state_dict(), "step": step}
            state["encoder_optimizer"] = encoder_optimizer.state_dict()
            state["decoder_optimizer"] = decoder_optimizer.state_dict()
            torch.save(state, "checkpoint.pt")


if __name__ == "__main__":
    main()
