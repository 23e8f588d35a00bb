"""Symbol tables of files, and the names that their scopes bind."""

from __future__ import annotations

import symtable
import warnings
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Source

Table: TypeAlias = symtable.SymbolTable


@cached_per_file
def top_table(source: Source) -> Table | None:
    """The symbol table of the top level of a file, None if Python cannot make it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return symtable.symtable(source.text, source.filename, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@cached_per_file
def tables(source: Source) -> tuple[Table, ...]:
    """The symbol tables of all scopes of a file, the top level first; none if Python cannot make them."""
    top = top_table(source)
    found = [top] if top is not None else []
    for table in found:
        found += table.get_children()
    return tuple(found)


def table_of(source: Source, function: cst.FunctionDef) -> Table | None:
    """The symbol table of a function, None if another scope has its name and row."""
    return _by_place(source).get((function.name.value, getattr(function.at, "lineno", 0)))


@cached_per_file
def _by_place(source: Source) -> Mapping[tuple[str, int], Table | None]:
    found: dict[tuple[str, int], Table | None] = {}
    for table in tables(source):
        place = table.get_name(), table.get_lineno()
        found[place] = table if place not in found else None
    return found


@cached_per_file
def bound_names(source: Source) -> frozenset[str]:
    """The names of a file that its code binds: those of the top level, elsewhere those declared global."""
    return frozenset(name for table in tables(source) for name in _bound_in(table))


def _bound_in(table: Table) -> Iterator[str]:
    """The names of the file that its code binds in one scope.

    `SymbolTable.lookup` compares a name with those of all scopes within, so it is not asked for these.
    """
    module, names = table.get_type() == "module", set(table.get_identifiers())
    if module:
        defined = names.intersection(one.get_name() for one in table.get_children())
        yield from defined
        names -= defined
    for one in map(table.lookup, names):
        if (module or one.is_declared_global()) and (one.is_assigned() or one.is_imported() or one.is_namespace()):
            yield one.get_name()
