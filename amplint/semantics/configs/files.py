"""Configuration files that a script reads, and the values it gets from them."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from amplint.semantics.configs.display import Reader, get, refers
from amplint.semantics.configs.hydra import Hydra, merged
from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.modules import evaluate_silently
from amplint.semantics.python.tracker import Call, Handler, Operands, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import MODULE_FRAME, State
from amplint.semantics.values.values import Const, FilePath, FileText, Function, Items, Ref, Unknown, Value
from amplint.source import syntax as cst
from amplint.source.configs.file import ConfigFile
from amplint.source.configs.names import is_config
from amplint.source.source import Chunk
from amplint.torchlib import configs as known

_PARENTS = 6
_DEFAULT = "<default>"
_READING = frozenset({"yaml", "json", "OmegaConf"})


class ConfigFiles(Tracker):
    """Tracks paths to the files read by them, if configuration files are taken into account.

    Files contain dictionaries, whose keys are attributes as well: where Python has none, a script reads none.
    """

    triggers = frozenset({"yaml", "json", "OmegaConf", "hydra", "__file__", "Path", "add_argument", *known.PARSERS})
    methods = frozenset(
        {
            *("add_argument", "joinpath", *known.PARSERS, *known.OF_DICTIONARIES),
            *known.SAME_PATH_METHODS,
            *known.READING_METHODS,
        }
    )

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.referring: set[Value] = set()
        self.contents: set[Value] = set()

    def is_needed(self) -> bool:
        """Whether configuration files are taken into account."""
        return self.machine.configs

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Calls of functions that read files, for their results."""
        reading = (chunk for chunk in chunks if not chunk.used.isdisjoint(_READING))
        return Words(calls=frozenset(chunk.name for chunk in reading if chunk.name))

    def script_begins(self, state: State) -> None:
        """Bind `__file__`."""
        state.bind(MODULE_FRAME, "__file__", FilePath(posixpath.basename(self.machine.program.main.path)))

    def library(self) -> Mapping[str, Handler]:
        """Functions that make paths, read files and wrap their contents."""
        return {
            **dict.fromkeys(known.SAME_PATH, self._same_path),
            **dict.fromkeys(known.LOADERS, self._load),
            **dict.fromkeys(known.OMEGA_LOADERS, self._load_omega),
            **dict.fromkeys(known.MERGES, self._merge),
            **dict.fromkeys(known.WITHOUT_OPTIONS, lambda state, call: Items((), ())),
            **dict.fromkeys(known.SAME, self._same),
            "builtins.open": self._open,
            "os.path.dirname": self._folder,
            "os.path.join": self._join,
        }

    def holds(self, value: Items) -> bool:
        """Whether a dictionary is the whole content, or a part, of a file that was read, without a change."""
        return any(_has(content, value) for content in self.contents)

    # Paths.

    def _same_path(self, state: State, call: Call) -> Value | None:
        first = _first(call.arguments)
        return first if isinstance(first, FilePath) or (isinstance(first, Const) and _is_text(first)) else None

    def _folder(self, state: State, call: Call) -> Value | None:
        first = _first(call.arguments)
        return _parent(first) if isinstance(first, FilePath) else None

    def _join(self, state: State, call: Call) -> Value | None:
        return _joined(call.arguments.values)

    def attribute_value(self, state: State, owner: Value, name: str) -> Value | None:
        """The parent folder of a path, or an entry of a dictionary."""
        if isinstance(owner, FilePath) and name == "parent":
            return _parent(owner)
        if isinstance(owner, FilePath) and name == "parents":
            above = [_parent(owner)]
            while len(above) < _PARENTS:
                above.append(_parent(above[-1]))
            return Items(tuple(above))
        return get(owner, name) if isinstance(owner, Items) and name not in known.OF_DICTIONARIES else None

    def binary(self, state: State, operands: Operands) -> Value | None:
        """Evaluate `path / "name"` and `folder + "/name"`."""
        left, right = operands.left[1], operands.right[1]
        if not isinstance(left, FilePath) or not isinstance(right, Const) or not isinstance(right.value, str):
            return None
        if operands.kind == "Divide":
            return _joined((left, right))
        return FilePath(posixpath.normpath(left.name + right.value)) if operands.kind == "Add" else None

    # Reading.

    def _open(self, state: State, call: Call) -> Value | None:
        path = _first(call.arguments)
        return FileText(path) if isinstance(path, FilePath) or (isinstance(path, Const) and _is_text(path)) else None

    def _load(self, state: State, call: Call) -> Value | None:
        first = _first(call.arguments)
        file = self._file(first.path) if isinstance(first, FileText) else None
        if file is None:
            return None
        value = Reader(self.machine.fresh).value(file.root)
        self.contents.add(value)
        return value

    def _load_omega(self, state: State, call: Call) -> Value | None:
        first = _first(call.arguments)
        file = self._file(first.path if isinstance(first, FileText) else first)
        if file is None:
            return None
        reader = Reader(self.machine.fresh, omega=True)
        value = reader.value(file.root)
        made = reader.resolved(value)
        if refers(value):
            self.referring.add(made)
        self.contents.add(made)
        return made

    def _merge(self, state: State, call: Call) -> Value | None:
        """Merge dictionaries; references resolve in the whole, so that other dictionaries can change their values."""
        values = [value for value in call.arguments.values if value != Items((), ())]
        if len(values) > 1 and not self.referring.isdisjoint(values):
            return None
        result = Items((), ())
        for value in values:
            if not isinstance(value, Items) or value.keys is None or symbol_of(self.machine, value) in state.heap:
                return None
            result = merged(result, value)
        return result

    def _same(self, state: State, call: Call) -> Value | None:
        given = call.arguments.given
        first = _first(call.arguments)
        if isinstance(first, Items) and not given[0].keyword:
            return first
        if not given or not all(argument.keyword and not argument.star for argument in given):
            return None
        return Items(call.arguments.values, tuple(Const(argument.keyword) for argument in given))

    def _file(self, path: Value | None) -> ConfigFile | None:
        """The configuration file at `path`, which options can replace."""
        name = f"./{path.name}" if isinstance(path, FilePath) else path.value if isinstance(path, Const) else None
        found = self.machine.program.config(name) if isinstance(name, str) and is_config(name) else None
        if found is not None:
            self.machine.program.assumed[found.path] = found
        return found

    def method(self, state: State, call: Call) -> Value | None:
        """Call a method of a path, an open file, a dictionary or a command-line parser."""
        owner, name = call.owner, call.name
        if isinstance(owner, FilePath):
            if name in known.READING_METHODS:
                return FileText(owner)
            return _joined((owner, *call.arguments.values)) if name == "joinpath" else owner
        if isinstance(owner, FileText):
            return owner if name in known.READING_METHODS else None
        if isinstance(owner, Const) and _is_text(owner) and name in known.READING_METHODS | known.SAME_PATH_METHODS:
            return FileText(owner) if name in known.READING_METHODS else owner
        if isinstance(owner, Items) and owner.keys is not None:
            return self._of_dictionary(state, owner, name, call.arguments)
        return self._of_parser(state, owner, name, call.arguments) if isinstance(owner, Unknown) else None

    def _of_dictionary(self, state: State, owner: Items, name: str, arguments: Arguments) -> Value | None:
        if name == "get":
            key = _first(arguments)
            put = state.heap.get(symbol_of(self.machine, owner), {})
            if not isinstance(key, Const) or f"[{key.value!r}]" in put or str(key.value) in put:
                return None
            found = get(owner, str(key.value))
            return found if found is not None else arguments.value("default", 1) or Const(None)
        if name in known.MUTATORS:
            for key in owner.keys or ():
                if isinstance(key, Const):
                    unknown = Unknown(self.machine.fresh())
                    state.set_attribute(symbol_of(self.machine, owner), f"[{key.value!r}]", unknown)
                    state.set_attribute(symbol_of(self.machine, owner), str(key.value), unknown)
        return owner if name in ("copy", "to_dict") else None

    # Options that name a configuration file.

    def _of_parser(self, state: State, owner: Unknown, name: str, arguments: Arguments) -> Value | None:
        if name == "add_argument":
            default = arguments.value("default")
            option = _option(arguments)
            if isinstance(default, Const) and isinstance(default.value, str) and is_config(default.value) and option:
                state.set_attribute(owner.symbol, f"{_DEFAULT}{option}", default)
        if name not in known.PARSERS:
            return None
        made = Unknown(self.machine.fresh())
        for key, value in state.heap.get(owner.symbol, {}).items():
            if key.startswith(_DEFAULT):
                state.set_attribute(made.symbol, key.removeprefix(_DEFAULT), value)
        return made if name == "parse_args" else Items((made, Unknown(self.machine.fresh())))

    # Hydra.

    def missing_argument(self, state: State, function: Function, index: int) -> Value | None:
        """The value of the configuration parameter of a function that Hydra calls."""
        node = node_of(function)
        if index or not isinstance(node, cst.FunctionDef) or function.owner is not None:
            return None
        for decorator in node.decorators:
            made = decorator.decorator
            if isinstance(made, cst.Call) and self._value(state, function, made.func) in _HYDRA:
                return self._composed(state, function, made)
        return None

    def _composed(self, state: State, function: Function, decorator: cst.Call) -> Value | None:
        given: dict[str, str] = {}
        for place, argument in enumerate(decorator.args):
            by_place = "".join(known.HYDRA_PARAMETERS[place : place + 1])
            value = self._value(state, function, argument.value)
            if isinstance(value, Const) and isinstance(value.value, str):
                given[argument.keyword.value if argument.keyword is not None else by_place] = value.value
        primary = given.get("config_name")
        if primary is None or function.chunk.source is not self.machine.program.main:
            return None
        reader = Reader(self.machine.fresh, omega=True)
        return Hydra(lambda path: self._file(FilePath(path)), reader, given.get("config_path", ".")).composed(primary)

    def _value(self, state: State, function: Function, node: cst.BaseExpression) -> Value:
        return evaluate_silently(self.machine, state, function.frame, node, {})


_HYDRA = frozenset(map(Ref, known.HYDRA_MAIN))


def _has(content: Value, value: Items) -> bool:
    return content == value or (isinstance(content, Items) and any(_has(one, value) for one in content.values))


def _first(arguments: Arguments) -> Value | None:
    return arguments.values[0] if arguments.given and not arguments.given[0].star else None


def _is_text(value: Const) -> bool:
    return isinstance(value.value, str)


def _parent(path: FilePath) -> FilePath:
    name = posixpath.normpath(path.name)
    leads_up = name in (".", "..") or name.endswith("/..")
    return FilePath(posixpath.normpath(f"{name}/..") if leads_up else posixpath.dirname(name) or ".")


def _joined(values: tuple[Value, ...]) -> Value | None:
    """The joined path; None if a part is unknown."""
    first, *others = values or (None,)
    texts = [value.value for value in others if isinstance(value, Const) and isinstance(value.value, str)]
    if len(texts) < len(others) or any(text.startswith("/") for text in texts):
        return None
    if isinstance(first, FilePath):
        return FilePath(posixpath.normpath(posixpath.join(first.name, *texts)))
    if isinstance(first, Const) and isinstance(first.value, str):
        return Const(posixpath.join(first.value, *texts))
    return None


def _option(arguments: Arguments) -> str:
    """The attribute of a command-line option."""
    given = arguments.value("dest")
    flags = [one.value.value for one in arguments.given if not one.keyword and isinstance(one.value, Const)]
    long = [flag for flag in flags if isinstance(flag, str) and flag.startswith("--")]
    if isinstance(given, Const):
        return str(given.value)
    return long[0].lstrip("-").replace("-", "_") if long else ""
