"""The edits that rules build: each is applied to a text and the whole new text compared."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint.findings import Edit, Position
from amplint.fixes.splice import locate, splice
from amplint.source import syntax as cst
from amplint.source.encoding import decode
from amplint.source.rewrite import Rewriter
from amplint.source.rewrite_lines import Lines
from amplint.source.source import NEWLINE, Source
from amplint.source.tree import walk


def rewriter(text: str) -> Rewriter:
    return Rewriter(Source("t.py", text))


def nodes(rewrite: Rewriter) -> Iterator[cst.CSTNode]:
    for chunk in rewrite.source.chunks:
        yield from walk(chunk.module)


def find(rewrite: Rewriter, text: str) -> cst.CSTNode:
    """The outermost node with exactly this text."""
    for node in nodes(rewrite):
        whole = isinstance(node, (cst.Module, cst.IndentedBlock))
        if not whole and rewrite.text(node) == text:
            return node
    raise AssertionError(f"no node {text!r}")


def call(rewrite: Rewriter) -> cst.Call:
    return next(node for node in nodes(rewrite) if isinstance(node, cst.Call))


def with_of(rewrite: Rewriter) -> cst.With:
    return next(node for node in nodes(rewrite) if isinstance(node, cst.With))


def applied(rewrite: Rewriter, edits: Edit | Iterable[Edit] | None) -> str | None:
    """The new text; it must parse."""
    if edits is None:
        return None
    text = rewrite.source.text
    new = splice(text, locate(Lines(text), [edits] if isinstance(edits, Edit) else edits))
    ast.parse(new)
    return new


def code(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


# Reading


def test_text_and_replacement_include_parentheses() -> None:
    rewrite = rewriter("y = ((  # c\n  a + (b)\n)) .x\nz = é, (c)\n")
    inner = next(node for node in nodes(rewrite) if isinstance(node, cst.BinaryOperation))
    assert rewrite.text(inner) == "((  # c\n  a + (b)\n))"
    assert applied(rewrite, rewrite.replace(inner, "q")) == "y = q .x\nz = é, (c)\n"
    name = next(node for node in nodes(rewrite) if isinstance(node, cst.Name) and node.value == "c")
    assert applied(rewrite, rewrite.replace(name, "d.e")) == "y = ((  # c\n  a + (b)\n)) .x\nz = é, d.e\n"


@pytest.mark.parametrize(
    ("text", "operand"),
    [("x", "x"), ("f(x)", "f(x)"), ("a + b", "(a + b)"), ("(a + b)", "(a + b)"), ("1", "(1)"), ("-x", "(-x)")],
)
def test_operand(text: str, operand: str) -> None:
    rewrite = rewriter(f"y = {text}\n")
    assign = next(node for node in nodes(rewrite) if isinstance(node, cst.Assign))
    assert rewrite.operand(assign.value) == operand


@pytest.mark.parametrize(
    ("text", "cast"),
    [
        ("f(x)", "f(x).float()"),
        ("a + b", "(a + b).float()"),
        ("(a, b + c)", "(a.float(), (b + c).float())"),
        ("[a, b]", "[a.float(), b.float()]"),
        ("F.sigmoid(x)", "F.sigmoid(x.float())"),
        ("x[0].sigmoid()", "x[0].float().sigmoid()"),
        ("F.sigmoid(*x)", "F.sigmoid(*x).float()"),
    ],
)
def test_add_float(text: str, cast: str) -> None:
    rewrite = rewriter(f"y = {text}\n")
    node = find(rewrite, text)
    assert isinstance(node, cst.BaseExpression)
    assert applied(rewrite, rewrite.add_float(node)) == f"y = {cast}\n"


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("x.half()\n", ""),
        ("x.y.half()\n", ""),
        ("x = x.half()\n", ""),
        ("x = y.half()\n", "x = y\n"),
        ("x.to(device).bfloat16()\n", "x.to(device)\n"),
        ("x = x.to(device).half()\n", "x = x.to(device)\n"),
    ],
)
def test_drop_conversion(text: str, without: str) -> None:
    rewrite = rewriter(f"z = 1\n{text}")
    assert applied(rewrite, rewrite.drop_conversion(call(rewrite))) == f"z = 1\n{without}"


def test_statement_of() -> None:
    rewrite = rewriter("if a: b\nelif c:\n    d(e)\n")
    assert isinstance(rewrite.statement_of(find(rewrite, "a")), cst.If)
    assert rewrite.statement_of(find(rewrite, "b")) is None
    assert rewrite.statement_of(find(rewrite, "c")) is None
    assert isinstance(rewrite.statement_of(find(rewrite, "e")), cst.SimpleStatementLine)
    assert len(rewrite.block_of(find(rewrite, "e"))) == 1


# Statements


def test_insert_before_goes_below_leading_comments() -> None:
    text = code("""
        def f():
            # about g
            g(
                x,
            )  # trailing
            h()
        """)
    rewrite = rewriter(text)
    edit = rewrite.insert_before(find(rewrite, "x"), "if a:\n    b\n\nc")
    assert applied(rewrite, edit) == text.replace("    g(", "    if a:\n        b\n\n    c\n    g(")


def test_insert_after_goes_below_the_whole_statement() -> None:
    text = code("""
        def f():
            for x in loader(y):
                g()  # trailing
            # later
        z = 1
        """)
    rewrite = rewriter(text)
    assert applied(rewrite, rewrite.insert_after(find(rewrite, "y"), "h()")) == text.replace(
        "trailing\n", "trailing\n    h()\n"
    )
    decorated = rewriter("@d\ndef f(): pass\n")
    assert applied(decorated, decorated.insert_before(find(decorated, "d"), "x = 1")) == "x = 1\n@d\ndef f(): pass\n"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_insertions_use_the_line_end_of_the_file(newline: str) -> None:
    rewrite = rewriter(f"if a:{newline}\tb{newline}\tc")
    edits = [
        rewrite.insert_before(find(rewrite, "b"), "if x:\n    y"),
        rewrite.insert_after(find(rewrite, "c"), "z"),
    ]
    lines = ["if a:", "\tif x:", "\t\ty", "\tb", "\tc", "\tz"]
    assert applied(rewrite, [edit for edit in edits if edit]) == newline.join(lines)


@pytest.mark.parametrize(
    "text",
    [
        "a; NODE",
        "if x: NODE",
        "f = lambda: NODE",
        "y = [NODE for i in j]",
        "y = a and NODE",
        "y = NODE if a else b",
        "while NODE:\n    pass",
        "if a:\n    pass\nelif NODE:\n    pass",
        "class C: NODE = 1",
    ],
)
def test_no_insertion_where_it_would_run_at_another_time(text: str) -> None:
    rewrite = rewriter(text + "\n")
    node = find(rewrite, "NODE")
    assert rewrite.insert_before(node, "z") is None
    assert rewrite.insert_after(node, "z") is None


def test_insert_around_a_while_statement_itself() -> None:
    rewrite = rewriter("while x:\n    y\n")
    assert applied(rewrite, rewrite.insert_before(first_of(rewrite, cst.While), "z")) == "z\nwhile x:\n    y\n"


def first_of(rewrite: Rewriter, kind: type[cst.CSTNode]) -> cst.CSTNode:
    return next(node for node in nodes(rewrite) if isinstance(node, kind))


def test_remove_statement() -> None:
    text = code("""
        def f():
            # keep me
            g(
                x)  # goes too
            h()
        """)
    rewrite = rewriter(text)
    assert applied(rewrite, rewrite.remove_statement(find(rewrite, "x"))) == "def f():\n    # keep me\n    h()\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if a:\n    NODE  # c\nb\n", "if a:\n    pass\nb\n"),
        ("NODE\n", ""),
        ("a\nNODE", "a\n"),
        ("def f():\n    @NODE\n    def g(): pass\n    x\n", "def f():\n    x\n"),
        ("if a:\n    NODE;\n    b\n", "if a:\n    b\n"),
        ("if a: NODE\n", None),
        ("NODE; b\n", None),
        ("b; NODE\n", None),
    ],
)
def test_remove_statement_at_the_edges(text: str, expected: str | None) -> None:
    rewrite = rewriter(text)
    assert applied(rewrite, rewrite.remove_statement(find(rewrite, "NODE"))) == expected


def test_move_statement_reindents_but_not_inside_strings() -> None:
    text = code('''
        def f():
            a()
            for x in y:
                # stays
                s("""
                text""",
                  z)  # moves

        b()
        ''')
    rewrite = rewriter(text)
    edits = rewrite.move_statement(find(rewrite, "z"), before=find(rewrite, "a()"))
    assert applied(rewrite, edits) == code('''
        def f():
            s("""
                text""",
              z)  # moves
            a()
            for x in y:
                # stays
                pass

        b()
        ''')


def test_move_statement_after() -> None:
    rewrite = rewriter("def f():\n    a()\n    if b:\n        c()\n")
    edits = rewrite.move_statement(find(rewrite, "a()"), after=find(rewrite, "b"))
    assert applied(rewrite, edits) == "def f():\n    if b:\n        c()\n    a()\n"
    into = rewrite.move_statement(find(rewrite, "a()"), after=find(rewrite, "c()"))
    assert applied(rewrite, into) == "def f():\n    if b:\n        c()\n        a()\n"


def test_move_statement_refuses() -> None:
    rewrite = rewriter("if b:\n    c()\n    d()\nx; y\n")
    assert rewrite.move_statement(find(rewrite, "b"), after=find(rewrite, "d()")) is None
    assert rewrite.move_statement(find(rewrite, "b"), before=find(rewrite, "c()")) is None
    assert rewrite.move_statement(find(rewrite, "c()"), after=find(rewrite, "c()")) is None
    assert rewrite.move_statement(find(rewrite, "x"), before=find(rewrite, "c()")) is None
    assert rewrite.move_statement(find(rewrite, "c()"), before=find(rewrite, "y")) is None
    with pytest.raises(TypeError):
        rewrite.move_statement(find(rewrite, "c()"))


def test_hoist_before_takes_simple_statements_only() -> None:
    rewrite = rewriter("for x in y:\n    s = 1\n    if s: pass\n")
    loop = first_of(rewrite, cst.For)
    assert applied(rewrite, rewrite.hoist_before(find(rewrite, "s = 1"), loop)) == (
        "s = 1\nfor x in y:\n    if s: pass\n"
    )
    assert rewrite.hoist_before(first_of(rewrite, cst.If), loop) is None


# Arguments


@pytest.mark.parametrize(
    ("text", "keyword", "position", "expected"),
    [
        ("f()", "k", None, "f(k=V)"),
        ("f(  )", "k", None, "f(k=V)"),
        ("f(  # c\n)", "k", None, "f(k=V  # c\n)"),
        ("f(a)", "k", None, "f(a, k=V)"),
        ("f(a,)", "k", None, "f(a, k=V,)"),
        ("f(a, k=1)", "k", None, "f(a, k=V)"),
        ("f(a, k = (1))", "k", None, "f(a, k = V)"),
        ("f(a, b)", "k", 1, "f(a, V)"),
        ("f(a)", "k", 1, "f(a, k=V)"),
        ("f(*a)", "k", None, "f(*a, k=V)"),
        ("f(*a)", "k", 0, None),
        ("f(**a)", "k", None, None),
        ("f(**a, k=1)", "k", None, "f(**a, k=V)"),
        ("f(x for x in y)", "k", None, None),
        ("f((x for x in y))", "k", None, "f((x for x in y), k=V)"),
        ("f(\n    a,\n    b,  # b\n)", "k", None, "f(\n    a,\n    b,  # b\n    k=V,\n)"),
        ("f(\n    a,\n    b\n)", "k", None, "f(\n    a,\n    b,\n    k=V\n)"),
        ("f(\n    a,\n    b  # b\n)", "k", None, "f(\n    a,\n    b, k=V  # b\n)"),
        ("f(a,\n  b,)", "k", None, "f(a,\n  b, k=V,)"),
        ("f()", None, 0, "f(V)"),
        ("f(k=1)", None, 0, "f(V, k=1)"),
        ("f(a)", None, 0, "f(V)"),
        ("f(a)", None, 2, None),
        ("f(\n    k=1,\n)", None, 0, "f(\n    V,\n    k=1,\n)"),
        ("f(a, *b)", None, 1, None),
    ],
)
def test_set_argument(text: str, keyword: str | None, position: int | None, expected: str | None) -> None:
    rewrite = rewriter(text)
    assert applied(rewrite, rewrite.set_argument(call(rewrite), keyword, "V", position)) == expected


def test_insert_argument() -> None:
    rewrite = rewriter("f(a, b)")
    assert applied(rewrite, rewrite.insert_argument(call(rewrite), 0, "x, y")) == "f(x, y, a, b)"
    assert applied(rewrite, rewrite.insert_argument(call(rewrite), 2, "z=1")) == "f(a, b, z=1)"


# Regions


def ended(text: str, first: int, *keep: str) -> str | None:
    """The text with its first `with` ended before statement `first`, statements that mention `keep` kept inside."""
    rewrite = rewriter(text)
    region = with_of(rewrite)

    def keep_inside(statement: cst.BaseStatement) -> bool:
        return any(word in rewrite.text(statement) for word in keep)

    return applied(rewrite, rewrite.end_region(region, region.body.body[first], keep_inside))


def test_end_region_dedents_the_rest() -> None:
    text = code("""
        for x in loader:
            with autocast():  # amp
                loss = model(x)
                # of the model

                # of backward
                loss.backward(
                    retain_graph=True,
                )  # here

                if log:
                    # deeper
                    print(x)
                # footer

            done()
        """)
    assert ended(text, 1) == code("""
        for x in loader:
            with autocast():  # amp
                loss = model(x)
                # of the model

            # of backward
            loss.backward(
                retain_graph=True,
            )  # here

            if log:
                # deeper
                print(x)
            # footer

            done()
        """)


def test_end_region_reopens_for_what_must_stay_inside() -> None:
    text = code("""
        with torch.autocast(
            "cuda", dtype=half
        ):
            a = net(x)
            a.backward()
            # second
            b = net(y)
            c = net(b)

            b.backward()
            step()
            d = net(z)
        """)
    assert ended(text, 1, "net") == code("""
        with torch.autocast(
            "cuda", dtype=half
        ):
            a = net(x)
        a.backward()
        with torch.autocast(
            "cuda", dtype=half
        ):
            # second
            b = net(y)
            c = net(b)

        b.backward()
        step()
        with torch.autocast(
            "cuda", dtype=half
        ):
            d = net(z)
        """)


def test_end_region_before_its_first_statement_moves_the_header() -> None:
    text = "if a:\n    # region\n    with autocast():  # amp\n        # b\n        b()\n        net()\n        c()\n"
    assert ended(text, 0, "net") == (
        "if a:\n    # region\n    # b\n    b()\n    with autocast():  # amp\n        net()\n    c()\n"
    )
    assert ended(text, 0) is None


def test_end_region_keeps_strings_and_odd_lines() -> None:
    text = code('''
        def f():
            with autocast():
                a()
                b = """one
                    two
                """ + f"""{x
                }
                """
                c = g(
          short,
                    long,
                ) + \\
                    1
        # at the margin
                @d
                def inner():
                    pass
        ''')
    assert ended(text, 1) == code('''
        def f():
            with autocast():
                a()
            b = """one
                    two
                """ + f"""{x
                }
                """
            c = g(
          short,
                long,
            ) + \\
                1
        # at the margin
            @d
            def inner():
                pass
        ''')


def test_end_region_with_tabs_and_carriage_returns() -> None:
    text = "if a:\r\n\twith autocast():\r\n\t\tb\r\n\t\tc\r\n\t\t  # odd\r\n\r\n\t\tnet\r\n"
    assert ended(text, 1, "net") == (
        "if a:\r\n\twith autocast():\r\n\t\tb\r\n\tc\r\n\t  # odd\r\n\r\n\twith autocast():\r\n\t\tnet\r\n"
    )


def test_end_region_of_a_nested_with() -> None:
    text = "with autocast():\n    with no_grad():\n        a\n    b\n    c"
    assert ended(text, 1) == "with autocast():\n    with no_grad():\n        a\nb\nc"


@pytest.mark.parametrize(
    ("text", "keep"),
    [
        ("with autocast(): a; b\n", ""),
        ("with autocast(), open(f) as g:\n    a\n    b\n", ""),
        ("async def f():\n    async with autocast():\n        a\n        b\n", ""),
        ("with autocast() as c:\n    a\n    b\n    net(c)\n", "net"),
        ("with autocast(enabled=amp):\n    a\n    amp = False\n    net()\n", "net"),
        ("with autocast(enabled=self.amp[0]):\n    a\n    self.amp[0], q = False, 1\n    net()\n", "net"),
        ("with autocast():\n    a\n    b; c\n", ""),
        ("if a:\n\twith autocast():\n\t\ta\n\t\tif b:\n\t\t\tc\n", "nothing"),
    ],
)
def test_end_region_refuses(text: str, keep: str) -> None:
    expected = None if keep != "nothing" else "if a:\n\twith autocast():\n\t\ta\n\tif b:\n\t\tc\n"
    assert ended(text, 1, *([keep] if keep else [])) == expected


def test_end_region_keeps_an_as_name_it_need_not_bind_again() -> None:
    assert ended("with autocast() as c:\n    a\n    b\n", 1) == "with autocast() as c:\n    a\nb\n"


def test_a_self_attribute_does_not_clash_with_another() -> None:
    text = "with autocast(enabled=self.amp):\n    self.a = 1\n    b\n    net\n"
    assert ended(text, 1, "net") is not None


def test_end_region_is_one_edit_and_nothing_is_left_to_end() -> None:
    text = "with autocast():\n    a\n    b\n    net\n    c\n"
    new = ended(text, 1, "net")
    assert new == "with autocast():\n    a\nb\nwith autocast():\n    net\nc\n"
    rewrite = rewriter(new)
    assert [len(node.body.body) for node in nodes(rewrite) if isinstance(node, cst.With)] == [1, 1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("with autocast():  # amp\n    a\n\n    # c\n    b\n", "# amp\na\n\n# c\nb\n"),
        ("if x:\n  with (autocast()):\n     a", "if x:\n  a"),
        ("with autocast() as c:\n    a\n", None),
        ("with autocast(): a\n", None),
        ("with autocast(  # why\n):\n    a\n", None),
    ],
)
def test_drop_region(text: str, expected: str | None) -> None:
    rewrite = rewriter(text)
    assert applied(rewrite, rewrite.drop_region(with_of(rewrite))) == expected


@st.composite
def region_programs(draw: st.DrawFn) -> tuple[str, int, Callable[[str], bool]]:
    newline = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    unit = draw(st.sampled_from(["\t", "  ", "    "]))
    depth = draw(st.integers(0, 2))
    statements = {
        "simple": ["f('{}')"],
        "call": ["f(  # note", "  '{}',", ")"],
        "string": ['f("""', " {}", '  """)'],
        "if": ["if f('{}'):", unit + "f('again')", "else:", unit + "pass"],
    }
    lines = [unit * level + "if True:" for level in range(depth)] + [unit * depth + "with region():"]
    count = draw(st.integers(2, 6))
    for index in range(count):
        lines += draw(st.sampled_from([[], [""], [unit * (depth + 1) + "# comment"], ["# margin"]]))
        word = draw(st.sampled_from(["keep", "free"]))
        kind = draw(st.sampled_from(sorted(statements)))
        lines += [unit * (depth + 1) + line.format(f"{word} {index}") for line in statements[kind]]
    end = draw(st.sampled_from(["", newline]))
    return newline.join(lines) + end, draw(st.integers(1, count - 1)), lambda text: "keep" in text


def trace(text: str) -> list[tuple[str, int]]:
    """What a program calls and how many regions it is in then."""
    log: list[tuple[str, int]] = []
    depth = 0

    class Region:
        def __enter__(self) -> None:
            nonlocal depth
            depth += 1

        def __exit__(self, *_: object) -> None:
            nonlocal depth
            depth -= 1

    def f(argument: str) -> bool:
        log.append((argument, depth))
        return True

    exec(compile(text, "t.py", "exec"), {"region": Region, "f": f})
    return log


@given(region_programs())
@settings(max_examples=150, deadline=None)
def test_an_ended_region_runs_the_same_statements_in_the_right_place(
    program: tuple[str, int, Callable[[str], bool]],
) -> None:
    text, first, _ = program
    new = ended(text, first, "keep")
    assert new is not None
    before, after = trace(text), trace(new)
    assert [argument for argument, _ in before] == [argument for argument, _ in after]
    rewrite = rewriter(text)
    body = with_of(rewrite).body.body
    owners = [rewrite.text(statement) for statement in body]
    inside = [index < first or ("keep" in owner and index != first) for index, owner in enumerate(owners)]
    expected = [int(inside[index]) for index, owner in enumerate(owners) for _ in range(1 + owner.count("again"))]
    assert [depth for _, depth in after] == expected
    assert sorted(line.strip() for line in NEWLINE.split(text) if "#" in line) == sorted(
        line.strip() for line in NEWLINE.split(new) if "#" in line
    )


# Places


@given(st.text(st.sampled_from("ab é\n\r\t😀\f\x0b\u2028"), max_size=30))
def test_positions_and_offsets_are_inverse(text: str) -> None:
    lines = Lines(text)
    assert [lines.line(row) for row in range(1, len(lines) + 1)] == NEWLINE.split(text)
    for row in range(1, len(lines) + 1):
        for column in range(1, len(lines.line(row)) + 2):
            position = Position(row, column)
            assert lines.position(lines.offset(position)) == position
    for bad in (Position(0, 1), Position(len(lines) + 1, 1), Position(1, 0), Position(1, len(lines.line(1)) + 2)):
        with pytest.raises(ValueError, match="there is no"):
            lines.offset(bad)


@pytest.mark.parametrize(
    "raw",
    [
        b"\xef\xbb\xbfx = '\xc3\xa9'; y = f(a)\r\n",
        b"# -*- coding: latin-1 -*-\nx = '\xe9'; y = f(a)\r",
        "x = 'é😀'; y = f(a)".encode(),
    ],
)
def test_bytes_survive_a_round_trip(raw: bytes) -> None:
    text, encoding = decode(raw)
    rewrite = Rewriter(Source.from_bytes("t.py", raw))
    edited = applied(rewrite, rewrite.replace(find(rewrite, "f(a)"), "g(a, 1)"))
    assert edited is not None
    assert text.encode(encoding) == raw
    assert edited.encode(encoding) == raw.replace(b"f(a)", b"g(a, 1)")
