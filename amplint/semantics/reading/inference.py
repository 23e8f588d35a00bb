"""Scripts that evaluate models without training them, by their text."""

from __future__ import annotations

from collections.abc import Iterable

from amplint.regex import regex
from amplint.source.source import Chunk

_INFERS = regex(r"\bno_grad\b|\binference_mode\b|\.eval\(\)")
_DIFFERENTIATES = regex(r"backward\b|\bautograd\b|[Oo]ptimizer|\boptim\b|\.fit\(|Trainer|(?<!model)\.train\(|\.step\(")
_STARTS = regex(r"__main__|\binit_process_group\(")


def only_infers(chunks: Iterable[Chunk]) -> bool:
    """Whether `chunks` are a script that evaluates a model, and no word in them is about gradients or training."""
    texts = [chunk.text for chunk in chunks]
    if not any(map(_STARTS.search, texts)) or not any(map(_INFERS.search, texts)):
        return False
    return not any(map(_DIFFERENTIATES.search, texts))
