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
    MODEL_SECTION,
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
            found += _arguments(tree, value, file.root)
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


def _arguments(tree: cst.Dict, value: Items, root: cst.CSTNode) -> Iterator[_Found]:
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
    adapted = _adapts(tree)
    beside = [entry for name in WEIGHTS_DTYPES if (entry := find(tree, name)) is not None]
    if not beside:
        beside, adapted = _of_models(root), any(map(_adapts, dictionaries(root)))
        beside = beside if len(beside) == 1 else []
    for written in beside:
        asked = written.value
        dtype = DTYPE_NAMES.get(str(asked.evaluated_value)) if isinstance(asked, cst.SimpleString) else None
        if dtype is not None and dtype != DTYPE_NAMES[precision]:
            details = {"precision": DTYPE_NAMES[precision], "cast": written.key, "adapted": adapted}
            yield HalvesMixed, switch.key, details
            return


def _adapts(tree: cst.Dict) -> bool:
    """Whether settings ask for adapters or quantized weights."""
    keys = {name for entry in tree.elements if isinstance(entry, cst.DictElement) and (name := name_of(entry))}
    return not keys.isdisjoint(ADAPTED_BY) or any(name.startswith("lora_") for name in keys)


def _of_models(root: cst.CSTNode) -> list[cst.DictElement]:
    """The dtypes of weights in the sections of a file that are about a model."""
    sections = [
        entry.value
        for tree in dictionaries(root)
        for entry in tree.elements
        if isinstance(entry, cst.DictElement) and (name_of(entry) or "").startswith(MODEL_SECTION)
    ]
    return [entry for section in sections for name in WEIGHTS_DTYPES if (entry := find(section, name)) is not None]
