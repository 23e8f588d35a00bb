"""Mixed precision as an option, in the style of scripts that fine-tune language models."""

import argparse
import logging

import torch
from torch import nn

logger = logging.getLogger(__name__)


def train(args, model, batches):
    """Train and return the losses."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    if args.fp16:
        try:
            from apex import amp
        except ImportError:
            raise ImportError("Please install apex from https://www.github.com/nvidia/apex.") from None
        model, optimizer = amp.initialize(model, optimizer, opt_level=args.fp16_opt_level, verbosity=0)

    if args.n_gpu > 1:
        model = nn.DataParallel(model)

    losses = []
    for _ in range(args.epochs):
        for inputs, targets in batches:
            model.train()
            outputs = model(inputs)
            loss = nn.functional.cross_entropy(outputs, targets)
            if args.n_gpu > 1:
                loss = loss.mean()  # average over the devices

            if args.fp16:
                with amp.scale_loss(loss, optimizer) as scaled_loss:
                    scaled_loss.backward()
            else:
                loss.backward()

            if args.fp16:
                torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), args.max_grad_norm)
            else:
                torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
            optimizer.step()
            model.zero_grad()
            losses.append(loss.item())
    evaluate(args, model, batches)
    return losses


def evaluate(args, model, batches):
    """The mean loss."""
    model.eval()
    total = 0.0
    for inputs, targets in batches:
        with torch.no_grad():
            outputs = model(inputs)
            loss = nn.functional.cross_entropy(outputs, targets)
        total += loss.item()
    logger.info("loss %f", total / len(batches))
    return total / len(batches)


parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true", default=True)
parser.add_argument("--fp16_opt_level", default="O1")
parser.add_argument("--lr", type=float, default=1e-2)
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--n_gpu", type=int, default=0)
parser.add_argument("--max_grad_norm", type=float, default=1.0)
args = parser.parse_args()
torch.manual_seed(0)
data = [(torch.randn(16, 8), torch.randint(0, 3, (16,))) for _ in range(10)]
losses = train(args, nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 3)), data)
