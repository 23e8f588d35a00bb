"""Reachable code of the regions of a converted file, also in other files, that fails in half."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from amplint.codemods import outputs
from amplint.codemods.completion import is_harmless
from amplint.codemods.conversion import Cure, Remark, Wish
from amplint.codemods.islands import literal_device, losses_of_models
from amplint.codemods.mending import (
    as_cures,
    in_float32,
    of_array,
    of_finding,
    of_kernel,
    of_product,
    of_rounding,
    of_sigmoids,
    of_write,
    remark_on,
)
from amplint.codemods.model_arguments import kernels_run_on_half, models_run_on_half
from amplint.codemods.repairs import all_rules, findings_of, lint, selected
from amplint.findings import Finding, Severity, Span
from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import every
from amplint.training import hazards, sigmoids
from amplint.training.bindings import positional
from amplint.training.callables import called_names, live_functions
from amplint.training.givers import is_model, methods_by_settings, models_by_settings, models_given
from amplint.training.halves import ABOUT_HALF, Callee, Halves, halves_of, regions_of
from amplint.training.outgoing import is_of_data_at
from amplint.training.parallel import replicated
from amplint.training.reached import computes_with_numpy, first_lstms, kernels, kernels_of_libraries, made_of
from amplint.training.reached import reached as reached_by
from amplint.training.script import parsed
from amplint.training.surroundings import cached_by_text, whole_program
from amplint.training.writes import rounded, writes

_TWO_DTYPES = "outside of a region this product raises if one operand is half and the other float32; cast one of them"
_TWO_DTYPES_WRITTEN = "this raises if the tensor is float32 and what is written is half, or the other way round"
_ROUNDED = "float32 is put into a tensor made like one that may be half, with its three digits or two; make it float32"
_NO_ARRAY = {
    "float16": "this library raises for NumPy arrays of float16; convert to float32 before",
    "bfloat16": "what is bfloat16 raises here, since NumPy has no such type; convert it to float32 before",
}
_BY_SETTINGS = (
    "settings choose the model here: every class with a forward pass in the project is taken for a part of it"
)
_IN_THREADS = "with several GPUs this computes in float16, whatever the region says; use DistributedDataParallel"
_OF_KERNELS = "may have no kernel for half; let custom_fwd(cast_inputs=torch.float32) convert what forward() is given"
_RECURRENT = "an LSTM in float16 raises on CPUs for which oneDNN has no kernel of it; compute it in bfloat16 there"
_CALLS = 3
"""The number of calls through which values for NumPy are followed in other files."""
_CALL = re.compile(r"^[ \t]+def (?:forward|__call__)\(", re.MULTILINE)


def introduced_dtype(wish: Wish) -> str | None:
    """The half dtype that a conversion introduces; None if it introduces none."""
    if wish.source is not None:
        return "bfloat16" if wish.source == "float16" else None
    return {"amp": wish.dtype, "bfloat16": "bfloat16"}.get(wish.to or "")


def remarks(before: str, after: str, path: str, dtype: str, reported: Iterable[Remark]) -> Iterator[Remark]:
    """Remarks on code in `after` that newly runs in `dtype`, by its rows.

    Findings in `before` without assumptions are left out, and so are `reported` rows of the file itself.
    """
    source = parsed(after, path).source
    first = next(regions_of(source), None)
    if first is None:
        return
    program = whole_program(source)
    rows = {remark.row for remark in reported}
    run, halves = outputs.found(after, path), halves_of(after, path)
    near = _rows_near_regions(halves)

    def is_near(one: Finding) -> bool:
        row = one.span.start.row
        return row not in rows and one.severity is Severity.INFO and (one.name in ABOUT_HALF or row in near)

    found = [one for one in lint(after, path) if is_near(one) and not outputs.is_refuted(one, run)]
    if any(_relative(other, source) for other in program.sources):
        found += [one for one in findings_of(all_rules(), after, path, selected(), whole=True) if one.elsewhere]
    found += [one for one in run.findings if one.elsewhere or one.span.start.row not in rows]
    found += [one for one in run.assumed if one.elsewhere or is_near(one)]
    found = [
        one for one in found if outputs.can_happen(one, dtype) and not is_harmless(one, source) and halves.concern(one)
    ]
    names = called_names(source, regions_of(source))
    found = [one for one in found if not _is_behind_regions(one, source, names)]

    @functools.cache
    def known() -> set[tuple[object, ...]]:
        return {_place(one) for one in findings_of(all_rules(), before, path, whole=True)}

    row, spelled = source.span(first).start.row, literal_device(source)
    brought = {_place(one): remark_on(one, program, spelled) for one in found if _place(one) not in known()}
    device = "cpu" if any('"cpu"' in source.code(item) for item in first.items) else "cuda"
    header = f"with torch.autocast({device!r}, dtype=torch.{dtype}):"
    reached = list(reached_by(program, names))
    modules_reached = [chunk for chunk in reached if chunk.is_class and "def forward(" in chunk.text]
    run_here = dict.fromkeys(made_of(program, modules_reached))
    seen = any(map(is_model, run_here))
    given = [(other, chunk) for other, chunk in models_given(source, names) if not seen or not is_model(chunk)]
    if not seen and not any(is_model(chunk) for _, chunk in given) and (chosen := models_by_settings(source)):
        given += chosen
        yield Remark(row, _BY_SETTINGS)
    run_here |= dict.fromkeys(one for other, chunk in given for one in made_of(other, [chunk]))
    run_here = {chunk: None for chunk in run_here if not computes_with_numpy(chunk.source)}
    reached = [chunk for chunk in reached if not computes_with_numpy(chunk.source)]
    with_regions = (chunk for chunk in source.chunks if "autocast" in chunk.words)
    reached = list(dict.fromkeys((*with_regions, *reached, *run_here)))
    live = live_functions(reached, names | {chunk.name or "" for _, chunk in given})
    for chunk in run_here:
        for one in _findings_in(chunk, header, live, names, run):
            if outputs.can_happen(one, dtype) and not is_harmless(one, source):
                name, there = _relative(chunk.source, source), one.span.start.row
                if (chunk.source.path, there) in run.wide:
                    continue
                place = (one.code, name, there if name else one.message)
                remark = remark_on(one, program, spelled)
                if name:
                    text = f"{name}:{there}: {one.message} ({one.code})"
                    fix = of_finding(chunk.source, one, spelled, assumed=True)
                    remark = Remark(row, text, cures=as_cures(chunk.source, fix))
                if name or (there not in rows and place not in known()):
                    brought.setdefault(place, remark)
    brought |= {place: remark for place, remark in _lost(run, program, dtype, row) if place not in brought}
    models = [chunk for chunk in run_here if is_model(chunk)]
    narrow = tuple(cure for chunk in models for cure in as_cures(chunk.source, of_sigmoids(chunk, spelled)))
    told = [*brought.values()]
    told += (Remark(source.span(call).start.row, outputs.SATURATED) for call in losses_of_models(source))
    wide = not narrow and any(map(sigmoids.returns_wide, models))
    yield from (_with_sigmoids(one, narrow) for one in told if not (wide and one.text.endswith(outputs.SATURATED)))
    yield from (Remark(one, _TWO_DTYPES) for one in halves.products() if one not in rows)
    yield from _kernels(program, run_here, row)
    yield from _kernels_of_libraries(program, [*reached, *run_here], row)
    yield from models_run_on_half(program, halves)
    yield from kernels_run_on_half(program, halves)
    for_device = {("bfloat16", "cuda"): _replicated, ("float16", "cpu"): _recurrent}.get((dtype, device))
    yield from for_device(program, reached, row) if for_device is not None else ()
    reported_here = rows | {one.row for one in brought.values()}
    yield from _arrays(program, run, reported_here, dtype)
    sparse = not any(map(hazards.multiplies_sparse, reached))
    for chunk in reached:
        places = {(one.row, *one.text.split(": ")[:1]) for one in told}
        dangers = [*_hazards(chunk, source, dtype, row, run, _rows_of(chunk, live), sparse=sparse)]
        dangers += _writes(chunk, source, row, _rows_of(chunk, live))
        fresh = (one for one in dangers if one.cures or (one.row, *one.text.split(": ")[:1]) not in places)
        yield from (_with_sigmoids(one, narrow) for one in fresh)


def _is_behind_regions(finding: Finding, source: Source, names: Set[str]) -> bool:
    """Whether a finding takes for granted that a caller of the file has a region, and no region calls its function."""
    row = finding.span.start.row
    if finding.name != "bce-in-autocast" or finding.elsewhere is not None or finding.severity is not Severity.INFO:
        return False
    functions = (one for chunk in source.chunks_at(row) for one in every(chunk.module, cst.FunctionDef))
    around = (one for one in functions if source.span(one).start.row <= row <= source.span(one).end.row)
    return not any(one.name.value in names for one in around)


def _with_sigmoids(remark: Remark, narrow: tuple[Cure, ...]) -> Remark:
    """`remark`, with the cures of sigmoids in half if it is about a loss of probabilities that can be cured."""
    raises = bool(remark.cures) and remark.text.endswith(hazards.PROBABILITIES)
    if not raises and not remark.text.endswith(outputs.SATURATED):
        return remark
    return replace(remark, cures=(*remark.cures, *narrow))


def _lost(run: outputs.Found, program: Program, dtype: str, row: int) -> Iterator[tuple[tuple[object, ...], Remark]]:
    """Remarks on losses of precision in `dtype`, by their places."""
    for loss in run.losses:
        if dtype in loss.dtypes:
            home = next((one for one in program.sources if one.path == loss.path), program.main)
            name = _relative(home, program.main)
            text = f"{name}:{loss.row}: {loss.why}" if name else loss.why
            fix = of_product(home, loss.product, literal_device(program.main)) if loss.product is not None else None
            yield (loss.path, loss.row), Remark(row if name else loss.row, text, cures=as_cures(home, fix))


def _arrays(program: Program, run: outputs.Found, reported: Set[int], dtype: str) -> Iterator[Remark]:
    """Remarks on values for NumPy that may be bfloat16, in the file and in the functions of others that it calls.

    In float16, on arrays for libraries that raise for it. What the interpretation knows is told by the rule about it.
    """
    main, made = program.main, list[Cure]()
    if dtype == "float16":
        made += (cure for one in _arrays(program, run, reported, "bfloat16") for cure in one.cures)
    halves = halves_of(main.text, main.path, arrays=dtype == "float16")
    for span in halves.to_arrays():
        if span not in run.decided and span.start.row not in reported:
            cures = (*made, *(as_cures(main, of_array(main, span, of_region=True)) if dtype == "bfloat16" else ()))
            yield Remark(span.start.row, _NO_ARRAY[dtype], cures=cures)
    functions: dict[str, list[tuple[Chunk, cst.FunctionDef]]] = {}
    for chunk in program.chunks if halves.leaving else ():
        for function in every(chunk.module, cst.FunctionDef) if chunk.source is not main else ():
            functions.setdefault(function.name.value, []).append((chunk, function))
    for callee, (row, places) in halves.leaving.items():
        if row in reported:
            continue
        name, classes = callee
        if name not in functions and not classes and (chosen := methods_by_settings(main, name)):
            functions[name] = chosen
        if name not in functions and name in halves.on_cpu and dtype == "bfloat16":
            yield Remark(row, f"{name}() is given what may be bfloat16; NumPy, if it comes to that, has no such type")
        found = _arrays_of(functions, callee, places, dtype, _CALLS)
        if found is not None:
            home, spans = found
            casts = (of_array(home, span, of_region=False) for span in spans) if dtype == "bfloat16" else ()
            text = f"{_relative(home, main)}:{spans[0].start.row}: {_NO_ARRAY[dtype]}"
            yield Remark(row, text, cures=(*made, *as_cures(home, *casts)))


def _arrays_of(
    functions: Mapping[str, Sequence[tuple[Chunk, cst.FunctionDef]]],
    callee: Callee,
    places: Set[str],
    dtype: str,
    depth: int,
) -> tuple[Source, list[Span]] | None:
    """Where a function, the only one of its name or class, makes arrays of what it gets at `places`: file and places.

    In float16, where it hands arrays to a library that raises for them. What it hands on is followed through `depth`
    calls.
    """
    name, classes = callee
    there = [one for one in functions.get(name, ()) if not classes or one[0].name in classes]
    for chunk, function in there if depth and (classes or len(there) == 1) else ():
        params = [one.name.value for one in positional(function) if one.name.value not in ("self", "cls")]
        numbered = [one.partition("[") for one in places]
        given = {
            (params[int(one)] if one.isdigit() else one) + bracket + element
            for one, bracket, element in numbered
            if not one.isdigit() or int(one) < len(params)
        }
        halves = Halves(chunk.source, (), {function: given}, arrays=dtype == "float16")
        spans = list(halves.to_arrays())
        if spans:
            return chunk.source, spans
        leaving = halves.leaving.items()
        further = (_arrays_of(functions, one, receivers, dtype, depth - 1) for one, (_, receivers) in leaving)
        found = next((one for one in further if one is not None), None)
        if found is not None:
            return found
    return None


def _hazards(
    chunk: Chunk,
    main: Source,
    dtype: str,
    row: int,
    run: outputs.Found,
    live: list[range],
    *,
    sparse: bool,
) -> Iterator[Remark]:
    """Remarks on the hazards in a chunk that run in a region of the file, one of a kind for each other file."""
    name, device = _relative(chunk.source, main), literal_device(main)
    halves = halves_of(main.text, main.path)
    is_wide = functools.partial(_is_wide, run, chunk)
    told: dict[object, Remark] = {}
    together: list[cst.CSTNode] = []
    for node, why, cured in hazards.of(
        chunk, dtype, sparse=sparse and bool(name), on_cpu=(device or "").strip("'\"") == "cpu", is_wide=is_wide
    ):
        span = chunk.span(node)
        if not name and why == hazards.PROBABILITIES:  # which a rule reports
            continue
        if any(span.start.row in each for each in live) or (not name and halves.reaches(span)):
            fix = in_float32(chunk.source, cured, device) if cured else None
            together += cured if fix is not None else ()
            text = f"{name}:{span.start.row}: {why}" if name else why
            stops = why.endswith(hazards.UNSCALED)
            first = told.setdefault(why if name else span, Remark(row if name else span.start.row, text, stops=stops))
            told[why if name else span] = replace(first, cures=(*first.cures, *as_cures(chunk.source, fix)))
    fix = in_float32(chunk.source, dict.fromkeys(together), device) if together else None
    for remark in told.values():
        yield replace(remark, cures=as_cures(chunk.source, fix)) if fix is not None and remark.cures else remark


def _writes(chunk: Chunk, main: Source, row: int, live: list[range]) -> Iterator[Remark]:
    """Remarks on writes of two dtypes that run in a region of the file."""
    name, halves = _relative(chunk.source, main), halves_of(main.text, main.path)
    found = [(one, _TWO_DTYPES_WRITTEN, of_write(chunk.source, one, literal_device(main))) for one in writes(chunk)]
    found += [(one, _ROUNDED, of_rounding(chunk.source, one)) for one in rounded(chunk)]
    for write, why, fix in found:
        span = chunk.span(write.node)
        if any(span.start.row in each for each in live) if name else halves.is_inside(write.node):
            text = f"{name}:{span.start.row}: {why}" if name else why
            yield Remark(row if name else span.start.row, text, cures=as_cures(chunk.source, fix))


def _kernels(program: Program, chunks: Iterable[Chunk], row: int) -> Iterator[Remark]:
    """Remarks on functions with a backward pass of their own, in other files, that pass half tensors to unseen code."""
    for chunk, node in kernels(program, (one for one in chunks if "custom_fwd" not in one.words)):
        home = chunk.source
        cures = as_cures(home, of_kernel(home, chunk.module, literal_device(program.main)))
        place = f"{_relative(home, program.main)}:{home.span(node).start.row}"
        yield Remark(row, f"{place}: {dotted(node)}() {_OF_KERNELS}", cures=cures)


def _kernels_of_libraries(program: Program, chunks: Iterable[Chunk], row: int) -> Iterator[Remark]:
    """A remark on the first use of each library whose kernels take no half."""
    for chunk, node, library in kernels_of_libraries(chunks):
        text = f"kernels of {library} take float32 alone; cast what they are given"
        yield _placed(program, chunk.source, node, row, text)


def _recurrent(program: Program, chunks: Iterable[Chunk], row: int) -> Iterator[Remark]:
    """A remark for each file on the first LSTM that `chunks` make."""
    yield from (_placed(program, chunk.source, call, row, _RECURRENT) for chunk, call in first_lstms(program, chunks))


def _replicated(program: Program, _: Iterable[Chunk], row: int) -> Iterator[Remark]:
    """A remark on the first model replicated in threads, by its row, or at `row` if it is one of another file."""
    found = replicated(program)
    if found is not None:
        source, node, certain = found
        text = _IN_THREADS if certain else f"if this model is in nn.DataParallel, {_IN_THREADS}"
        yield _placed(program, source, node, row, text)


def _placed(program: Program, source: Source, node: cst.CSTNode, row: int, text: str) -> Remark:
    """A remark on `node` by its row, or at `row` if it is of another file."""
    there, name = source.span(node).start.row, _relative(source, program.main)
    return Remark(row, f"{name}:{there}: {text}") if name else Remark(there, text)


def _is_wide(run: outputs.Found, chunk: Chunk, node: cst.CSTNode) -> bool:
    return (chunk.source.path, chunk.span(node).start.row) in run.wide


def _rows_of(chunk: Chunk, functions: Set[cst.FunctionDef]) -> list[range]:
    """The rows of those `functions` that stand in a chunk."""
    spans = [chunk.span(one) for one in every(chunk.module, cst.FunctionDef) if one in functions]
    return [range(span.start.row, span.end.row + 1) for span in spans]


def _findings_in(
    chunk: Chunk, header: str, live: Set[cst.FunctionDef], names: Set[str], run: outputs.Found
) -> list[Finding]:
    """The findings in the `live` functions of a chunk that run below `header`, which enters autocast and calls `names`.

    A constructor runs before the region; what it stores is reported where `forward` uses it. Nothing is assumed of what
    `run` knows not to be half.
    """
    rows = _rows_of(chunk, {one for one in live if one.name.value != "__init__"})
    path = chunk.source.path
    methods = {one.name.value for one in every(chunk.module, cst.FunctionDef)} if chunk.is_class else set[str]()
    found = _assumed_findings(chunk.source.text, path, header, frozenset(methods & names)) if rows else []
    found = [one for one in found if (path, one.span.start.row) not in run.inside]
    found = [one for one in found if any(one.span.start.row in each for each in rows)]
    return [one for one in found if one.name != "bfloat16-to-numpy" or not is_of_data_at(chunk, one.span)]


@cached_by_text
def _assumed_findings(text: str, path: str, header: str, methods: frozenset[str]) -> list[Finding]:
    """The findings in a file whose public code, `methods` too, is called below `header`, with tensors of any dtype."""
    source = Source(path, text, path)
    calls = []
    for chunk in source.chunks:
        if chunk.is_class and _CALL.search(chunk.text):
            calls.append(f"    {chunk.name}(*arguments)(*arguments)")
            own = {one.name.value for one in every(chunk.module, cst.FunctionDef)}
            calls += (f"    {chunk.name}(*arguments).{one}(*arguments)" for one in sorted(own & methods))
        elif (
            chunk.name
            and not chunk.is_class
            and not any(chunk.name in one.words for one in source.chunks if one is not chunk and one.name)
        ):
            calls.append(f"    {chunk.name}(*arguments)")
    rules = tuple(rule for rule in all_rules() if rule.assumed and rule.code in selected())
    called = "\n".join((text, "import torch", header, *calls, ""))
    return findings_of(rules, called, path, frozenset(rule.code for rule in rules), inside=True)


def _rows_near_regions(halves: Halves) -> set[int]:
    """The rows of functions that contain a region or run in one."""
    around = (one for region in regions_of(halves.source) for one in halves.source.ancestors(region))
    homes = (one for one in around if isinstance(one, cst.FunctionDef))
    spans = [halves.source.span(one) for one in (*homes, *halves.inside)]
    return {row for span in spans for row in range(span.start.row, span.end.row + 1)}


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
