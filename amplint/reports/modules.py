"""The operations of each module: a tree of a run's models, with equal repeated layers merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import groupby

from amplint.records import dataclass
from amplint.reports.ran import PASSES
from amplint.torchlib.names import HALF_DTYPES
from amplint.trace.data import Operation, RunData
from amplint.trace.kinds import computed_in, computes, is_float8, is_product


@dataclass
class Node:
    """A module with all operations in and below it, or `modules` equal ones merged under `name`.

    `name` is the path relative to the parent, such as `layers.0-11`, empty for operations outside of any module; `path`
    is that of the first of them. `dtypes` counts the forward and backward operations by computation dtype, without
    casts, which `casts` counts. Of the `products`, `in_half` ran in half or float8. `seconds` is the sum of measured
    times. `own` says whether an operation ran in the module itself.
    """

    name: str
    path: str
    modules: int = 1
    dtypes: Counter[str] = field(default_factory=Counter)
    casts: int = 0
    products: int = 0
    in_half: int = 0
    seconds: float = 0.0
    own: bool = False
    children: list[Node] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """A row of the table: a node and its depth; `folded` if its children are not shown."""

    node: Node
    depth: int
    folded: bool


def tree(record: RunData) -> list[Node]:
    """The outermost modules in execution order, then the operations outside of any.

    Siblings with numeric names are merged if the same modules ran below them, in the same dtypes, and their products
    all, none or partly in half. A module with a single child is merged with it: `layers.0-11`.
    """
    roots: list[Node] = []
    known: dict[str, Node] = {}
    for operation, count in record.operations.items():
        if operation.phase in PASSES:
            path = _path(operation.module, roots, known)
            path[-1].own = True
            for node in path:
                _count(node, operation, count, record.seconds.get(operation, 0.0))
    return [_folded(node) for node in sorted(roots, key=lambda node: not node.path)]


def rows(nodes: Sequence[Node], most: int) -> list[Row]:
    """At most `most` rows, or one for each of `nodes`: the tree expanded by time, largest first.

    Without times, the number of operations takes their place.
    """
    timed = any(node.seconds for node in nodes)
    opened: set[int] = set()
    room = most - len(nodes)
    closed = [node for node in nodes if node.children]
    while closed:
        node = max(closed, key=lambda node: node.seconds if timed else node.dtypes.total())
        closed.remove(node)
        if len(node.children) <= room:
            room -= len(node.children)
            opened.add(id(node))
            closed += [child for child in node.children if child.children]
    return list(_shown(nodes, 0, opened))


def _shown(nodes: Sequence[Node], depth: int, opened: set[int]) -> Iterator[Row]:
    for node in nodes:
        yield Row(node, depth, bool(node.children) and id(node) not in opened)
        if id(node) in opened:
            yield from _shown(node.children, depth + 1, opened)


def _path(module: str, roots: list[Node], known: dict[str, Node]) -> list[Node]:
    """The nodes from the outermost to that of `module`; those not `known` yet are created."""
    nodes: list[Node] = []
    path = ""
    for name in module.split("."):
        path = f"{path}.{name}" if path else name
        if path not in known:
            known[path] = Node(name, path)
            (nodes[-1].children if nodes else roots).append(known[path])
        nodes.append(known[path])
    return nodes


def _count(node: Node, operation: Operation, count: int, seconds: float) -> None:
    node.seconds += seconds
    if not computes(operation):
        return
    dtype = computed_in(operation)
    if "->" in dtype:
        node.casts += count
        return
    node.dtypes[dtype] += count
    if is_product(operation):
        node.products += count
        node.in_half += count * (dtype in HALF_DTYPES or is_float8(dtype))


def _folded(node: Node) -> Node:
    """`node` with equal children merged, and with its only child."""
    node.children = _alike([_folded(child) for child in node.children])
    if len(node.children) == 1 and not node.own and node.path:
        only = node.children[0]
        only.name, only.path = f"{node.name}.{only.name}", node.path if only.modules > 1 else only.path
        return only
    return node


def _alike(nodes: Sequence[Node]) -> list[Node]:
    groups: dict[object, list[Node]] = {}
    for node in nodes:
        groups.setdefault(_shape(node) if node.name.isdecimal() else id(node), []).append(node)
    return [_joined(group) for group in groups.values()]


def _shape(node: Node) -> object:
    """Equal for modules to merge."""
    below = tuple((child.name, _shape(child)) for child in node.children)
    return frozenset(node.dtypes), node.in_half > 0, node.in_half == node.products, below


def _joined(group: Sequence[Node], name: str = "") -> Node:
    """The equal modules of `group` as one, named `name` or by their numbers."""
    first = group[0]
    if len(group) == 1:
        return first
    return Node(
        name or _ranges([node.name for node in group]),
        first.path,
        sum(node.modules for node in group),
        sum((node.dtypes for node in group), Counter()),
        sum(node.casts for node in group),
        sum(node.products for node in group),
        sum(node.in_half for node in group),
        sum(node.seconds for node in group),
        any(node.own for node in group),
        [_joined(below, name=below[0].name) for below in zip(*(node.children for node in group), strict=True)],
    )


def _ranges(names: Sequence[str]) -> str:
    """`0-3,5` for the numbers 0, 1, 2, 3 and 5."""
    numbers = sorted(map(int, names))
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
