"""Events of a configuration file by itself, whose keys identify the library that reads it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Set
from typing import Any

from amplint.semantics.configs.display import Reader, dictionaries, find, get, name_of
from amplint.semantics.events import (
    EngineConfigured,
    Event,
    HalvesMixed,
    LaunchOverruled,
    PrecisionTwice,
)
from amplint.semantics.reading.program import Program
from amplint.semantics.values.values import NONE, TRUE, Const, Items
from amplint.source import syntax as cst
from amplint.source.configs.file import ConfigFile
from amplint.torchlib.deepspeed import KNOWN_BY, PRECISIONS
from amplint.torchlib.frameworks import (
    ADAPTED_BY,
    DEEPSPEED_FILE,
    DTYPE_NAMES,
    LAUNCHED_BY,
    LEFT_TO_FILE,
    TRAINING_SETTINGS,
    WEIGHTS_DTYPES,
)

_Found = tuple[type[Event], cst.CSTNode, dict[str, Any]]


def emit_config(program: Program, file: ConfigFile, emit: Callable[[Event], None], kinds: Set[str]) -> None:
    """Emit the events of these `kinds` in `file`, the main one of `program`."""
    reader = Reader(itertools.count().__next__)
    for tree in dictionaries(file.root):
        value = reader.value(tree)
        keys = {name for entry in tree.elements if isinstance(entry, cst.DictElement) and (name := name_of(entry))}
        assert isinstance(value, Items)
        found: list[_Found] = []
        if not keys.isdisjoint(KNOWN_BY) and not keys.isdisjoint(PRECISIONS):
            details = {"config": value, "written": tree, "version": program.wanted("deepspeed")}
            found.append((EngineConfigured, tree, details))
        if tree is file.root and keys >= LAUNCHED_BY:
            found += _launch(tree, value)
        if len(keys & TRAINING_SETTINGS) > 1:
            found += _arguments(tree, value)
        for kind, node, more in found:
            if kind.kind in kinds:
                emit(kind(node=node, statement=file.chunks[0].module.body[0], **more))


def _launch(tree: cst.Dict, value: Items) -> Iterator[_Found]:
    """A configuration of `accelerate launch`."""
    named = find(tree, "deepspeed_config", DEEPSPEED_FILE)
    path = get(value, "deepspeed_config", DEEPSPEED_FILE)
    if named is None or path in (None, NONE, Const("none")) or get(value, "distributed_type") != Const("DEEPSPEED"):
        return
    for keys in (("mixed_precision",), *(("deepspeed_config", name) for name in LEFT_TO_FILE)):
        written = find(tree, *keys)
        if written is not None and get(value, *keys) not in (None, NONE):
            yield LaunchOverruled, written.key, {"setting": keys[-1], "file": named.key}


def _arguments(tree: cst.Dict, value: Items) -> Iterator[_Found]:
    """Arguments of Hugging Face's Trainer, with those of the model that it trains."""
    both = [find(tree, name) for name in PRECISIONS]
    if all(get(value, name) == TRUE for name in PRECISIONS) and both[0] is not None and both[1] is not None:
        first, second = sorted((entry.key for entry in both if entry is not None), key=lambda key: key.at)
        yield PrecisionTwice, second, {"other": first}
        return
    precision = next((name for name in PRECISIONS if get(value, name) == TRUE), None)
    switch = find(tree, precision) if precision is not None else None
    if precision is None or switch is None:
        return
    keys = {name for entry in tree.elements if isinstance(entry, cst.DictElement) and (name := name_of(entry))}
    adapted = not keys.isdisjoint(ADAPTED_BY) or any(name.startswith("lora_") for name in keys)
    for name in WEIGHTS_DTYPES:
        written, asked = find(tree, name), get(value, name)
        dtype = DTYPE_NAMES.get(str(asked.value)) if isinstance(asked, Const) else None
        if written is not None and dtype is not None and dtype != DTYPE_NAMES[precision]:
            details = {"precision": DTYPE_NAMES[precision], "cast": written.key, "adapted": adapted}
            yield HalvesMixed, switch.key, details
            return
