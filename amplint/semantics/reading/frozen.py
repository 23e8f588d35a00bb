"""Models whose parameters require no gradients, by the text of a file."""

from __future__ import annotations

from amplint.regex import regex
from amplint.semantics.reading.assigned import assigned_texts
from amplint.source.remembered import cached_per_file
from amplint.source.source import Source

_FROZEN = regex(
    r"for (\w+) in ([\w.]+)\.parameters\(\):\s*(?:#[^\n]*\n\s*)*\1\.requires_grad(?:[ \t]*=[ \t]*|_\()False"
    r"|(?<![\w.])([\w.]+)\.requires_grad_\(False\)"
)
_THAWED = regex(r"\.requires_grad(?:[ \t]*=(?![ \t]*False)|_\((?!False))|get_peft_model|add_adapter|LoraConfig")
"""What makes some parameters require gradients again, or adds new ones."""


def is_frozen(source: Source, name: str) -> bool:
    """Whether a file freezes the model of a dotted name, or one that it is a part of, and thaws none."""
    owners = _frozen(source)
    if not owners or not name:
        return False
    values = [value.strip() for value in assigned_texts(source).get(name, ())] if "." in name else []
    made_of = bool(values) and all(_is_part(value, owners) for value in values)
    return _is_part(name, owners) or made_of


def _is_part(name: str, owners: frozenset[str]) -> bool:
    return any(name == owner or name.startswith(f"{owner}.") for owner in owners)


@cached_per_file
def _frozen(source: Source) -> frozenset[str]:
    if "requires_grad" not in source.text or _THAWED.search(source.text):
        return frozenset()
    return frozenset(looped or called for _, looped, called in _FROZEN.findall(source.text)) - {"self"}
