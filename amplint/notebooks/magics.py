"""IPython lines of a cell, and the code that replaces them during linting."""

from __future__ import annotations

from collections.abc import Callable

from amplint.notebooks.hidden import with_ends
from amplint.notebooks.validity import parses
from amplint.regex import regex
from amplint.source.layout import Layout
from amplint.source.source import NEWLINE

TRANSPARENT = frozenset({"time", "timeit", "capture", "prun", "debug", "memit", "wandb", "ipytest", "pyinstrument"})
"""Cell magics that run the rest of the cell as Python in the notebook's own namespace."""

KNOWN = TRANSPARENT | {
    "aimport", "alias", "autoawait", "autocall", "autoreload", "bash", "bookmark", "cat", "cd", "clear", "colors",
    "conda", "config", "cp", "dhist", "dirs", "doctest_mode", "ed", "edit", "env", "file", "gui", "hist", "history",
    "html", "javascript", "js", "killbgscripts", "latex", "ldir", "less", "lf", "lk", "ll", "load", "load_ext",
    "loadpy", "logoff", "logon", "logstart", "ls", "lsmagic", "lx", "macro", "magic", "mamba", "man", "markdown",
    "matplotlib", "micromamba", "mkdir", "more", "mprun", "lprun", "mv", "notebook", "page", "pastebin", "pdb",
    "pdef", "pdoc", "perl", "pfile", "pinfo", "pinfo2", "pip", "popd", "pprint", "precision", "psearch", "psource",
    "pushd", "pwd", "pycat", "pylab", "python", "python3", "recall", "rehashx", "reload_ext", "rep", "rerun",
    "reset", "reset_selective", "rm", "rmdir", "ruby", "run", "save", "sc", "script", "set_env", "sh", "shell",
    "store", "svg", "sx", "system", "tb", "tensorboard", "unalias", "unload_ext", "uv", "watermark", "who",
    "who_ls", "whos", "writefile", "xdel", "xmode",
}  # fmt: skip
"""Magics of IPython and of common extensions."""

Hide = Callable[[str, str], str]
"""Takes a row and what is to stand for it, and gives that back with a sign by which it is known again."""

_MAGIC = regex(r"[ \t]*(?:%%?(?P<name>[A-Za-z_]\w*)|!(?!=)|(?P<rare>\?\??[ \t]*[%\w]|/[A-Za-z_]|[,;][A-Za-z_]))")
_ASSIGNED = regex(r"(?P<target>[ \t]*[A-Za-z_][\w., \t*]*)=[ \t]*(?:!(?!=)|%(?P<name>[A-Za-z_]\w*))")
_HELP = regex(r"[ \t]*%{0,2}[A-Za-z_*][\w*.\[\]'\"]*\?\??[ \t;]*")
_TIMED = regex(r"(?P<indent>[ \t]*)%time(?P<code>[ \t]+(?!-).+)")
_CELL_MAGIC = regex(r"%%(?P<name>\w*)")
_UNMARKED = regex(r"(?P<name>[A-Za-z_]\w*)(?=[ \t])")
_PROMPT = regex(r"[ \t]*(?:>>> |In \[\d*\]: )")
_PIECE = regex(r"#[^\r\n]*|\\(?:\r\n|[\s\S])|\"\"\"|'''|[\"'()\[\]{}]|\r\n|\r|\n")


def masked(text: str, hide: Hide, *, script: bool = False) -> str:
    """The cell `text` with IPython lines replaced by code or comments, row by row.

    Python code that a magic runs in the notebook's namespace is kept; the rows of a cell magic with another language
    become comments. In a `script` only `!` and known magics are replaced.
    """
    lines = NEWLINE.split(text)
    layout = Layout(text)
    row = next(
        (row for row, line in enumerate(lines) if (bare := line.strip()) and not bare.startswith("#")), len(lines)
    )
    opening = _CELL_MAGIC.match(lines[row]) if row < len(lines) else None
    taken = range(row, row)
    last = len(lines) - (not lines[-1])
    if opening is not None:
        taken = range(row, row + 1 if opening["name"] in TRANSPARENT else last)
    elif row < last and not script and (_PROMPT.match(lines[row]) or _is_command(lines)):
        taken = range(row, last)
    for row in taken:
        lines[row] = hide(lines[row], "")
    row = taken.stop
    while row < len(lines):
        if not _is_magic(lines[row], script):
            row = _logical_end(layout, row) + 1
            continue
        last = row
        while lines[last].endswith("\\") and last + 1 < len(lines):
            last += 1
        lines[row] = hide(lines[row], _stand_in(lines[row], alone=row == last))
        for joined in range(row + 1, last + 1):
            lines[joined] = hide(lines[joined], "")
        row = last + 1
    return with_ends(lines, text)


def _is_command(lines: list[str]) -> bool:
    """Whether a cell is a single magic without its `%`, which IPython allows if it is the whole cell."""
    written = [line for line in lines if line.strip()]
    found = _UNMARKED.match(written[0])
    return found is not None and found["name"] in KNOWN and len(written) == 1


def _logical_end(layout: Layout, row: int) -> int:
    """The index of the last row of the statement, or part of one, that begins in row `row`."""
    text, at, depth = layout.text, layout.starts[row], 0
    while (found := _PIECE.search(text, at)) is not None:
        piece, at = found.group(), found.end()
        if piece in ('"', "'", '"""', "'''"):
            at = layout.string_end(at, piece)
        elif piece in ("(", "[", "{"):
            depth += 1
        elif piece in (")", "]", "}"):
            depth = max(0, depth - 1)
        elif piece in ("\n", "\r", "\r\n") and not depth:
            return layout.place(found.start())[0] - 1
    return len(layout.starts) - 1


def _is_magic(line: str, script: bool) -> bool:
    found = _MAGIC.match(line) or _ASSIGNED.match(line)
    if not script:
        return found is not None or _HELP.fullmatch(line) is not None
    if found is None or found.groupdict().get("rare"):
        return False
    return found["name"] is None or found["name"] in KNOWN


def _stand_in(line: str, *, alone: bool) -> str:
    """Code in place of an IPython line, in the same columns where it contains Python; empty if a comment suffices."""
    timed = _TIMED.fullmatch(line)
    if timed is not None and alone and parses(f"if 1:{timed['code']}"):
        return f"{timed['indent']}if 1:{timed['code']}"
    assigned = _ASSIGNED.match(line)
    if assigned is not None and parses(f"{assigned['target'].strip()} = 1"):
        return f"{assigned['target'].rstrip()} = get_ipython()"
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    return f"{indent}pass" if indent else ""
