"""Models that a file is given: classes of what it imports by `*`, and those that files around it construct."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence, Set

from amplint.semantics.models.half_outputs import is_loss
from amplint.semantics.reading.options import options
from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk, Source
from amplint.source.tree import every
from amplint.training.bindings import bound_paths, called_name, constructor, matched, positional
from amplint.training.surroundings import cached_by_text, check_time, modules, whole_program

_FORWARD = re.compile(r"^[ \t]+def forward\(", re.MULTILINE)
_FORWARD_IN_BYTES = re.compile(_FORWARD.pattern.encode(), re.MULTILINE)
_IMPORTS_BY_NAME = frozenset({"import_module", "__import__"})
_MOST_FILES_OF_MODELS = 24
"""The limit of files with models among which a setting chooses: of more, it uses too few."""
_MOST_FILES = 60
"""The limit of files in a folder that are searched for importers."""
_MOST_CHOICES = 12
"""The limit of modules among which a run chooses one."""
_MOST_IMPORTERS = 4
"""The limit of files that import one: what more of them share is given too many models to tell of each."""


def is_model(chunk: Chunk) -> bool:
    """Whether a chunk is a class with a forward pass that is no loss by its name."""
    return chunk.is_class and _FORWARD.search(chunk.text) is not None and not is_loss(chunk.name or "")


def models_given(main: Source, names: Set[str]) -> Iterator[tuple[Program, Chunk]]:
    """The models that `main`, which constructs none, can be given, each with a program that reaches it.

    Of other objects, those that it calls by one of these `names`.
    """
    if not main.path:
        return
    program = whole_program(main)
    for module in filter(None, (*main.star_imports, *_imported_by_name(main))):
        behind = (
            modules().contents.source(place)
            if (place := modules().folders.place(main.path, module)) is not None
            else None
        )
        classes = [chunk for chunk in behind.chunks if is_model(chunk)] if behind is not None else []
        parts = {word for one in classes for word in one.words if word != one.name}
        for chunk in classes:
            if chunk.name not in parts:
                yield program if chunk in program.mentions else whole_program(chunk.source), chunk
    for asked in modules_asked(program):
        yield from ((whole_program(one.source), one) for one in _models_of(program, asked))
    waiting, seen = [*importers(main)], {main}
    waiting = waiting if len(waiting) <= _MOST_IMPORTERS else []
    constructs = False
    for source in waiting:
        check_time()
        seen.add(source)
        program = whole_program(source)
        calls = [call for chunk in source.chunks for call in every(chunk.module, cst.Call)]
        callees = {dotted(call.func) or "" for call in calls}
        made = {name.rpartition(".")[2] for name in _handed_over(source, main, calls, names)}
        for name in sorted(callees):
            target = program.resolve(source, name) if name else None
            last = name.rpartition(".")[2]
            if isinstance(target, Chunk) and target.source is not main and (is_model(target) or last in made):
                constructs |= is_model(target)
                yield program if target in program.mentions else whole_program(target.source), target
    for source in [] if constructs else waiting:
        for above in importers(source):
            if above not in seen:
                seen.add(above)
                program = whole_program(above)
                calls = [call for chunk in above.chunks for call in every(chunk.module, cst.Call)]
                targets = (program.resolve(above, dotted(call.func) or "") for call in calls)
                found = [one for one in dict.fromkeys(targets) if isinstance(one, Chunk)]
                found += [each for one in found if not one.is_class for each in program.mentions.get(one, ())]
                yield from ((program, one) for one in dict.fromkeys(found) if is_model(one))


def models_by_settings(main: Source) -> list[tuple[Program, Chunk]]:
    """The classes with a forward pass of the project, if a setting chooses modules by names and they are few."""
    found = list[tuple[Program, Chunk]]()
    for source in _by_settings(main, _FORWARD_IN_BYTES, _MOST_FILES_OF_MODELS):
        program = whole_program(source)
        found += ((program, one) for one in source.chunks if one.is_class and _FORWARD.search(one.text) is not None)
    return found


def models_in_reach(main: Source) -> list[tuple[Program, Chunk]]:
    """The models that code outside of models names, in what `main` and its importers reach, if they are few.

    Layers, of which models consist, are not among them.
    """
    if not main.path:
        return []
    around = [main, *itertools.islice(importers(main), _MOST_IMPORTERS)]
    programs = [whole_program(one) for one in around]
    sources = dict.fromkeys(source for program in programs for source in program.sources if source.path)
    chunks = [chunk for source in sources for chunk in source.chunks]
    models = [one for one in chunks if is_model(one)]
    named = {name for chunk in chunks if chunk not in models for name in _names_used(chunk)}
    named.update(name for one in around for name in one.imports)
    found = [one for one in models if one.name in named]
    found += (one for program in programs for asked in modules_asked(program) for one in _models_of(program, asked))
    found = [*dict.fromkeys(found)]
    return [(whole_program(one.source), one) for one in found] if len(found) <= _MOST_FILES_OF_MODELS else []


def _models_of(program: Program, module: Source) -> Iterator[Chunk]:
    """The models that a module defines or imports."""
    chosen = (*module.chunks, *(program.resolve(module, name) for name in module.imports))
    return (one for one in chosen if isinstance(one, Chunk) and is_model(one))


@cached_per_chunk
def _names_used(chunk: Chunk) -> Set[str]:
    """The names in a chunk besides those that it imports."""
    if chunk.name is not None:
        return chunk.words
    names = {one for line in every(chunk.module, cst.Import, cst.ImportFrom) for one in every(line, cst.Name)}
    return {one.value for one in every(chunk.module, cst.Name) if one not in names}


def methods_by_settings(main: Source, name: str) -> list[tuple[Chunk, cst.FunctionDef]]:
    """The methods of this name in the project, if a setting chooses modules by names and one file has them."""
    defines = re.compile(rb"^[ \t]+def %b\(" % re.escape(name.encode()), re.MULTILINE)
    chunks = [chunk for source in _by_settings(main, defines, 1) for chunk in source.chunks if chunk.is_class]
    functions = ((chunk, one) for chunk in chunks for one in every(chunk.module, cst.FunctionDef))
    return [(chunk, one) for chunk, one in functions if one.name.value == name]


def _by_settings(main: Source, pattern: re.Pattern[bytes], most: int) -> Iterator[Source]:
    """The files with this pattern, unless they are more than `most`, if a setting chooses modules by names."""
    sources = whole_program(main).sources if main.path else ()
    if not any(_IMPORTS_BY_NAME & chunk.words for one in sources for chunk in one.chunks):
        return
    paths = modules().mentions.scripts_with(os.path.abspath(main.path), pattern)
    for path in paths if len(paths) <= most else ():
        check_time()
        source = modules().contents.source(path)
        if source is not None:
            yield source


def modules_asked(program: Program) -> set[Source]:
    """The modules of which the file takes attributes by names that only a run knows."""
    asked = list[cst.CSTNode]()
    for chunk in program.main.chunks:
        calls = (one for one in every(chunk.module, cst.Call) if called_name(one) == "getattr")
        asked += (one.args[0].value for one in calls if one.args)
        asked += (one.value for one in every(chunk.module, cst.Attribute) if one.attr.value == "__dict__")
    targets = (program.resolve(program.main, name) for one in asked if (name := dotted(one)) is not None)
    return {one for one in targets if isinstance(one, Source)}


def _imported_by_name(main: Source) -> Iterator[str]:
    """The modules that `main` passes to `import_module()`, also as the default of an option."""
    for call in (one for chunk in main.chunks for one in every(chunk.module, cst.Call)):
        value = call.args[0].value if called_name(call) == "import_module" and call.args else None
        if isinstance(value, cst.SimpleString) and isinstance(value.evaluated_value, str):
            yield value.evaluated_value
        elif isinstance(value, cst.Attribute) and (option := options(main).get(value.attr.value)) is not None:
            yield option.default or ""
        elif value is not None:
            yield from _modules_of(main, call)


def _modules_of(main: Source, call: cst.Call) -> Iterator[str]:
    """The modules of the package in which `import_module()` looks for one whose name only a run knows."""
    strings = [one.evaluated_value for each in call.args for one in every(each, cst.SimpleString)]
    packages = [re.sub(r"%s|\{\w*\}", "", one).strip(".") for one in strings if isinstance(one, str)]
    for package in dict.fromkeys(filter(None, packages)):
        folder = os.path.join(os.path.dirname(os.path.abspath(main.path)), *package.split("."))
        yield from (
            f"{package}.{name.removesuffix('.py')}"
            for name in sorted(modules().folders.scripts(folder))[:_MOST_CHOICES]
        )


@cached_by_text
def gives_plain_losses(main: Source) -> bool:
    """Whether files that import `main` hand it losses, all of them PyTorch's."""
    found = set[bool]()
    for source in importers(main) if main.path else ():
        calls = [call for chunk in source.chunks for call in every(chunk.module, cst.Call)]
        for name in _handed_over(source, main, calls, None):
            root, last = name.partition(".")[0], name.rpartition(".")[2]
            if is_loss(last) or last.endswith("Loss"):
                target = whole_program(source).resolve(source, root)
                found.add(isinstance(target, str) and target.startswith("torch."))
    return found == {True}


def _handed_over(source: Source, main: Source, calls: Sequence[cst.Call], names: Set[str] | None) -> Iterator[str]:
    """The paths of functions and classes whose results `source` passes to what `main` defines.

    Where functions give their parameters `names`, for one of these.
    """
    own: dict[str, list[str]] = {chunk.name: [] for chunk in main.chunks if chunk.name}
    for function in (one for chunk in main.chunks for one in every(chunk.module, cst.FunctionDef)):
        own[function.name.value] = [one.name.value for one in positional(function)]
    given = (
        each for call in calls if (params := own.get(called_name(call))) is not None for each in _given(call, params)
    )
    values = [value for name, value in given if names is None or name is None or name in names]
    yield from (dotted(one.func) or "" for one in values if isinstance(one, cst.Call))
    passed = {dotted(one) for one in values}
    for assign in (one for chunk in source.chunks for one in every(chunk.module, cst.Assign)):
        chosen = assign.value.body if isinstance(assign.value, cst.IfExp) else assign.value
        made = constructor(chosen)
        if isinstance(made, cst.Call) and bound_paths(assign, whole=True) & passed:
            yield dotted(made.func) or ""


def _given(call: cst.Call, params: Sequence[str]) -> Iterator[tuple[str | None, cst.BaseExpression]]:
    """The arguments of `call`, each with the parameter that it is for, if a function by itself has it."""
    known = {one: name for name, one in matched(call, [] if params[:1] == ["self"] else params)}
    yield from ((known.get(one), one.value) for one in call.args)


def importers(main: Source, *, naming: str = "", most: int = _MOST_IMPORTERS) -> Iterator[Source]:
    """The files in the folder of `main`, and in the one above, that import it, also from its package; else others.

    They contain the text `naming`. After `most` of them one more is the last.
    """
    folder, found = os.path.dirname(os.path.abspath(main.path)), 0
    faces = {os.path.abspath(main.path)}
    package = modules().contents.source(os.path.join(folder, "__init__.py"))
    if package is not None and _imports(package, faces):
        faces.add(os.path.abspath(package.path))
    names = {os.path.basename(one).removesuffix(".py").replace("__init__", os.path.basename(folder)) for one in faces}
    named = b"|".join(re.escape(name.encode()) for name in sorted(names))
    says = re.compile(rb"^[ \t]*(?:from|import)\b[^\n]*\b(?:%b)\b" % named, re.MULTILINE)
    near = [one for one in (folder, os.path.dirname(folder)) if one in modules().folders.searched(folder)]
    ways = [
        [os.path.join(place, one) for one in sorted(modules().folders.scripts(place))[:_MOST_FILES]] for place in near
    ]
    for paths in (*ways, None):
        if paths is None and found:
            return
        for path in paths if paths is not None else modules().mentions.scripts_with(os.path.abspath(main.path), says):
            raw = modules().contents.raw(path) or b""
            if path in faces or says.search(raw) is None or naming.encode() not in raw:
                continue
            source = modules().contents.source(path)
            if source is not None and _imports(source, faces):
                found += 1
                yield source
            if found > most:
                return


def _imports(source: Source, faces: Set[str]) -> bool:
    """Whether `source` imports a file of `faces`, or something of it."""
    named = [(one.module, one.name) for one in source.imports.values()]
    asked = [*source.star_imports, *(module for module, _ in named), *(_joined(*one) for one in named if one[1])]
    places = (modules().folders.place(source.path, module) for module in asked)
    return any(place is not None and os.path.abspath(place) in faces for place in places)


def _joined(module: str, name: str) -> str:
    return f"{module}{'' if module.endswith('.') else '.'}{name}"
