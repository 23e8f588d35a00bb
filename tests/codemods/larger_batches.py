"""The training programs of the tests with batches as large as a window of `MANY`: what their lines become.

A batch of a window holds the samples of all its batches. Where a batch is more than its samples (`TOGETHER` says why),
the loss of a window is the mean of its batches' losses, of which there is one backward pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

MANY = 4


def chunks(batches: Iterable[Any], count: int = MANY) -> list[list[Any]]:
    """The windows of `batches`, the last of which can be shorter."""
    every = list(batches)
    return [every[first : first + count] for first in range(0, len(every), count)]


def joined(batches: Iterable[Any]) -> Any:
    """One batch of all the samples of `batches`: tensors, or sequences and dicts of these."""
    every = list(batches)
    if isinstance(every[0], torch.Tensor):
        return torch.cat(every)
    if isinstance(every[0], dict):
        return {key: joined(one[key] for one in every) for key in every[0]}
    return [joined(parts) for parts in zip(*every, strict=True)]


def larger(batches: Iterable[Any]) -> Iterator[Any]:
    """`batches`, as large as windows."""
    return map(joined, chunks(batches))


def mean(losses: Iterable[torch.Tensor]) -> torch.Tensor:
    """The loss of a window, of those of its batches."""
    return torch.stack(list(losses)).mean()


HELPERS = {one.__name__: one for one in (chunks, joined, larger, mean)}
"""What the larger programs call."""

TOGETHER = {
    "contrastive_views": "the loss compares the samples of a batch with each other",
    "detection_losses": "batch normalization",
    "language_model": "a batch goes on where the one before it ended",
    "mixup_function": "the samples of a batch are mixed with each other",
    "onecycle_callbacks": "batch normalization",
    "rnn_clipping": "a batch goes on where the one before it ended",
    "unet_dataclass": "batch normalization",
    "weight_averaging": "batch normalization",
}

DOUBLE = {
    "perceptual_network": "a bias before a normalization",
    "transformer_scheduler": "the bias of the keys of attention",
    "unet_dataclass": "biases before normalizations",
}
"""What has gradients that are zero but for rounding, which Adam makes as large as others: double precision."""

REFUSED = {
    "cycle_pair": "no step of an optimizer is in the same function as this backward pass",
    "dqn_replay": "a round that ends here would leave its window without a step",
    "gan_class": "no step of an optimizer is in the same function as this backward pass",
    "gan_script": "two losses are differentiated in turn",
    "gradient_penalty": "two losses are differentiated in turn",
    "graph_convolution": "a round of this loop is an epoch",
    "optimizer_object": "norm is returned, and only the end of a window sets it",
    "wgan_penalty": "not every round of this loop trains",
}

_FIFTY = ("for step in range(50):", "for window in chunks(range(50)):")

EDITS: dict[str, tuple[tuple[str, str], ...]] = {
    "actor_critic_dict": (
        ("for _ in range(50):", "for window in chunks(range(50)):"),
        ("states = torch.randn(32, 3)", "states = joined(torch.randn(32, 3) for _ in window)"),
    ),
    "bce_probabilities": (_FIFTY, ("x = torch.randn(32, 4)", "x = joined(torch.randn(32, 4) for _ in window)")),
    "classify_argparse": (
        ("enumerate(batches(args.batches, epoch))", "enumerate(larger(batches(args.batches, epoch)))"),
    ),
    "classify_click": (("for inputs, targets in batches:", "for inputs, targets in larger(batches):"),),
    "contrastive_views": (
        ("for index in range(10):", "for window in chunks(range(10)):"),
        (
            "first, second = views(epoch * 10 + index, args.batch_size)",
            "both = [views(epoch * 10 + index, args.batch_size) for index in window]",
        ),
        (
            "loss = criterion(model(first.to(device)), model(second.to(device)))",
            "loss = mean(criterion(model(first), model(second)) for first, second in both)",
        ),
    ),
    "ctc_lines": (
        ("for iteration in range(50):", "for window in chunks(range(50)):"),
        (
            "lines, text, text_lengths = make_batch(rng)",
            "lines, text, text_lengths = joined(make_batch(rng) for _ in window)",
        ),
    ),
    "denoise_module": (
        (
            "        generator = torch.Generator().manual_seed(step)\n"
            "        return x + self.noise * torch.randn(x.shape, generator=generator)",
            "        seeded = [torch.Generator().manual_seed(one) for one in step]\n"
            "        return x + self.noise * joined(torch.randn(32, 12, generator=one) for one in seeded)",
        ),
        ("for step in range(first, last):", "for window in chunks(range(first, last)):\n        step = window[-1]"),
        ("model.training_step(data(step), step)", "model.training_step(joined(map(data, window)), window)"),
    ),
    "detection_losses": (
        ("for i in range(10):", "for window in chunks(range(10)):"),
        ("        images, targets = collate(epoch * 10 + i)\n", ""),
        ("loss_dict = model(images, targets)", "loss_dicts = [model(*collate(epoch * 10 + i)) for i in window]"),
        ("sum(loss for loss in loss_dict.values())", "mean(sum(loss_dict.values()) for loss_dict in loss_dicts)"),
    ),
    "diffusion_ema": (
        (
            "    while step < total:\n"
            "        (x,) = next(batches)\n"
            "        x = x.to(device)\n"
            "        t = torch.randint(0, T, (len(x),), device=device)\n"
            "        noise = torch.randn_like(x)\n",
            "    for window in chunks(range(step, total)):\n"
            "        parts = []\n"
            "        for (x,) in (next(batches) for _ in window):\n"
            "            parts.append((x, torch.randint(0, T, (len(x),)), torch.randn_like(x)))\n"
            "        x, t, noise = joined(parts)\n",
        ),
    ),
    "distillation": (
        ("for _ in range(10):", "for window in chunks(range(10)):"),
        ("x = torch.randn(32, 8)", "x = joined(torch.randn(32, 8) for _ in window)"),
    ),
    "domain_adversarial": (
        ("for i in range(iterations):", "for window in chunks(range(iterations)):"),
        (
            "p = (i + epoch * iterations) / (5 * iterations)",
            "ps = [(i + epoch * iterations) / (5 * iterations) for i in window]",
        ),
        (
            "alpha = 2.0 / (1.0 + math.exp(-10 * p)) - 1",
            "alpha = joined(torch.full((20, 1), 2.0 / (1.0 + math.exp(-10 * p)) - 1) for p in ps)",
        ),
        (
            "s_img, s_label = domain(rng, 0.0)",
            "s_img, s_label, t_img, _ = joined((*domain(rng, 0.0), *domain(rng, 0.5)) for _ in window)",
        ),
        ("        t_img, _ = domain(rng, 0.5)\n", ""),
    ),
    "early_stopping": (("for x, y in loader:", "for x, y in larger(loader):"),),
    "factorization": (
        ("for user, item, rating in loader:", "for user, item, rating in larger(loader):"),
        ("done += 1", "done += len(rating) // 30"),
    ),
    "freeze_then_tune": (
        ("for _ in range(steps):", "for window in chunks(range(steps)):"),
        ("images, kinds = stripes(generator)\n", "images, kinds = joined(stripes(generator) for _ in window)\n"),
    ),
    "helper_step": (
        ("for step in range(steps):", "for step, window in enumerate(chunks(range(steps))):"),
        ("x = torch.randn(16, 4)", "x = joined(torch.randn(16, 4) for _ in window)"),
    ),
    "kfold": (
        ("for _ in range(STEPS_PER_FOLD):", "for window in chunks(range(STEPS_PER_FOLD)):"),
        ("F.mse_loss(net(x_train), y_train)", "F.mse_loss(*joined((net(x_train), y_train) for _ in window))"),
    ),
    "language_model": (
        (
            "    for i in range(0, len(train_data) - 1, args.bptt):\n"
            "        data, targets = get_batch(train_data, i)\n"
            "        hidden = repackage_hidden(hidden)\n",
            "    for window in chunks(range(0, len(train_data) - 1, args.bptt)):\n        each = []\n",
        ),
        (
            "        output, hidden = model(data, hidden)\n"
            "        loss = criterion(output.flatten(0, 1), targets)\n"
            "        loss.backward()\n",
            "        for data, targets in [get_batch(train_data, i) for i in window]:\n"
            "            output, hidden = model(data, repackage_hidden(hidden))\n"
            "            each.append(criterion(output.flatten(0, 1), targets))\n"
            "        loss = mean(each)\n"
            "        loss.backward()\n",
        ),
    ),
    "lazy_optimizer": (("for batch in batches:", "for batch in larger(batches):"),),
    "metric_learning": (
        ("for step in range(args.steps):", "for window in chunks(range(args.steps)):\n    step = window[-1]"),
        (
            "    label = torch.randint(0, 4, (16,))\n"
            "    anchor = (centres[label] + 0.1 * torch.randn(16, 10)).to(device)\n"
            "    positive = (centres[label] + 0.1 * torch.randn(16, 10)).to(device)\n"
            "    negative = (centres[(label + 1) % 4] + 0.1 * torch.randn(16, 10)).to(device)\n",
            "    parts = []\n"
            "    for label in (torch.randint(0, 4, (16,)) for _ in window):\n"
            "        parts.append([centres[k] + 0.1 * torch.randn(16, 10) for k in (label, label, (label + 1) % 4)])\n"
            "    anchor, positive, negative = joined(parts)\n",
        ),
    ),
    "mixture_density": (
        ("for step in range(first, limit):", "for window in chunks(range(first, limit)):\n        step = window[-1]"),
        ("        x, y = sample(step)\n", "        x, y = joined(map(sample, window))\n"),
    ),
    "mixup_function": (
        (
            "    for i, (x, y) in enumerate(batches):\n"
            "        with torch.set_grad_enabled(training):\n"
            "            if training and i % 2:\n",
            "    for window in chunks(enumerate(batches)):\n"
            "        each = []\n"
            "        for i, (x, y) in window:\n"
            "            if training and i % 2:\n",
        ),
        ("        if training:\n", "            each.append(loss)\n        loss = mean(each)\n        if training:\n"),
    ),
    "multi_task": (
        ("for i in range(10):", "for window in chunks(range(10)):"),
        ("x = torch.randn(32, 6)", "x = joined(torch.randn(32, 6) for _ in window)"),
    ),
    "multilabel_sigmoid": (
        (
            "    for batch in loader:\n        optimizer.zero_grad()",
            "    for batch in larger(loader):\n        optimizer.zero_grad()",
        ),
    ),
    "onecycle_callbacks": (
        ("for batch in self.train_loader:", "for batch in chunks(self.train_loader):"),
        ("        inputs, targets = batch\n        logits = self.model(inputs)\n", ""),
        (
            "loss = self.loss_fn(logits, targets)",
            "loss = mean(self.loss_fn(self.model(inputs), targets) for inputs, targets in batch)",
        ),
    ),
    "perceptual_network": (
        ("for i in range(1, 51):", "for i, window in enumerate(chunks(range(1, 51))):"),
        ("torch.rand(4, 3, 8, 8).repeat", "joined(torch.rand(4, 3, 8, 8) for _ in window).repeat"),
    ),
    "phases_tutorial": (("for inputs, labels in loader(phase):", "for inputs, labels in larger(loader(phase)):"),),
    "ppo_rounds": (
        ("torch.randperm(len(obs)).chunk(cfg.minibatches)", "larger(torch.randperm(len(obs)).chunk(cfg.minibatches))"),
    ),
    "reinforce": (
        (
            "    returns = torch.tensor(rewards)\n    returns = (returns - returns.mean()) / (returns.std() + EPS)\n",
            "    each = torch.tensor(rewards).split(16)\n"
            "    returns = joined((one - one.mean()) / (one.std() + EPS) for one in each)\n",
        ),
        ("for episode in range(50):", "for window in chunks(range(50)):"),
        (
            "    states = torch.randn(16, 4)\n    actions = torch.randint(0, 2, (16,))\n",
            "    states, actions = joined((torch.randn(16, 4), torch.randint(0, 2, (16,))) for _ in window)\n",
        ),
    ),
    "rnn_clipping": (
        (
            "    for batch in range(50):\n"
            "        tokens, targets = get_batch(batch)\n"
            "        hidden = repackage_hidden(hidden)\n",
            "    for batch, window in enumerate(chunks(range(50))):\n        each = []\n",
        ),
        (
            "        output, hidden = model(tokens, hidden)\n"
            "        loss = criterion(output, targets)\n"
            "        loss.backward()\n",
            "        for tokens, targets in map(get_batch, window):\n"
            "            output, hidden = model(tokens, repackage_hidden(hidden))\n"
            "            each.append(criterion(output, targets))\n"
            "        loss = mean(each)\n"
            "        loss.backward()\n",
        ),
    ),
    "segment_trainer": (
        ("while self.step < self.steps:", "for self.window in chunks(range(self.step, self.steps)):"),
        ("images, masks = self.batch(self.step)", "images, masks = joined(map(self.batch, self.window))"),
        ("self.step += 1", "self.step += len(self.window)"),
    ),
    "seq2seq_attention": (
        (
            "    while step < end:\n        source, target = batch(step)\n",
            "    for window in chunks(range(step, end)):\n        source, target = joined(map(batch, window))\n",
        ),
    ),
    "siamese_pairs": (
        ('for step in range(1, config["steps"] + 1):', 'for window in chunks(range(config["steps"])):'),
        ('x1, x2, same = pairs(rng, config["batch"])', "x1, x2, same = joined(pairs(rng, 24) for _ in window)"),
    ),
    "streamed_text": (("criterion, stream(10, epoch))", "criterion, larger(stream(10, epoch)))"),),
    "super_resolution_resume": (
        ("for iteration in range(args.iterations):", "for window in chunks(range(args.iterations)):"),
        (
            "small, large = images(epoch * 100 + iteration, args.factor)",
            "small, large = joined(images(epoch * 100 + iteration, args.factor) for iteration in window)",
        ),
    ),
    "transformer_scheduler": (
        ("for step in range(steps):", "for window in chunks(range(steps)):"),
        (
            "tokens = (torch.arange(13)[None] * (step % 3 + 1) + torch.arange(8)[:, None]) % 16",
            "paces = [torch.arange(13)[None] * (step % 3 + 1) for step in window]\n"
            "        tokens = joined((pace + torch.arange(8)[:, None]) % 16 for pace in paces)",
        ),
    ),
    "unet_dataclass": (
        ("for _ in range(config.rounds):", "for window in chunks(range(config.rounds)):"),
        (
            "            images, masks = discs(rng)\n"
            "            images = images.to(config.device)\n"
            "            masks = masks.to(config.device)\n"
            "            logits = model(images)\n"
            "            loss = bce(logits, masks) + config.dice_weight * dice_loss(logits, masks)\n",
            "            each = []\n"
            "            for images, masks in [discs(rng) for _ in window]:\n"
            "                logits = model(images)\n"
            "                each.append(bce(logits, masks) + config.dice_weight * dice_loss(logits, masks))\n"
            "            loss = mean(each)\n",
        ),
    ),
    "vae_loss_function": (
        ("for batch_idx in range(10):", "for window in chunks(range(10)):"),
        (
            "data = torch.rand(32, 32, generator=generator)\n",
            "data = joined(torch.rand(32, 32, generator=generator) for _ in window)\n",
        ),
    ),
    "weight_averaging": (
        ("for batch in train_loader:", "for batch in chunks(train_loader):"),
        ("    x, y = batch\n", ""),
        ("criterion(model(x), y)", "mean(criterion(model(x), y) for x, y in batch)"),
    ),
}


def with_larger_batches(name: str, text: str) -> str:
    """The program `name`, whose text is `text`, with batches as large as windows."""
    for old, new in EDITS[name]:
        assert text.count(old) == 1, (name, old)
        text = text.replace(old, new)
    return text
