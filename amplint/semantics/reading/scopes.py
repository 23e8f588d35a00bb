"""Relevant names of a program, and kinds of values implied by their use, read from the text.

Only a scaler has `unscale_`, only an optimizer is both stepped and zeroed: uses imply the kind of a value whose origin
is unseen. If only the name can decide, as for what is only stepped beside a backward pass on a scaled loss, it is one
of the guesses in `words`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Set

from amplint.regex import regex
from amplint.semantics.reading.program import Program
from amplint.semantics.words import MODEL_NAMES, OPTIMIZER_NAME
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import WORD, Chunk
from amplint.source.tree import every
from amplint.torchlib.names import FLOAT16_MAX, FLOAT16_SMALLEST_NORMAL

NUMERIC_KINDS = frozenset({"tensor_op"})
"""Events that numbers alone can cause, in a file without regions or scalers."""
EXTREME_NUMBER = regex(
    r"(?<![\w.])\.?\d[\d_.]*[eE](?:-0?[5-9]|-\d\d|\+?0?[4-9]|\+?\d\d)\d*\b|\b0?\.0{4,}\d|\b[6-9]\d{4}\b|\b\d{6,}\b"
)
_NUMBER_BOUND = regex(r"=\s*[-+(]*(?:(\d+(?:_\d+)*(?:\.\d*)?(?:[eE][-+]?\d+)?)|float\([\"']|\w+\.inf\b)")
_NAME_BEFORE = regex(r"\b([A-Za-z_]\w*)\s*(?::[^=,()\n]{1,40})?\Z")
_BEFORE = 300
"""The number of characters before a number within which the name that it is bound to is searched."""
_CALLED = regex(r"\b(\w+) *\(")
_PASSED_ON = regex(r"\*\*(\w+)|\breturn (\w+)[ \t]*(?:#|$)", re.MULTILINE)
_CLASS = regex(r"^class\s+\w+\(([^)]{0,2000})\)", re.MULTILINE)
_METHOD = regex(r"^[ \t]+(?:async )?def (\w+)\(", re.MULTILINE)
_CALLED_OF_SELF = regex(r"\bself\.(\w+)\(")
_MODEL_NAME = regex(r"\b(\w+)\.(?:eval|train|parameters|named_parameters)\(")
_POSITIONS = frozenset({"arange", "linspace"})
_TYPED_POSITIONS = regex(r"\b(?:arange|linspace)\([^\n]{0,400}(?:\bdtype\b|type)")
_THREAD_TARGET = regex(
    r"\btarget\s*=\s*(?:\w+\.)*(\w+)|\.(?:submit|map|imap\w*|starmap\w*|apply_async)\(\s*(?:\w+\.)*(\w+)"
    r"|\b(?:to_thread|run_in_threadpool)\(\s*(?:\w+\.)*(\w+)|\brun_in_executor\([^,()]*,\s*(?:\w+\.)*(\w+)"
)
THREAD_CALLS = frozenset(
    {
        "Thread",
        "Timer",
        "submit",
        "map",
        "imap",
        "imap_unordered",
        "map_async",
        "starmap",
        "apply",
        "apply_async",
        "start",
        "to_thread",
        "run_in_executor",
        "run_in_threadpool",
    }
)
_HANDS_TO_THREADS = THREAD_CALLS | {"target", "starmap_async"}
LONG_RUN = 300
LONGEST_NAME = 50
"""The number of parts up to which a chain is a name, which bounds the quadratic cost of its prefixes."""
SHORT_FUNCTION = 40
_IN_HALF = frozenset({"autocast", "half", "float16", "bfloat16"})
_HALF_NAMES = frozenset({"float16", "bfloat16"})
_TRAINERS = ("Trainer(", "TrainingArguments(")
"""Objects of frameworks that train, perhaps with what functions of other files load."""
_IMPORTED = regex(r"(?:^|;)[ \t]*(?:from[ \t]+[\w.]+[ \t]+)?import\b[ \t]*(\([^()]*\)|[^\n]*)", re.MULTILINE)
_RENAMED = regex(r"\b(\w+) as (\w+)\b")
_LIBRARY_IMPORT = regex(
    r"^[ \t]*(?:from[ \t]+(?:apex|mm[a-z0-9]+)[\w.]*[ \t]+import[ \t]*(\([^()]*\)|[^\n]*)|import[ \t]+(apex\b[^\n]*))",
    re.MULTILINE,
)
SCALER, OPTIMIZER, MODEL = "scaler", "optimizer", "model"
ACCELERATOR = "accelerator"
NAMED_OPTIMIZER = "optimizer by its name"
OPTIMIZERS = frozenset({OPTIMIZER, NAMED_OPTIMIZER})
_OF_MODELS = frozenset({"parameters", "named_parameters", "load_state_dict", "train", "eval"})
_ACCELERATOR_METHODS = frozenset({"accumulate", "gather_for_metrics", "prepare", "unwrap_model", "wait_for_everyone"})
"""Methods of Accelerate's `Accelerator` that no model, optimizer or engine has, beside `backward(loss)`."""
_BACKWARD_OF_LOSS = "backward of a loss"
_SHOWING_KINDS = _OF_MODELS | {"backward", "grad", "step", "unscale_"}
"""Each use that implies a kind includes one of these methods."""
_SCALED = regex(r"\.scale\([^()\n]*\)\.backward\(")
_SAVING = regex(r"[Ss]ave|[Cc]heckpoint|[Cc]kpt|[Rr]esume|[Rr]estore|[Ss]napshot|^load(?:_state)?$")
_SAVES_SCALER = regex(r"(?m)^(?! *return\b).*[Ss]cal\w*\.state_dict\(")
_RESTORES_SCALER = regex(r"[Ss]cal\w*\.load_state_dict\((?!state_dict\))")
"""Code that saves or restores a scaler itself, and does not only delegate for a wrapper of one."""


def dotted(node: cst.CSTNode) -> str | None:
    """`a.b.c` for an attribute chain of limited length, None for anything else."""
    kind = type(node)
    if kind is cst.Name:
        return node.value  # type: ignore[attr-defined, no-any-return]
    if kind is not cst.Attribute:
        return None
    parts: list[str] = []
    while type(node) is cst.Attribute and len(parts) < LONGEST_NAME:
        parts.append(node.attr.value)
        node = node.value
    if type(node) is not cst.Name:
        return None
    parts.append(node.value)
    return ".".join(reversed(parts))


def access_path(node: cst.CSTNode) -> str | None:
    """`a.b`, or `a['b'].c` and `a[i].c` where elements are selected by written keys or variables, for a chain of them;
    None for anything else.
    """
    if type(node) is cst.Name:
        return node.value
    parts: list[str] = []
    while len(parts) < LONGEST_NAME:
        if type(node) is cst.Attribute:
            parts.append(f".{node.attr.value}")
        elif type(node) is cst.Subscript and (key := _written_key(node)) is not None:
            parts.append(f"[{key}]")
        else:
            break
        node = node.value
    return node.value + "".join(reversed(parts)) if type(node) is cst.Name else None


def _written_key(node: cst.Subscript) -> str | None:
    """The text, the whole number or the variable that alone selects an element, as it is written."""
    index = node.slice[0].slice if len(node.slice) == 1 else None
    key = index.value if isinstance(index, cst.Index) else None
    if isinstance(key, cst.Name):
        return key.value
    found = key.evaluated_value if isinstance(key, (cst.SimpleString, cst.Integer)) else None
    return repr(found) if isinstance(found, (str, int)) else None


def last_name(node: cst.BaseExpression) -> str:
    """`c` for `c` and for `a.b.c`, whatever `a.b` is; empty for anything else."""
    name = node.attr if isinstance(node, cst.Attribute) else node
    return name.value if isinstance(name, cst.Name) else ""


def extreme_names(chunks: Collection[Chunk], assuming: bool = False) -> frozenset[str]:
    """The names of variables, attributes and parameters with a number beyond float16, in a file that uses float16.

    If tensors are assumed to be half, in any file.
    """
    if not assuming and not any(map(_may_use_float16, chunks)):
        return frozenset()
    return frozenset().union(*map(_given_extremes, chunks))


@cached_per_chunk
def _may_use_float16(chunk: Chunk) -> bool:
    return any(sign in chunk.text for sign in ("autocast", "half", "float16", "dtype"))


@cached_per_chunk
def _given_extremes(chunk: Chunk) -> frozenset[str]:
    text = chunk.text
    numbers = _NUMBER_BOUND.finditer(text)
    starts = [one.start() for one in numbers if one[1] is None or is_extreme(float(one[1]))]
    names = (_NAME_BEFORE.search(text[max(0, start - _BEFORE) : start]) for start in starts)
    return frozenset(name[1] for name in names if name is not None)


def renamed_triggers(chunks: Iterable[Chunk], triggers: Set[str]) -> frozenset[str]:
    """The names by which imports bind trigger words (`from torch import autocast as ac`)."""
    return frozenset(new for chunk in chunks for old, new in _renames(chunk) if old in triggers)


@cached_per_chunk
def _renames(chunk: Chunk) -> tuple[tuple[str, str], ...]:
    if not {"as", "import"} <= chunk.words:
        return ()
    return tuple(found for names in _IMPORTED.findall(chunk.text) for found in _RENAMED.findall(names))


def library_names(chunks: Iterable[Chunk]) -> frozenset[str]:
    """The names bound by imports from older mixed-precision libraries."""
    texts = [chunk.text for chunk in chunks if "import" in chunk.text and ("apex" in chunk.text or "mm" in chunk.text)]
    found = (found.group(1) or found.group(2) for text in texts for found in _LIBRARY_IMPORT.finditer(text))
    return frozenset(word for names in found for word in WORD.findall(names)) - {"as", "import"}


def model_names(chunks: Collection[Chunk]) -> frozenset[str]:
    """The names by which a file calls its models, and those of thread pools."""
    texts = [chunk.text for chunk in chunks]
    found = frozenset().union(*map(_named_models, chunks))
    threads = THREAD_CALLS if any("Thread" in text or "thread" in text for text in texts) else frozenset()
    return found | MODEL_NAMES | threads


@cached_per_chunk
def _named_models(chunk: Chunk) -> frozenset[str]:
    if chunk.words.isdisjoint(_OF_MODELS):
        return frozenset()
    return frozenset(_MODEL_NAME.findall(chunk.text)) - {"self"}


def position_names(chunks: Iterable[Chunk]) -> frozenset[str]:
    """The names of functions that create positions, in a file with regions or positions of a non-literal dtype."""
    found = any(
        "autocast" in chunk.words
        or (not chunk.words.isdisjoint(_POSITIONS) and _TYPED_POSITIONS.search(chunk.text) is not None)
        for chunk in chunks
    )
    return _POSITIONS if found else frozenset()


def thread_targets(chunks: Iterable[Chunk]) -> frozenset[str]:
    """The names of functions that a file passes to threads."""
    return frozenset().union(*map(_thread_targets, chunks))


@cached_per_chunk
def _thread_targets(chunk: Chunk) -> frozenset[str]:
    if chunk.words.isdisjoint(_HANDS_TO_THREADS):
        return frozenset()
    return frozenset(name for found in _THREAD_TARGET.findall(chunk.text) for name in found if name)


def saving_names(chunks: Collection[Chunk]) -> frozenset[str]:
    """The words of calls that may save or restore state, in a file with a scaler or with apex's loss scaling.

    None in a file that, by its words, both saves and restores a scaler.
    """
    if not any(map(_scales, chunks)):
        return frozenset()
    if any(_saves_scaler(chunk) for chunk in chunks) and any(_restores_scaler(chunk) for chunk in chunks):
        return frozenset()
    return frozenset({"state_dict", "load_state_dict"}).union(*map(_saving_calls, chunks))


@cached_per_chunk
def _scales(chunk: Chunk) -> bool:
    named = any(word in chunk.text for word in ("Scaler", "unscale_", "amp.initialize("))
    return named or _SCALED.search(chunk.text) is not None


@cached_per_chunk
def called_names(chunk: Chunk) -> frozenset[str]:
    """The last names of all callees, and of what is defined."""
    return frozenset(_CALLED.findall(chunk.text))


@cached_per_chunk
def _saving_calls(chunk: Chunk) -> frozenset[str]:
    return frozenset(filter(_SAVING.search, called_names(chunk)))


@cached_per_chunk
def _saves_scaler(chunk: Chunk) -> bool:
    return "cal" in chunk.text and _SAVES_SCALER.search(chunk.text) is not None


@cached_per_chunk
def _restores_scaler(chunk: Chunk) -> bool:
    return "cal" in chunk.text and _RESTORES_SCALER.search(chunk.text) is not None


def is_extreme(number: float) -> bool:
    """Whether float16 rounds `number` to infinity, 0 or a subnormal."""
    return abs(number) > FLOAT16_MAX or 0 < abs(number) < FLOAT16_SMALLEST_NORMAL


_TRAINS = (
    ".backward(",
    ".zero_grad(",
    "GradScaler",
    "autocast",
    "clip_grad",
    "get_total_norm",
    "custom_fwd",
    "no_sync",
)
_GRADIENT = regex(r"\.grad\b")
_UNSCALES = regex(r"\bunscale_")
_OPTIMIZES = regex(r"opt|sch|scal|adam|sgd", re.IGNORECASE)
_SWITCHES = regex(r"(?:\b|_)amp(?:\b|_)|precision|mixed|fp16|bf16", re.IGNORECASE)


@cached_per_chunk
def _holds_extreme_number(chunk: Chunk) -> bool:
    """Whether `chunk` contains a number outside of float16's range, apart from tables of numbers at the top level."""
    table = chunk.name is None and chunk.text.count("\n") > LONG_RUN
    return not table and EXTREME_NUMBER.search(chunk.text) is not None


def _numbers_only(chunks: Iterable[Chunk], kinds: Set[str]) -> bool:
    return kinds <= NUMERIC_KINDS and not any("autocast" in chunk.words for chunk in chunks)


def _calls_one_of(chunk: Chunk, names: Set[str]) -> bool:
    return bool(names) and not names.isdisjoint(called_names(chunk))


def relevant(program: Program, triggers: Set[str], names: Set[str], calls: Set[str], kinds: Set[str]) -> set[Chunk]:
    """The chunks in which one of `kinds` can occur.

    They contain one of `triggers` or `names`, a call of one of `calls`, or refer to such a chunk. If only numbers can
    cause `kinds`, the triggers do not count. In other files than the linted one only code counts that trains, saves or
    enters contexts, short functions that its half-precision code calls, and code that loads half models for its
    trainers, unless the `whole` program does.
    """
    ours = {*(program.chunks if program.whole else program.main.chunks)}
    words = names | ({"inf"} if _numbers_only(ours, kinds) else triggers)
    found = {
        chunk for chunk in ours if _uses(chunk, words) or _holds_extreme_number(chunk) or _calls_one_of(chunk, calls)
    }
    found |= {chunk for user in ours for chunk in program.mentions[user] if chunk not in ours and _names_half(chunk)}
    if any(sign in program.main.text for sign in _TRAINERS) or any(map(_trains, program.main.chunks)):
        loading = [chunk for chunk in program.chunks[len(ours) :] if "from_pretrained" in chunk.words]
        tables = {chunk: {*filter(_names_half, program.mentions[chunk])} for chunk in loading}
        found |= {chunk for chunk in loading if tables[chunk] or _loads_half(chunk)}.union(*tables.values())
    saves = "state_dict" in names
    found |= {chunk for chunk in program.chunks[len(ours) :] if _trains(chunk) or (saves and _saves(chunk))}
    users: dict[Chunk, list[Chunk]] = {}
    for user, used in program.mentions.items():
        for chunk in used:
            users.setdefault(chunk, []).append(user)
            own = user.source is program.main
            if own and _inherits(user, chunk) and _methods(user) & _called_of_self(chunk):
                users.setdefault(user, []).append(chunk)
    fresh = list(found)
    while fresh:
        for user in users.get(fresh.pop(), ()):
            if user not in found:
                found.add(user)
                fresh.append(user)
    signs = words & (triggers | {"numpy"})
    return found | {chunk for chunk in _helpers(program, found) if chunk.words & signs or _holds_extreme_number(chunk)}


def _uses(chunk: Chunk, words: Set[str]) -> bool:
    """Whether one of `words` occurs in the code of `chunk`."""
    return not chunk.words.isdisjoint(words) and not chunk.used.isdisjoint(words)


@cached_per_chunk
def _names_half(chunk: Chunk) -> bool:
    """Whether `chunk` is a short function, class or table that names a half dtype, which others may use."""
    return not chunk.words.isdisjoint(_HALF_NAMES) and chunk.text.count("\n") <= SHORT_FUNCTION


@cached_per_chunk
def _loads_half(chunk: Chunk) -> bool:
    """Whether `chunk` loads a pretrained model and names a half dtype."""
    return "from_pretrained" in chunk.words and not chunk.words.isdisjoint(_HALF_NAMES)


def _inherits(chunk: Chunk, other: Chunk) -> bool:
    """Whether `chunk` is a class with the class `other` as a base, by their names."""
    return other.name is not None and other.name in _bases(chunk)


@cached_per_chunk
def _bases(chunk: Chunk) -> frozenset[str]:
    header = _CLASS.search(chunk.text) if "class" in chunk.words and chunk.name is not None else None
    return frozenset(WORD.findall(header[1])) if header is not None else frozenset()


@cached_per_chunk
def _methods(chunk: Chunk) -> frozenset[str]:
    return frozenset(_METHOD.findall(chunk.text))


@cached_per_chunk
def _called_of_self(chunk: Chunk) -> frozenset[str]:
    """The methods that a class calls on `self`, which a subclass may override."""
    return frozenset(_CALLED_OF_SELF.findall(chunk.text))


def _helpers(program: Program, found: Set[Chunk]) -> Iterator[Chunk]:
    """Short functions of other files to which code near regions or half tensors passes values."""
    for user in program.main.chunks:
        if user in found and not user.words.isdisjoint(_IN_HALF):
            for chunk in program.mentions[user]:
                if chunk not in found and chunk.source is not program.main and is_short_function(chunk):
                    yield chunk


@cached_per_chunk
def is_short_function(chunk: Chunk) -> bool:
    """Whether `chunk` is a function of a few lines."""
    return chunk.name is not None and not chunk.is_class and chunk.text.count("\n") <= SHORT_FUNCTION


@cached_per_chunk
def _trains(chunk: Chunk) -> bool:
    """Whether `chunk` trains; environments are stepped too, and libraries use contexts without effect."""
    text = chunk.code
    if any(sign in text for sign in _TRAINS) or ("unscale_" in text and _UNSCALES.search(text)) or _steps(text):
        return True
    if ".grad" in text and _GRADIENT.search(text):
        return True
    return "nullcontext" in text and _SWITCHES.search(text) is not None


def _steps(text: str) -> bool:
    """Whether `step` is called on a name like an optimizer's, of one or two letters, or on an expression."""
    end = text.find(".step(")
    while end >= 0:
        start = end
        while start > 0 and (text[start - 1].isalnum() or text[start - 1] == "_"):
            start -= 1
        name = text[start:end]
        if _OPTIMIZES.search(name) or len(name) in (1, 2) or (not name and text[end - 1 : end] in ("]", ")")):
            return True
        end = text.find(".step(", end + 1)
    return False


@cached_per_chunk
def _saves(chunk: Chunk) -> bool:
    text = chunk.code
    return "torch.save(" in text or ("optimizer" in text and "state_dict" in text)


def kinds_in(chunk: Chunk) -> dict[str, str]:
    """The `kinds` of the paths in a chunk, whose tree is searched only if it has a method that implies one."""
    return {} if chunk.used.isdisjoint(_SHOWING_KINDS) else kinds(chunk.module)


def kinds(tree: cst.CSTNode) -> dict[str, str]:
    """Access path -> its kind (`scaler`, `optimizer`, ...), for the paths in `tree` whose use implies it."""
    steps: dict[str, set[str]] = {}
    methods: dict[str, set[str]] = {}
    scaled_backward: set[str] = set()
    bare_steps: set[str] = set()
    for node in every(tree, cst.Attribute, cst.Call):
        if isinstance(node, cst.Attribute):
            path = access_path(node.value) if node.attr.value == "param_groups" else None
            if path and path.rpartition(".")[2] != "optimizer":
                methods.setdefault(path, set()).add("param_groups")
            continue
        if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)):
            continue
        path, method = access_path(node.func.value), node.func.attr.value
        if method in ("train", "eval") and len(node.args) > (method == "train"):
            continue
        if method in ("backward", "grad") and (scaler := _scaler_of(_differentiated(node, method))) is not None:
            scaled_backward.add(scaler)
        if path is None:
            continue
        methods.setdefault(path, set()).add(method)
        if method == "backward" and node.args:
            methods[path].add(_BACKWARD_OF_LOSS)
        argument = access_path(node.args[0].value) if node.args else None
        if method == "step" and not node.args:
            bare_steps.add(path)
        if argument and method in ("step", "unscale_"):
            steps.setdefault(path, set()).add(argument)
    return _kinds_by_use(methods, steps, bare_steps, scaled_backward)


def _differentiated(node: cst.Call, method: str) -> cst.BaseExpression | None:
    """What `x.backward()` or `autograd.grad(x, ...)` differentiates."""
    if method == "backward":
        return node.func.value if isinstance(node.func, cst.Attribute) else None
    outputs = (one.value for one in node.args if one.keyword is not None and one.keyword.value == "outputs")
    first = (one.value for one in node.args[:1] if one.keyword is None)
    return next(outputs, next(first, None))


def _scaler_of(node: cst.BaseExpression | None) -> str | None:
    """The access path of `scaler` in `scaler.scale(x)`; None for anything else."""
    function = node.func if isinstance(node, cst.Call) else None
    scales = isinstance(function, cst.Attribute) and function.attr.value == "scale"
    return access_path(function.value) or "" if isinstance(function, cst.Attribute) and scales else None


def _kinds_by_use(
    methods: dict[str, set[str]], steps: dict[str, set[str]], bare_steps: set[str], scaled_backward: set[str]
) -> dict[str, str]:
    """Access path -> its kind, by the methods called on it and the arguments of its `step`."""
    found: dict[str, str] = {}
    only_stepped = {path for path in bare_steps if scaled_backward and methods[path] == {"step"}}
    named = {path for path in only_stepped if OPTIMIZER_NAME.search(path)}
    for path, used in methods.items():
        certain = "unscale_" in used or path in scaled_backward
        if certain or (path in steps and {"step", "update"} <= used) or {"scale", "step", "update"} <= used:
            found[path] = SCALER
            found.update(dict.fromkeys(steps.get(path, ()), OPTIMIZER))
        elif _BACKWARD_OF_LOSS in used and not used.isdisjoint(_ACCELERATOR_METHODS):
            found[path] = ACCELERATOR
        elif ({"step", "zero_grad"} <= used and "backward" not in used) or path in named:
            found.setdefault(path, NAMED_OPTIMIZER if path in named else OPTIMIZER)
        elif not used.isdisjoint(_OF_MODELS):
            found.setdefault(path, MODEL)
    return found


@cached_per_chunk
def passed_on(chunk: Chunk) -> frozenset[str]:
    """The names of dictionaries that a chunk passes on as keyword arguments, or returns."""
    return frozenset(filter(None, (name for pair in _PASSED_ON.findall(chunk.text) for name in pair)))
