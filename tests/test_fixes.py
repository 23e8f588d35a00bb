"""Applying, verifying and writing fixes."""

from __future__ import annotations

import os
import stat
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint.findings import Edit, Fix, Position, Span
from amplint.fixes.apply import apply_round
from amplint.fixes.imports import add_imports, can_import, remove_stale_imports
from amplint.fixes.splice import locate, splice
from amplint.fixes.verify import verify
from amplint.fixes.write import FileChangedError, replace_file
from amplint.source.encoding import decode
from amplint.source.rewrite_lines import Lines


def edit(row: int, start: int, end: int, content: str) -> Edit:
    """An edit within one row."""
    return Edit(Span(Position(row, start), Position(row, end)), content)


def row_edit(row: int, content: str) -> Edit:
    """An edit of a whole row with its line end."""
    return Edit(Span(Position(row, 1), Position(row + 1, 1)), content)


def fix(*edits: Edit, imports: tuple[str, ...] = ()) -> Fix:
    return Fix("message", edits, imports=imports)


def code(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


# Rounds


def test_fixes_that_stay_apart_are_all_applied() -> None:
    first, second = fix(edit(2, 1, 2, "B")), fix(edit(1, 1, 2, "A"), edit(3, 2, 2, "!"))
    assert apply_round("a\nb\nc\n", [first, second]) == ("A\nB\nc!\n", [second, first])


def test_the_first_by_position_wins_and_fixes_are_all_or_nothing() -> None:
    late, early = fix(edit(1, 3, 6, "X"), edit(2, 1, 1, "new ")), fix(edit(1, 1, 4, "Y"))
    assert apply_round("abcdef\nx\n", [late, early]) == ("Ydef\nx\n", [early])


def test_fixes_that_touch_wait_for_the_next_round() -> None:
    dedent, insertion = fix(row_edit(1, "a\n")), fix(edit(2, 1, 1, "    b\n"))
    assert apply_round("    a\nc\n", [insertion, dedent]) == ("a\nc\n", [dedent])


def test_insertions_at_one_place_keep_their_order() -> None:
    same = [fix(edit(1, 1, 1, "a\n")), fix(edit(1, 1, 1, "b\n"), edit(1, 1, 1, "c\n"))]
    assert apply_round("x\n", same) == ("a\nb\nc\nx\n", same)


def test_insertions_of_one_fix_end_deeper_blocks_first() -> None:
    text = "for x in y:\n    if x:\n        a\nb()\n"
    lines = Fix("", (edit(4, 1, 1, "[*"), edit(4, 1, 1, "    c\n"), edit(4, 1, 1, "        d\n"), edit(4, 4, 4, "]")))
    assert apply_round(text, [lines])[0] == "for x in y:\n    if x:\n        a\n        d\n    c\n[*b()]\n"
    end = Fix("", (edit(3, 10, 10, "\n    c"), edit(3, 10, 10, "\n        d"), edit(3, 10, 10, ".e")))
    assert apply_round(text[: text.index("\nb")], [end])[0] == "for x in y:\n    if x:\n        a.e\n        d\n    c"


def test_insertions_at_one_place_with_another_indentation_wait() -> None:
    fixes = [fix(edit(3, 1, 1, "    b\n")), fix(edit(3, 1, 1, "c\n"))]
    assert apply_round("if x:\n    a\nd\n", fixes) == ("if x:\n    a\n    b\nd\n", fixes[:1])


def test_shared_insertions_and_equal_fixes_collapse() -> None:
    shared = edit(2, 1, 1, "new\n")
    fixes = [fix(shared, edit(1, 1, 2, "A")), fix(shared, edit(3, 1, 2, "C")), fix(edit(1, 1, 2, "A"))]
    new, applied = apply_round("a\nb\nc\n", fixes)
    assert new == "A\nnew\nb\nC\n"
    assert set(map(id, applied)) == set(map(id, fixes))
    assert verify("a\nb\nc\n", new, [each for one in applied for each in one.edits]) is None


def test_two_fixes_that_move_one_statement_do_not_double_it() -> None:
    fixes = [fix(row_edit(3, ""), edit(1, 1, 1, "c\n")), fix(row_edit(3, ""), edit(5, 1, 1, "c\n"))]
    assert apply_round("a\nb\nc\nd\ne\n", fixes) == ("c\na\nb\nd\ne\n", fixes[:1])


@pytest.mark.parametrize(
    "edits",
    [
        (),
        (edit(1, 1, 2, "a"),),
        (edit(9, 1, 1, "x"),),
        (edit(1, 1, 9, "x"),),
        (edit(1, 3, 1, "x"),),
        (edit(1, 1, 3, "x"), edit(1, 2, 4, "y")),
    ],
)
def test_fixes_that_make_no_sense_are_left_out(edits: tuple[Edit, ...]) -> None:
    assert apply_round("abc\n", [fix(*edits)]) == ("abc\n", [])


def test_imports_come_with_the_fix() -> None:
    text = "import os\n\nx = a\n"
    fixes = [fix(edit(3, 5, 6, "torch.b"), imports=("import torch", "import os"))]
    assert apply_round(text, fixes) == ("import os\nimport torch\n\nx = torch.b\n", fixes)


def test_a_fix_waits_when_its_import_would_rebind_a_name() -> None:
    text = "from apex import amp\namp()\n"
    assert apply_round(text, [fix(edit(2, 1, 4, "amp.x"), imports=("from torch import amp",))]) == (text, [])


newlines = st.sampled_from(["\n", "\r\n", "\r"])
words = st.text("ab é😀\t", max_size=6)


@st.composite
def texts_with_edits(draw: st.DrawFn) -> tuple[str, list[Fix]]:
    text = "".join(draw(words) + draw(newlines) for _ in range(draw(st.integers(0, 5)))) + draw(words)
    lines = Lines(text)
    fixes = []
    for _ in range(draw(st.integers(1, 6))):
        edits = []
        for _ in range(draw(st.integers(1, 2))):
            row = draw(st.integers(1, len(lines)))
            last = draw(st.integers(row, min(len(lines), row + 1)))
            places = [Position(at, draw(st.integers(1, len(lines.line(at)) + 1))) for at in (row, last)]
            edits.append(Edit(Span(*sorted(places)), draw(st.sampled_from(["", "X", "  Y", "Z\n"]))))
        fixes.append(Fix("m", tuple(edits)))
    return text, fixes


@given(texts_with_edits())
@settings(max_examples=300, deadline=None)
def test_a_round_is_the_splice_of_the_fixes_it_names(case: tuple[str, list[Fix]]) -> None:
    text, fixes = case
    new, applied = apply_round(text, fixes)
    located = locate(Lines(text), [each for one in applied for each in one.edits])
    assert new == splice(text, located)
    untouched = text
    for start, end, _ in reversed(located):
        untouched = untouched[:start] + "\0" + untouched[end:]
    position = 0
    for piece in untouched.split("\0"):
        position = new.index(piece, position) + len(piece)
    for left in (one for one in fixes if not any(one is other for other in applied)):
        if apply_round(text, [left])[1]:
            ranges = [(start, end) for start, end, _ in locate(Lines(text), left.edits)]
            assert any(start <= end2 and start2 <= end for start, end in ranges for start2, end2, _ in located)


# Imports


@pytest.mark.parametrize(
    ("text", "wanted", "expected"),
    [
        ("import torch\n", "import torch", "import torch\n"),
        ("import argparse\nimport sys\n", "import itertools", "import argparse\nimport itertools\nimport sys\n"),
        ("import torch\nfrom m import n\n", "import itertools", "import itertools\n\nimport torch\nfrom m import n\n"),
        ("import numpy\nfrom m import n\n", "import torch", "import numpy\nimport torch\nfrom m import n\n"),
        (
            "from __future__ import annotations\n\nimport torch\n",
            "from contextlib import suppress",
            "from __future__ import annotations\n\nfrom contextlib import suppress\n\nimport torch\n",
        ),
        (
            "import torch\nfrom torch import nn\nfrom torch.utils import data\n\nfrom m import n\n",
            "from torch.amp import autocast",
            "import torch\nfrom torch import nn\nfrom torch.amp import autocast\nfrom torch.utils import data\n\n"
            "from m import n\n",
        ),
        ("import torch.nn\n", "import torch", "import torch.nn\n"),
        ("import torch as t\nx = torch\n", "import torch", "import torch as t\nimport torch\nx = torch\n"),
        ("from torch import nn\n", "import torch", "import torch\nfrom torch import nn\n"),
        ("import torch\n", "import torch.nn.functional as F", "import torch\nimport torch.nn.functional as F\n"),
        ("from a import (b,\n  c)\nx\n", "from a import d", "from a import (b,\n  c)\nfrom a import d\nx\n"),
        ("from a import (b, c as d)\n", "from a import c as d", "from a import (b, c as d)\n"),
        ("try:\n    import a\nexcept E:\n    a = 0\n", "import a", "try:\n    import a\nexcept E:\n    a = 0\n"),
        ("def f():\n    import a\n", "import a", "import a\n\ndef f():\n    import a\n"),
        ("x = 1\n", "import a", "import a\n\nx = 1\n"),
        ("#!python\n# licence\nx = 1\n", "import a", "#!python\n# licence\nimport a\n\nx = 1\n"),
        ('"""Doc."""\nx = 1\n', "import a", '"""Doc."""\n\nimport a\n\nx = 1\n'),
        ('"""Doc."""\n\nx = 1\n', "import a", '"""Doc."""\n\nimport a\n\nx = 1\n'),
        ("from __future__ import b\n", "import a", "from __future__ import b\n\nimport a\n"),
        ("import os", "import a", "import os\nimport a\n"),
        ("import os; x = '''\n'''\ny\n", "import a", "import os; x = '''\n'''\nimport a\ny\n"),
        ("import b\nb()\nimport c\na()\nimport d\n", "import a", "import b\nb()\nimport c\nimport a\na()\nimport d\n"),
        ("import os\r\nx\r\n", "import a", "import os\r\nimport a\r\nx\r\n"),
        ("", "import a", "import a\n"),
        ("# only", "import a", "# only\nimport a\n"),
        ("(", "import a", "("),
    ],
)  # fmt: skip
def test_add_imports(text: str, wanted: str, expected: str) -> None:
    assert add_imports(text, [wanted]) == expected
    assert add_imports(expected, [wanted, wanted]) == expected


@pytest.mark.parametrize(
    ("text", "wanted", "can"),
    [
        ("import torch.nn\n", "import torch", True),
        ("import torch as torch\n", "import torch", True),
        ("import a as torch\n", "import torch", False),
        ("def f(): pass\n", "from a import f", False),
        ("if x:\n    f = 1\n", "from a import f", False),
        ("with x as f: pass\n", "from a import f", False),
        ("def g():\n    f = 1\n", "from a import f", True),
        ("(", "import a", False),
    ],
)
def test_can_import(text: str, wanted: str, can: bool) -> None:
    assert can_import(text, [wanted]) is can


def test_stale_imports_go_and_others_stay() -> None:
    imports = code("""
        import unused
        from torch.cuda.amp import autocast, GradScaler
        from torch.cuda.amp import (
            custom_fwd,  # forward
            custom_bwd,  # backward
        )
        import old  # a comment
        # on its own
        import kept  # noqa: F401
        from a import b as b
        import c, old2
        try:
            import tried
        except ImportError:
            tried = None
        """)
    old = imports + "autocast, GradScaler, custom_fwd, custom_bwd, old, kept, b, c, old2, tried\n"
    assert remove_stale_imports(old, imports + "GradScaler, custom_bwd, c\n") == code("""
        import unused
        from torch.cuda.amp import GradScaler
        from torch.cuda.amp import (
            custom_bwd,  # backward
        )
        # on its own
        import kept  # noqa: F401
        from a import b as b
        import c
        try:
            import tried
        except ImportError:
            tried = None
        GradScaler, custom_bwd, c
        """)


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ("from m import x, k", "from m import k"),
        ("from m import k, x", "from m import k"),
        ("from m import k, x, y", "from m import k"),
        ("from m import x, k, y", "from m import k"),
        ("from m import (k, x,)", "from m import (k,)"),
        ("from m import (k,\n    x,\n    y)", "from m import (k,\n)"),
        ("from m import (k,  # k\n    x)", "from m import (k,  # k\n    )"),
        ("from m import (\n    x, y,\n    k,\n)", "from m import (\n    k,\n)"),
        ("from m import k, \\\n    x", "from m import k"),
        ("from m import x, \\\n    k", "from m import  \\\n    k"),
        ("k = 'é'; from m import x", "k = 'é'; from m import x"),
        ("k = 'é'; from m import x, z", "k = 'é'; from m import z"),
        ("from m import x as k", "from m import x as k"),
        ("from m import *", "from m import *"),
        ("import x.inner, k", "import k"),
        ("from __future__ import annotations as x", "from __future__ import annotations as x"),
    ],
)
def test_removal_from_a_statement(imports: str, expected: str) -> None:
    after = "\nprint(k, z)\n"
    assert remove_stale_imports(f"{imports}\nprint(x, y, k, z)\n", imports + after) == expected + after


@pytest.mark.parametrize(
    "use", ["__all__ = ['x']", "def f(a: 'list[x]'): pass", "cast('x', 1)", "def f():\n    return x.y", "x = 1"]
)
def test_what_counts_as_use(use: str) -> None:
    assert remove_stale_imports(f"import x\nx()\n{use}\n", f"import x\n{use}\n") == f"import x\n{use}\n"


def test_prose_is_no_use() -> None:
    assert remove_stale_imports("import x\n'''x'''\nx()\n", "import x\n'''x'''\n") == "'''x'''\n"


def test_an_import_that_is_a_whole_block_becomes_pass() -> None:
    old = "def f():\n    import x\n    import y\n    x, y\nif a:\n    import x\n"
    new = "def f():\n    import x\n    import y\nif a:\n    import x\n"
    assert remove_stale_imports(old, new) == "def f():\n    pass\nif a:\n    pass\n"


def test_stale_imports_of_a_text_that_does_not_parse() -> None:
    assert remove_stale_imports("import x\nx\n", "import x\n(") == "import x\n("


# Verification


def test_verify_accepts_edits_and_imports() -> None:
    old = "from a import b  # b\n\nx = b  # note\n"
    assert verify(old, "import torch\n\nx = torch  # note\n", [edit(3, 5, 6, "torch")]) is None
    assert verify("x\r# c\r", "y\r# c\r", [edit(1, 1, 2, "y")]) is None


@pytest.mark.parametrize(
    ("new", "edits", "reason"),
    [
        ("x = (  # note\ny\n", [edit(1, 5, 6, "(")], "not valid Python"),
        ("f(a=1, a=1)  # note\ny\n", [edit(1, 1, 6, "f(a=1, a=1)")], "not valid Python"),
        ("x = 2  # note\nz\n", [edit(1, 5, 6, "2")], "outside"),
        ("x = 2\ny\n", [edit(1, 5, 14, "2")], "comment would be lost: # note"),
        ("x = 2  # note\ny\n", [edit(1, 5, 60, "2")], "no place"),
        ("x = 2  # note\ny\n", [edit(1, 5, 6, "2"), edit(1, 4, 6, " 3")], "no place"),
    ],
)
def test_verify_gives_a_reason(new: str, edits: list[Edit], reason: str) -> None:
    found = verify("x = 1  # note\ny\n", new, edits)
    assert found is not None
    assert reason in found


def test_verify_counts_comments_that_say_the_same() -> None:
    reason = verify(
        "x = (  # note\n1)\ny  # note\n", "x = (2)\ny  # note\n", [Edit(Span(Position(1, 5), Position(2, 3)), "(2)")]
    )
    assert reason == "a comment would be lost: # note"


def test_verify_lets_a_statement_go_with_its_comment() -> None:
    assert verify("x  # note\ny\n", "y\n", [row_edit(1, "")]) is None
    assert verify("if a:\n    x  # note\n", "if a:\n    pass\n", [edit(2, 5, 14, "pass")]) is None


def test_verify_of_syntax_that_only_libcst_knows() -> None:
    new_syntax = "print 'x'\n"
    assert verify(new_syntax, "print 'y'\n", [edit(1, 8, 9, "y")]) == "the result is not valid Python"


def test_a_whole_repair_with_byte_order_mark_cookie_and_carriage_returns() -> None:
    raw = b"\xef\xbb\xbf# -*- coding: utf-8 -*-\r\nfrom torch.cuda.amp import autocast\r\nautocast('\xc3\xa9')\r\n"
    text, encoding = decode(raw)
    repair = fix(edit(3, 1, 9, "torch.autocast"), imports=("import torch",))
    mid, applied = apply_round(text, [repair])
    new = remove_stale_imports(text, mid)
    assert verify(text, new, repair.edits) is None
    assert new.encode(encoding) == (
        b"\xef\xbb\xbf# -*- coding: utf-8 -*-\r\nimport torch\r\ntorch.autocast('\xc3\xa9')\r\n"
    )
    assert applied == [repair]


# Writing


def test_replace_file_keeps_permissions_and_links(tmp_path: Path) -> None:
    target, link = tmp_path / "real" / "train.py", tmp_path / "link.py"
    target.parent.mkdir()
    target.write_bytes(b"old\r\n")
    target.chmod(0o754)
    link.symlink_to(target)
    replace_file(link, b"new\r\n", expected=b"old\r\n")
    assert link.is_symlink()
    assert target.read_bytes() == b"new\r\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o754
    assert os.listdir(target.parent) == ["train.py"]


def test_replace_file_refuses_when_the_file_changed(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"theirs")
    with pytest.raises(FileChangedError, match=r"train\.py was changed"):
        replace_file(path, b"ours", expected=b"read")
    assert path.read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["train.py"]


def test_replace_file_cleans_up_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"old")

    def refuse(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no space"):
        replace_file(path, b"new", expected=b"old")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["train.py"]


def test_replace_file_of_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "missing.py", b"", expected=b"")
    with pytest.raises(OSError, match="not a regular file"):
        replace_file(tmp_path, b"", expected=b"")
    loop = tmp_path / "loop.py"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match="symbolic links"):
        replace_file(loop, b"", expected=b"")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="everything is writable")
def test_replace_file_respects_a_read_only_file(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        replace_file(path, b"new", expected=b"old")
    assert os.listdir(tmp_path) == ["train.py"]
