"""Reachable code of the regions of a converted file, also in other files, that fails in half."""

from __future__ import annotations

import functools
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Set

from amplint.codemods import hazards, outputs
from amplint.codemods.bindings import called_name
from amplint.codemods.callables import called_names, is_of_data, live_functions
from amplint.codemods.completion import HARMLESS, all_findings
from amplint.codemods.conversion import Remark, Wish
from amplint.codemods.givers import is_model, models_given
from amplint.codemods.halves import halves_of, regions_of
from amplint.codemods.handed import models_run_on_half
from amplint.codemods.repairs import all_rules, findings_of, selected
from amplint.codemods.surroundings import modules
from amplint.codemods.training.observed import AT_HOME
from amplint.engine.modules import Lookups
from amplint.findings import Finding, Severity
from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import every

_IMPORTERS = frozenset({"import_module", "__import__"})
_DYNAMIC = frozenset({*_IMPORTERS, "getattr", "globals", "eval", "__dict__", "vars"})
"""Ways to call what no name tells."""
_OF_PLAIN_LAYERS = frozenset(
    {"einops", "efficientnet_pytorch", "pretrainedmodels", "pytorch_pretrained_bert", "pytorch_transformers"}
    | {"segmentation_models_pytorch", "transformers", "easydict", "edict", "omegaconf"}
)
"""Libraries whose layers are made of PyTorch's own, or that have none."""
_IN_THREADS = "with several GPUs this computes in float16, whatever the region says; use DistributedDataParallel"
_FORWARD = re.compile(r"^\s+def forward\(", re.MULTILINE)


def introduced_dtype(wish: Wish) -> str | None:
    """The half dtype that a conversion introduces; None if it introduces none."""
    if wish.source is not None:
        return "bfloat16" if wish.source == "float16" else None
    return {"amp": wish.dtype, "bfloat16": "bfloat16"}.get(wish.to or "")


def remarks(before: str, after: str, path: str, dtype: str, told: Iterable[Remark]) -> Iterator[Remark]:
    """Remarks on code in `after` that newly runs in `dtype`, by its rows.

    Findings in `before` without assumptions are left out, and so are rows of the file itself that were `told` already.
    """
    source = Source(path or "<text>", after, path)
    first = next(regions_of(source), None)
    if first is None:
        return
    program = Program(source, Lookups(modules(), source), whole=True)
    rows = {remark.row for remark in told}
    run, near = outputs.found(after, path), _rows_near_regions(source)

    def is_near(one: Finding) -> bool:
        row = one.span.start.row
        return row not in rows and one.severity is Severity.INFO and any(row in each for each in near)

    halves = halves_of(after, path)

    found = [one for one in all_findings(after, path) if is_near(one) and not outputs.is_refuted(one, run)]
    rules = all_rules()
    if any(_relative(other, source) for other in program.sources):
        found += [one for one in findings_of(rules, after, path, selected(), whole=True) if one.elsewhere]
    found += [one for one in run.findings if one.elsewhere or one.span.start.row not in rows]
    found += [one for one in run.assumed if one.elsewhere or is_near(one)]
    found = [
        one for one in found if outputs.can_happen(one, dtype) and one.name not in HARMLESS and halves.concern(one)
    ]
    known = {_place(one) for one in findings_of(rules, before, path, whole=True)}
    brought = {_place(one): _remark(one) for one in found if _place(one) not in known}
    row = source.span(first).start.row
    device = "cpu" if any('"cpu"' in source.code(item) for item in first.items) else "cuda"
    header = f"with torch.autocast({device!r}, dtype=torch.{dtype}):"
    names = called_names(source, regions_of(source))
    reached = list(_reached(program, names))
    modules_reached = [chunk for chunk in reached if chunk.is_class and _FORWARD.search(chunk.text)]
    run_here = _with_given(source, list(_made_of(program, modules_reached)))
    reached = list(dict.fromkeys((*reached, *run_here)))
    live = live_functions(reached, names)
    for chunk in run_here:
        for one in _findings_in(chunk, header, live):
            if outputs.can_happen(one, dtype) and one.name not in HARMLESS:
                name, there = _relative(chunk.source, source), one.span.start.row
                if (chunk.source.path, there) in run.wide:
                    continue
                place = (one.code, name, there if name else one.message)
                remark = Remark(row, f"{name}:{there}: {one.message} ({one.code})") if name else _remark(one)
                if name or (there not in rows and place not in known):
                    brought.setdefault(place, remark)
    for loss in run.losses:
        if loss.why and dtype in loss.dtypes:
            name = os.path.relpath(loss.path, os.path.dirname(path)) if loss.path != source.path else ""
            text = f"{name}:{loss.row}: {loss.why}" if name else loss.why
            brought.setdefault((loss.path, loss.row), Remark(row if name else loss.row, text))
    yield from brought.values()
    yield from _unread(source)
    yield from _foreign_layers(run_here, source, row)
    yield from models_run_on_half(program, regions_of(source))
    if dtype == "bfloat16" and device == "cuda":
        yield from _replicated(program, row)
    said = set[tuple[str, str]]()
    with_regions = (chunk for chunk in source.chunks if "autocast" in chunk.words)
    for chunk in dict.fromkeys((*with_regions, *reached)):
        name = _relative(chunk.source, source)
        is_wide = functools.partial(_is_wide, run, chunk)
        rows_live = None if chunk.source is source or not live else _rows_of(chunk, live)
        for node, why in hazards.of(chunk, dtype, sparse=bool(name), is_wide=is_wide):
            there = chunk.span(node).start.row
            if rows_live is not None and not any(there in each for each in rows_live):
                continue
            if not name or (name, why) not in said:
                yield Remark(row, f"{name}:{there}: {why}") if name else Remark(there, why)
            said.add((name, why))


def _with_given(source: Source, chunks: list[Chunk]) -> list[Chunk]:
    """`chunks`, and if none of them is a model, what those are made of that the file is given."""
    if any(map(is_model, chunks)):
        return chunks
    given = (one for other, chunk in models_given(source) for one in _made_of(other, [chunk]))
    return list(dict.fromkeys((*chunks, *given)))


def _foreign_layers(chunks: Iterable[Chunk], main: Source, row: int) -> Iterator[Remark]:
    """Remarks on layers of other libraries in models of other files, one for each library of a file."""
    told = set[tuple[str, str]]()
    for chunk in chunks:
        for assign in every(chunk.module, cst.Assign) if is_model(chunk) and chunk.source is not main else ():
            for call in every(assign.value, cst.Call):
                name = dotted(call.func) or ""
                one = chunk.source.imports.get(name.partition(".")[0])
                library = one.module.partition(".")[0] if one is not None else ""
                outside = library and library not in AT_HOME | _OF_PLAIN_LAYERS
                if one is None or not outside or modules().place(chunk.source.path, one.module) is not None:
                    continue
                if name.rpartition(".")[2][:1].isupper() and (chunk.source.path, library) not in told:
                    told.add((chunk.source.path, library))
                    where = f"{_relative(chunk.source, main)}:{chunk.span(call).start.row}"
                    yield Remark(row, f"{where}: {name} of {library} can be given half tensors; see that it takes them")


def _unread(source: Source) -> Iterator[Remark]:
    """A remark on the first dynamic import of the file."""
    calls = (one for chunk in source.chunks if _IMPORTERS & chunk.words for one in every(chunk.module, cst.Call))
    call = next((one for one in calls if called_name(one) in _IMPORTERS), None)
    if call is not None:
        why = "what is imported here is known to a run alone; see what of it runs in the regions"
        yield Remark(source.span(call).start.row, why)


def _replicated(program: Program, row: int) -> Iterator[Remark]:
    """A remark on the first model replicated in threads, whose autocast regions have the default dtype.

    One of another file, or that `.module` alone shows, is told at `row`. Source: torch/nn/parallel/parallel_apply.py of
    PyTorch 2.13, which passes on whether autocast is on, but no dtype.
    """
    source = program.main
    distributed = any("DistributedDataParallel" in chunk.words for chunk in source.chunks)
    for chunk in source.chunks if distributed else program.chunks:
        for node in every(chunk.module, cst.Name) if "DataParallel" in chunk.words else ():
            if node.value == "DataParallel" and not isinstance(chunk.source.parent(node), cst.ImportAlias):
                there, name = chunk.span(node).start.row, _relative(chunk.source, source)
                yield Remark(row, f"{name}:{there}: {_IN_THREADS}") if name else Remark(there, _IN_THREADS)
                return
    if not any("DistributedDataParallel" in chunk.words for chunk in program.chunks):
        modules = (one for chunk in source.chunks for one in every(chunk.module, cst.Attribute))
        wrapped = next((one for one in modules if one.attr.value == "module" and dotted(one)), None)
        if wrapped is not None:
            yield Remark(source.span(wrapped).start.row, f"if this model is in nn.DataParallel, {_IN_THREADS}")


def _is_wide(run: outputs.Found, chunk: Chunk, node: cst.CSTNode) -> bool:
    return (chunk.source.path, chunk.span(node).start.row) in run.wide


def _findings_in(chunk: Chunk, header: str, live: Set[cst.FunctionDef]) -> list[Finding]:
    """The findings in the `live` functions of a chunk that run below `header`, which enters autocast."""
    found, rows = _assumed_findings(chunk.source.text, chunk.source.path, header), _rows_of(chunk, live)
    return [one for one in found if any(one.span.start.row in run for run in rows)]


@functools.lru_cache(maxsize=64)
def _assumed_findings(text: str, path: str, header: str) -> list[Finding]:
    """The findings in a file whose public code is called below `header`, with tensors of any dtype."""
    source = Source(path, text, path)
    calls = []
    for chunk in source.chunks:
        if chunk.is_class and _FORWARD.search(chunk.text):
            calls.append(f"    {chunk.name}(*arguments)(*arguments)")
        elif (
            chunk.name
            and not chunk.is_class
            and not any(chunk.name in one.words for one in source.chunks if one is not chunk and one.name)
        ):
            calls.append(f"    {chunk.name}(*arguments)")
    rules = tuple(rule for rule in all_rules() if rule.assumed)
    called = "\n".join((text, "import torch", header, *calls, ""))
    return findings_of(rules, called, path, frozenset(rule.code for rule in rules), inside=True)


def _rows_of(chunk: Chunk, functions: Set[cst.FunctionDef]) -> list[range]:
    """The rows of those `functions` that stand in a chunk."""
    spans = [chunk.span(one) for one in every(chunk.module, cst.FunctionDef) if one in functions]
    return [range(span.start.row, span.end.row + 1) for span in spans]


def _reached(program: Program, names: Set[str]) -> Iterator[Chunk]:
    """The chunks of these `names`, and those that they name, except for classes of data."""
    source = program.main
    every_name = not names.isdisjoint(_DYNAMIC)
    named = (one for chunk in source.chunks for one in program.mentions[chunk] if every_name or one.name in names)
    for chunk in _made_of(program, dict.fromkeys(named)):
        if chunk.source is not source or every_name or chunk.name in names:
            yield chunk


def _made_of(program: Program, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """`chunks` and all chunks reachable from them by name."""
    waiting, seen = deque(chunks), set[Chunk]()
    while waiting:
        chunk = waiting.popleft()
        if chunk not in seen and not any(map(is_of_data, chunk.module.body if chunk.is_class else ())):
            seen.add(chunk)
            waiting += program.mentions.get(chunk, ())
            yield chunk


def _rows_near_regions(source: Source) -> list[range]:
    """The rows of functions that contain a region or are called in one, each as a range."""
    regions = list(regions_of(source))
    around = [one for region in regions for one in source.ancestors(region) if isinstance(one, cst.FunctionDef)]
    spans = [source.span(one) for one in (*around, *_called(source, regions))]
    return [range(span.start.row, span.end.row + 1) for span in spans]


def _called(source: Source, regions: Iterable[cst.CSTNode]) -> Iterator[cst.FunctionDef]:
    """The functions of the file called in `regions`, transitively."""
    functions = {
        one.name.value: one for chunk in source.chunks for one in chunk.module.body if isinstance(one, cst.FunctionDef)
    }
    waiting = deque(regions)
    while waiting:
        for call in every(waiting.popleft(), cst.Call):
            function = functions.pop(call.func.value, None) if isinstance(call.func, cst.Name) else None
            if function is not None:
                waiting.append(function.body)
                yield function


def _remark(finding: Finding) -> Remark:
    there = finding.elsewhere
    where = "in the result, " if there is None else f"{there.filename}:{there.span.start.row}: "
    return Remark(finding.span.start.row, f"{where}{finding.message} ({finding.code})")


def _place(finding: Finding) -> tuple[object, ...]:
    """The identity of a finding, independent of its row in the file itself."""
    if finding.elsewhere is None:
        return finding.code, "", finding.message
    return finding.code, finding.elsewhere.filename, finding.elsewhere.span.start.row


def _relative(source: Source, main: Source) -> str:
    """The path of a file relative to the folder of `main`, empty for that itself and for text in no file."""
    if source is main or not source.path:
        return ""
    return os.path.relpath(source.path, os.path.dirname(main.path))
