"""Execution of a script under the tracer, as `python script.py` or `python -m module` would."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType, TracebackType

from amplint.trace.frames import is_own
from amplint.trace.gpus import Gpu
from amplint.trace.watching import Watch

RAISED, INTERRUPTED = 1, 130
_HOOKS = r"Using `torch\.compile\(module\)` when there are global hooks"
"""What PyTorch warns of at each call of a compiled model: the hooks are the tracer's, and the model runs eagerly."""
_TRACER = f"{os.path.dirname(os.path.dirname(__file__))}{os.sep}"


class NoScript(Exception):
    """There is nothing to run; the message is one line for the user."""


def run(script: str, arguments: Sequence[str], watch: Watch, *, module: bool = False, gpu: Gpu | None = None) -> int:
    """Run `script`, a path or with `module` a name as for `python -m`, under `watch`; return its exit status.

    With `gpu` it is a dry run on that GPU. A script that is stopped after the window succeeds. Its exceptions are shown
    as Python shows them. The script takes over the process: its arguments, `sys.path` and `__main__` are kept, since
    exit handlers need them. Raises NoScript.
    """
    watch.gpu = gpu
    watch.record.command = (*["-m"] * module, script, *arguments)
    return _status(watch, *begin(script, arguments, module=module))


def begin(script: str, arguments: Sequence[str], *, module: bool = False) -> tuple[CodeType, ModuleType]:
    """Set up the process as Python does for `script`; return its code and its `__main__`.

    Raises NoScript.
    """
    spec = _spec(script) if module else None
    path = script if spec is None else str(spec.origin)
    code = _code(path)
    main = ModuleType("__main__")
    main.__file__ = code.co_filename
    main.__builtins__ = __builtins__  # type: ignore[attr-defined]
    main.__loader__ = SourceFileLoader("__main__", path)
    if spec is not None:
        main.__spec__, main.__package__, main.__loader__ = spec, spec.parent, spec.loader
    sys.argv = [path, *arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.realpath(path))
    sys.modules["__main__"] = main
    return code, main


def _status(watch: Watch, code: CodeType, main: ModuleType) -> int:
    warnings.filterwarnings("ignore", _HOOKS, UserWarning)
    try:
        with watch:
            exec(code, vars(main))
    except SystemExit as ended:
        return _exit_status(ended.code)
    except KeyboardInterrupt as failure:
        _show(failure)
        return INTERRUPTED
    except BaseException as failure:
        _show(failure)
        return RAISED
    return 0


def _exit_status(code: object) -> int:
    """The exit status for the argument of `sys.exit`."""
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return RAISED


def _show(failure: BaseException) -> None:
    """Print the exception as Python does at exit, with the traceback that it would have without the tracer."""
    with contextlib.suppress(AttributeError, ValueError):  # the script has closed or replaced it
        sys.stdout.flush()
    failure.__traceback__ = _without_tracer(failure.__traceback__)
    sys.excepthook(type(failure), failure, failure.__traceback__)


def _without_tracer(trace: TracebackType | None) -> TracebackType | None:
    """`trace` from the script on, without the tracer's frames.

    A function of PyTorch's Python API calls `handle_torch_function`, which calls the tracer, which calls it again.
    """
    kept: list[TracebackType] = []
    for level in _levels(trace):
        code = level.tb_frame.f_code
        if code.co_filename.startswith(_TRACER):
            if kept and kept[-1].tb_frame.f_code.co_name == "handle_torch_function":
                del kept[-2:]
        elif kept or is_own(code):
            kept.append(level)
    for level, following in zip(kept, [*kept[1:], None], strict=False):
        level.tb_next = following
    return kept[0] if kept else trace


def _levels(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _code(path: str) -> CodeType:
    try:
        with io.open_code(os.path.abspath(path)) as file:
            return compile(file.read(), os.path.abspath(path), "exec")
    except OSError as failure:
        raise NoScript(f"{path}: {failure.strerror or failure}") from None
    except (SyntaxError, ValueError) as failure:
        raise NoScript(f"{path}: {failure}") from None


def _spec(name: str) -> ModuleSpec:
    """The spec of module `name`, or of `name.__main__` for a package."""
    sys.path.insert(0, os.getcwd())
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as failure:
        raise NoScript(f"{name}: {failure}") from None
    finally:
        del sys.path[0]
    if spec is None or not spec.has_location:
        raise NoScript(f"{name}: no such module")
    return spec
